import type { Decision } from '../../api/decision.js'
import type { DecisionOrigin } from '../../api/decision-metadata.js'
import { TollgateError, type TollgateErrorCode } from '../../api/error.js'
import type { Keys } from '../../input/keys.js'
import { YieldTicks } from '../../platform/yield-tick.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { compilePolicy } from '../compile-policies.js'
import type { Engine } from '../engine.js'
import { type LimiterBackend, type TakeManyResults, takeEach, type VariantIndex } from '../limiter-backend.js'
import type { MemoryBackend } from '../memory/memory-backend.js'
import type { Operation, OperationResult, ScheduledReservation } from '../operation.js'
import type { Units } from '../units.js'

/**
 * Answers synchronously in place of a store that fails. Refunds, settlements and cancellations concern only units
 * that it took. A change that cannot be applied returns a decision whose source is `'none'`.
 */
export interface FallbackResponder
  extends Pick<MemoryBackend, 'take' | 'takeBy' | 'takeMany' | 'execute' | 'schedule'> {
  /** {@link LimiterBackend.openVariant}: `policySet` has the store's numbers. */
  openVariant(policySet: PolicySet, variant: VariantIndex): FallbackResponder
  close(): void
}

/** The failures of the store. All others are the caller's, and would occur on any store. */
const STORE_FAILURES: readonly TollgateErrorCode[] = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT', 'STORE_ERROR', 'OVERLOADED']

function rethrowUnlessStoreFailure(error: unknown): void {
  if (!(error instanceof TollgateError) || !STORE_FAILURES.includes(error.code)) {
    throw error
  }
}

/**
 * A backend that answers with a fallback while its store is known to be down, or once it has failed. Calls
 * that fail together are answered in call order.
 */
export class FallbackBackend implements LimiterBackend {
  readonly isSync = false
  readonly origin: DecisionOrigin
  readonly policySet: PolicySet
  readonly #store: LimiterBackend
  readonly #fallback: FallbackResponder
  readonly #engine: Engine
  readonly #yieldTicks = new YieldTicks()

  /** @param engine - Checks whether numbers can be counted exactly. */
  constructor(store: LimiterBackend, fallback: FallbackResponder, engine: Engine) {
    this.origin = store.origin
    this.policySet = store.policySet
    this.#engine = engine
    this.#store = store
    this.#fallback = fallback
  }

  get isDown(): boolean {
    return this.#store.isDown
  }

  // Like #withFallback, without its closures: this is the most frequent call.
  take(key: string, cost: number): Decision | Promise<Decision> {
    const fallback = this.#fallback
    if (this.#store.isDown) {
      return this.#yieldTicks.resolve(fallback.take(key, cost))
    }
    const useFallback = (error: unknown): Decision => {
      rethrowUnlessStoreFailure(error)
      return fallback.take(key, cost)
    }
    try {
      return Promise.resolve(this.#store.take(key, cost)).then(undefined, useFallback)
    } catch (error) {
      return useFallback(error)
    }
  }

  takeBy(keys: Keys, cost: Units): Decision | Promise<Decision> {
    return this.#withFallback((backend) => backend.takeBy(keys, cost))
  }

  async takeMany(keys: readonly string[], costs: readonly number[]): Promise<TakeManyResults> {
    if (this.#store.isDown) {
      return this.#yieldTicks.resolve(this.#fallback.takeMany(keys, costs))
    }
    // Each key separately: decisions of the store on other keys stay valid. Later calls are
    // answered after these.
    return takeEach(keys, costs, (key, cost) => this.take(key, cost))
  }

  execute(keys: Keys, operation: Operation): OperationResult | Promise<OperationResult> {
    switch (operation.kind) {
      // Only the backend that took the units can refund them.
      case 'refund':
      case 'extend':
      case 'settle':
      case 'renew':
      case 'release':
      case 'renewPermit':
      case 'cancelScheduled':
        return (operation.source === 'store' ? this.#store : this.#fallback).execute(keys, operation)
      case 'reset':
      case 'unblock':
      case 'clearOverride':
        return this.#withFallback(
          (backend) => backend.execute(keys, operation),
          // State that the store removes must not reappear when the fallback answers the next time.
          (result) => {
            this.#fallback.execute(keys, operation)
            return result
          },
        )
      case 'override':
        // Wrong numbers are the caller's error on any store.
        for (const policy of operation.policies) {
          if (policy !== undefined) {
            compilePolicy(this.#engine, policy, 'override: ')
          }
        }
        break
    }
    return this.#withFallback((backend) => backend.execute(keys, operation))
  }

  schedule(keys: Keys, cost: Units, maxWaitUs: number): ScheduledReservation | Promise<ScheduledReservation> {
    return this.#withFallback((backend) => backend.schedule(keys, cost, maxWaitUs))
  }

  openVariant(policySet: PolicySet, variant: VariantIndex): FallbackBackend {
    const fallback = this.#fallback.openVariant(policySet, variant)
    try {
      return new FallbackBackend(this.#store.openVariant(policySet, variant), fallback, this.#engine)
    } catch (error) {
      fallback.close()
      throw error
    }
  }

  ready(takesOver: boolean): Promise<void> {
    return this.#store.ready(takesOver)
  }

  async close(): Promise<void> {
    try {
      await this.#store.close()
    } finally {
      // Last: calls in flight may still fail and need the fallback.
      this.#fallback.close()
    }
  }

  /** Asks the store. If it is down or fails, the fallback answers. */
  #withFallback<T>(
    call: (backend: LimiterBackend | FallbackResponder) => T | Promise<T>,
    onStoreResult?: (result: T) => T,
  ): T | Promise<T> {
    if (this.#store.isDown) {
      return this.#yieldTicks.resolve(call(this.#fallback) as T)
    }
    const useFallback = (error: unknown): T => {
      rethrowUnlessStoreFailure(error)
      return call(this.#fallback) as T
    }
    try {
      return Promise.resolve(call(this.#store)).then(onStoreResult, useFallback)
    } catch (error) {
      return useFallback(error)
    }
  }
}
