import type { Decision } from '../../api/decision.js'
import { withMetadata } from '../../api/decision-metadata.js'
import { Keys } from '../../input/keys.js'
import { YieldTicks } from '../../platform/yield-tick.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { type LimiterBackend, type TakeManyResults, takeManyResultsOf } from '../limiter-backend.js'
import type { Operation, OperationResult, ScheduledReservation } from '../operation.js'
import type { LocalOptions } from './local-options.js'
import { RefusalCache } from './refusal-cache.js'

/**
 * A backend that decides some calls in this process, without asking the store.
 *
 * Calls on one key stay in order: while one of them waits for the answer to another, later ones wait
 * behind it.
 */
export class LocalBackend implements LimiterBackend {
  readonly isSync = false
  readonly origin: object
  readonly #store: LimiterBackend
  readonly #refusals: RefusalCache
  readonly #yieldTicks = new YieldTicks()

  /** @param now - Milliseconds of a clock that never steps and that counts suspension. */
  constructor(store: LimiterBackend, policySet: PolicySet, options: LocalOptions, now: () => number) {
    this.origin = store.origin
    this.#store = store
    this.#refusals = new RefusalCache(policySet, options, now)
  }

  get isDown(): boolean {
    return this.#store.isDown
  }

  take(key: string, cost: number): Decision | Promise<Decision> {
    // A value that is not a valid key is not among the refused keys. The store reports it.
    if (!this.#refusals.has(key)) {
      return this.#ask(key, cost)
    }
    const refused = this.#refusals.decisionOnKey(key, cost)
    return refused === undefined
      ? this.takeBy(new Keys([key], undefined), cost)
      : this.#yieldTicks.resolve(withMetadata(refused, this.origin, key, cost))
  }

  takeBy(keys: Keys, cost: number): Decision | Promise<Decision> {
    const refused = this.#refusals.decisionOn(keys, cost)
    return refused === undefined
      ? this.#refusals.inTurn(
          keys,
          cost,
          () => this.#ask(keys, cost),
          () => this.takeBy(keys, cost),
        )
      : this.#yieldTicks.resolve(withMetadata(refused, this.origin, keys, cost))
  }

  async takeMany(keys: readonly string[], costs: readonly number[]): Promise<TakeManyResults> {
    const calls = keys.map(async (key, index) => this.take(key, costs[index] as number))
    return takeManyResultsOf(await Promise.allSettled(calls))
  }

  execute(keys: Keys, operation: Operation): OperationResult | Promise<OperationResult> {
    const callStore = () => this.#store.execute(keys, operation)
    switch (operation.kind) {
      case 'peek':
        return callStore()
      case 'takeUpTo':
        // It is refused if not even one unit is left.
        return this.#executeTake(keys, operation, 1)
      case 'reserve':
        return this.#executeTake(keys, operation, operation.units)
      case 'penalize':
        return this.#refusals.inTurn(keys, 0, callStore, () => this.execute(keys, operation))
      default:
        this.#refusals.forget(keys)
        return callStore()
    }
  }

  schedule(keys: Keys, cost: number, maxWaitUs: number): ScheduledReservation | Promise<ScheduledReservation> {
    return this.#refusals.inTurn(
      keys,
      0,
      () => this.#store.schedule(keys, cost, maxWaitUs),
      () => this.schedule(keys, cost, maxWaitUs),
    )
  }

  ready(): Promise<void> {
    return this.#store.ready()
  }

  close(): Promise<void> {
    return this.#store.close()
  }

  /** Takes units from the store. */
  #ask(keys: string | Keys, cost: number): Decision | Promise<Decision> {
    const { sentAt } = this.#refusals
    const answer = typeof keys === 'string' ? this.#store.take(keys, cost) : this.#store.takeBy(keys, cost)
    return answer instanceof Promise ? this.#refusals.learn(answer, keys, cost, sentAt, (decision) => decision) : answer
  }

  /** An operation that takes units from the store, and that is refused if `cost` does not fit. */
  #executeTake(keys: Keys, operation: Operation, cost: number): OperationResult | Promise<OperationResult> {
    const refused = this.#refusals.decisionOn(keys, cost)
    if (refused !== undefined) {
      return this.#yieldTicks.resolve({ decision: refused, units: 0 })
    }
    const callStore = () => {
      const { sentAt } = this.#refusals
      const answer = this.#store.execute(keys, operation)
      return answer instanceof Promise
        ? this.#refusals.learn(answer, keys, cost, sentAt, ({ decision }) => decision)
        : answer
    }
    return this.#refusals.inTurn(keys, cost, callStore, () => this.#executeTake(keys, operation, cost))
  }
}
