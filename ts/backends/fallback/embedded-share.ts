import type { Decision } from '../../api/decision.js'
import type { DecisionOrigin } from '../../api/decision-metadata.js'
import { TollgateError } from '../../api/error.js'
import type { Keys } from '../../input/keys.js'
import { translated } from '../../input/options.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { compilePolicySet } from '../compile-policies.js'
import type { Engine, EngineLimiterState, EnginePolicySet, EngineStore } from '../engine.js'
import type { TakeManyResults, VariantIndex } from '../limiter-backend.js'
import { MemoryBackend } from '../memory/memory-backend.js'
import type { Operation, OperationResult, ScheduledReservation } from '../operation.js'
import { totalOf, type Units } from '../units.js'
import type { FallbackResponder } from './fallback-backend.js'
import { FixedResponses, limitNumbersOf } from './fixed-responses.js'
import { shareOf, shareOfNumbers } from './share.js'

/** The most keys held separately for one server, by all limiters of the process. */
const MAX_KEYS = 1_000_000

/**
 * The embedded store as a fallback: it enforces a share of a limiter's numbers in this process. All limiters
 * of one prefix on one server share their counts, in all threads, for the lifetime of the process.
 *
 * A call whose cost is above the share, but not above the limiter's own limit, is refused as by
 * `onStoreFailure: 'refuse'`: the store may admit it later.
 */
export class EmbeddedShare implements FallbackResponder {
  readonly #backend: MemoryBackend
  readonly #engine: Engine
  readonly #share: number
  readonly #undecided: FixedResponses
  /** The largest cost of each limit, under the limiter's own numbers and under the share. */
  readonly #largestCosts: ReadonlyMap<string, LargestCosts>

  /**
   * @param address - The server that the share replaces.
   * @throws {TollgateError} As {@link shareOf}; `INVALID_OPTION` while the prefix is open with other
   * numbers.
   */
  static open(
    engine: Engine,
    address: string,
    prefix: string,
    policySet: PolicySet,
    share: number,
    origin: DecisionOrigin,
  ): EmbeddedShare {
    const shared = shareOf(engine, policySet, share)
    // The colon separates the name from users' store names, which have none.
    const store = new engine.MemoryStore(MAX_KEYS, `fallback: ${address}`, false)
    const policies = compilePolicySet(engine, shared)
    const state = translated('INVALID_OPTION', `onStoreFailure: prefix ${JSON.stringify(prefix)}`, () => {
      return openState(store, prefix, policies)
    })
    return new EmbeddedShare(engine, share, policySet, new MemoryBackend(engine, state, undefined, shared, origin))
  }

  private constructor(engine: Engine, share: number, policySet: PolicySet, backend: MemoryBackend) {
    this.#engine = engine
    this.#share = share
    this.#backend = backend
    this.#undecided = new FixedResponses(false, policySet, backend.origin)
    const shared = limitNumbersOf(backend.policySet)
    this.#largestCosts = new Map(
      limitNumbersOf(policySet).map(({ name, capacity: whole }, index) => {
        const policy = policySet.limits[index]?.policy ?? 0
        return [name, { whole, shared: shared[index]?.capacity ?? whole, policy }]
      }),
    )
  }

  take(key: string, cost: number): Decision {
    return this.#answer(this.#backend.take(key, cost), cost, () => this.#undecided.take(key, cost))
  }

  takeBy(keys: Keys, cost: Units): Decision {
    return this.#answer(this.#backend.takeBy(keys, cost), cost, () => this.#undecided.takeBy(keys, cost))
  }

  takeMany(keys: readonly string[], costs: readonly number[]): TakeManyResults {
    return this.#backend.takeMany(keys, costs).map((result, index) => {
      const [key, cost] = [keys[index] as string, costs[index] as number]
      return result instanceof TollgateError
        ? result
        : this.#answer(result, cost, () => this.#undecided.take(key, cost))
    })
  }

  execute(keys: Keys, operation: Operation): OperationResult {
    let shared = operation
    if (operation.kind === 'override') {
      const policies = shareOfNumbers(this.#engine, operation.policies, this.#share)
      if (policies === undefined) {
        return this.#notApplied(keys)
      }
      shared = { ...operation, policies }
    }
    const decidedAtMs = operation.kind === 'acquire' ? this.#engine.elapsedMs() : undefined
    try {
      const result = this.#backend.execute(keys, shared)
      const decision = this.#answerBy(keys, result.decision, costOf(operation))
      return { ...result, decision, ...(decidedAtMs !== undefined && { decidedAtMs }) }
    } catch (error) {
      if (TollgateError.is(error) && error.code === 'STORE_FULL') {
        if (operation.kind === 'take') {
          // Counted, but not remembered.
          return { decision: this.takeBy(keys, operation.cost), units: totalOf(operation.cost) }
        }
        return this.#notApplied(keys)
      }
      throw error
    }
  }

  schedule(keys: Keys, cost: Units, maxWaitUs: number): ScheduledReservation {
    const reservation = this.#backend.schedule(keys, cost, maxWaitUs)
    return { ...reservation, decision: this.#answerBy(keys, reservation.decision, cost) }
  }

  openVariant(policySet: PolicySet, variant: VariantIndex): EmbeddedShare {
    const shared = shareOf(this.#engine, policySet, this.#share)
    return new EmbeddedShare(this.#engine, this.#share, policySet, this.#backend.openVariant(shared, variant))
  }

  close(): void {
    void this.#backend.close()
  }

  #answerBy(keys: Keys, decision: Decision, cost: Units): Decision {
    return this.#answer(decision, cost, () => this.#undecided.takeBy(keys, cost))
  }

  /** The decision of the share, or the refusal of a call that it cannot decide. */
  #answer(decision: Decision, cost: Units, refusal: () => Decision): Decision {
    return decision.status === 'impossible' && this.#mayFit(decision, cost) ? refusal() : withSource(decision)
  }

  /** Whether the limiter's own numbers may admit a cost that a decision of the share calls impossible. */
  #mayFit({ policies }: Decision, units: Units): boolean {
    return Object.entries(policies).every(([name, { capacity, retryAfterMs }]) => {
      if (retryAfterMs !== null) {
        return true
      }
      const { whole, shared, policy } = this.#largestCosts.get(name) as LargestCosts
      const cost = typeof units === 'number' ? units : (units[policy] ?? 0)
      // Another capacity is a share of an override, whose number is below the next whole unit of the share.
      return cost <= whole || (capacity !== shared && cost * this.#share < capacity + 1)
    })
  }

  /** The result of a change that cannot be applied. */
  #notApplied(keys: Keys): OperationResult {
    const { decision } = this.#backend.execute(keys, { kind: 'peek', cost: 0 })
    return { decision: withSource(decision, 'none'), units: 0 }
  }
}

interface LargestCosts {
  readonly whole: number
  readonly shared: number
  /** The index of the limit's policy. */
  readonly policy: number
}

function openState(store: EngineStore, prefix: string, policies: EnginePolicySet): EngineLimiterState {
  try {
    return store.open(prefix, policies)
  } catch {
    throw new Error('is open in this process with policies that differ in more than numbers, and its counts are shared')
  }
}

/** The units that an operation needs at once. */
function costOf(operation: Operation): Units {
  return 'cost' in operation ? operation.cost : 'units' in operation ? operation.units : 0
}

/** Sets the source of a decision that no caller has seen yet. */
function withSource(decision: Decision, source: Decision['source'] = 'fallback'): Decision {
  const changed: { source: Decision['source'] } = decision
  changed.source = source
  return decision
}
