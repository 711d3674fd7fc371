import type { Decision } from '../../api/decision.js'
import { TollgateError } from '../../api/error.js'
import type { Keys } from '../../input/keys.js'
import { translated } from '../../input/options.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { compilePolicySet } from '../compile-policies.js'
import type { Engine, EngineLimiterState, EnginePolicySet, EngineStore } from '../engine.js'
import type { TakeManyResults, VariantIndex } from '../limiter-backend.js'
import { MemoryBackend } from '../memory/memory-backend.js'
import type { Operation, OperationResult, ScheduledReservation } from '../operation.js'
import type { FallbackResponder } from './fallback-backend.js'
import { shareOf, shareOfNumbers } from './share.js'

/** The most keys held separately for one server, by all limiters of the process. */
const MAX_KEYS = 1_000_000

/**
 * The embedded store as a fallback: it enforces a share of a limiter's numbers in this process.
 *
 * All limiters of one prefix on one server share their counts, in all threads, for the lifetime of
 * the process.
 */
export class EmbeddedShare implements FallbackResponder {
  readonly #backend: MemoryBackend
  readonly #engine: Engine
  readonly #share: number

  /**
   * @param engine - The engine that counts.
   * @param address - The server that the share replaces.
   * @param shared - The share of the limiter's policies.
   * @param share - The size of the share.
   * @param origin - Identifies the limiter in decision metadata.
   * @throws {TollgateError} `INVALID_OPTION` while the prefix is open with other numbers.
   */
  static open(
    engine: Engine,
    address: string,
    prefix: string,
    shared: PolicySet,
    share: number,
    origin: object,
  ): EmbeddedShare {
    // The colon separates the name from users' store names, which have none.
    const store = new engine.MemoryStore(MAX_KEYS, `fallback: ${address}`, false)
    const policies = compilePolicySet(engine, shared)
    const state = translated('INVALID_OPTION', `onStoreFailure: prefix ${JSON.stringify(prefix)}`, () => {
      return openState(store, prefix, policies)
    })
    return new EmbeddedShare(engine, share, new MemoryBackend(engine, state, undefined, shared, origin))
  }

  private constructor(engine: Engine, share: number, backend: MemoryBackend) {
    this.#engine = engine
    this.#share = share
    this.#backend = backend
  }

  take(key: string, cost: number): Decision {
    return withSource(this.#backend.take(key, cost))
  }

  takeBy(keys: Keys, cost: number): Decision {
    return withSource(this.#backend.takeBy(keys, cost))
  }

  takeMany(keys: readonly string[], costs: readonly number[]): TakeManyResults {
    const results = this.#backend.takeMany(keys, costs)
    return results.map((result) => (result instanceof TollgateError ? result : withSource(result)))
  }

  execute(keys: Keys, operation: Operation): OperationResult {
    if (operation.kind === 'override') {
      const policies = shareOfNumbers(this.#engine, operation.policies, this.#share)
      return policies === undefined ? this.#notApplied(keys) : this.#execute(keys, { ...operation, policies })
    }
    return this.#execute(keys, operation)
  }

  schedule(keys: Keys, cost: number, maxWaitUs: number): ScheduledReservation {
    const reservation = this.#backend.schedule(keys, cost, maxWaitUs)
    withSource(reservation.decision)
    return reservation
  }

  openVariant(policySet: PolicySet, variant: VariantIndex): EmbeddedShare {
    const shared = shareOf(this.#engine, policySet, this.#share)
    return new EmbeddedShare(this.#engine, this.#share, this.#backend.openVariant(shared, variant))
  }

  close(): void {
    void this.#backend.close()
  }

  #execute(keys: Keys, operation: Operation): OperationResult {
    const decidedAtMs = operation.kind === 'acquire' ? this.#engine.elapsedMs() : undefined
    try {
      const result = this.#backend.execute(keys, operation)
      withSource(result.decision)
      return decidedAtMs === undefined ? result : { ...result, decidedAtMs }
    } catch (error) {
      if (TollgateError.is(error) && error.code === 'STORE_FULL') {
        return this.#notApplied(keys)
      }
      throw error
    }
  }

  /** The result of a change that cannot be applied. */
  #notApplied(keys: Keys): OperationResult {
    const { decision } = this.#backend.execute(keys, { kind: 'peek', cost: 0 })
    return { decision: withSource(decision, 'none'), units: 0 }
  }
}

function openState(store: EngineStore, prefix: string, policies: EnginePolicySet): EngineLimiterState {
  try {
    return store.open(prefix, policies)
  } catch {
    throw new Error('is open in this process with another policy or another share, and its counts are shared')
  }
}

/** Sets the source of a decision that no caller has seen yet. */
function withSource(decision: Decision, source: Decision['source'] = 'fallback'): Decision {
  const changed: { source: Decision['source'] } = decision
  changed.source = source
  return decision
}
