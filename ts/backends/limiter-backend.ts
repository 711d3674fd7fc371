import type { Decision } from '../api/decision.js'
import type { DecisionOrigin } from '../api/decision-metadata.js'
import type { TollgateError } from '../api/error.js'
import type { Keys } from '../input/keys.js'
import { realTime, type WaitingTime } from '../platform/waiting-time.js'
import type { PolicySet } from '../policies/policy-set.js'
import type { Engine } from './engine.js'
import type { Operation, OperationResult, ScheduledReservation } from './operation.js'
import type { Units } from './units.js'

/**
 * One limiter's keys on one store: the operations that a limiter calls. On the embedded store it is a
 * `MemoryBackend`, which calls the engine. Over Redis `openBackend` makes a stack, in which each backend
 * asks the next one:
 *
 * 1. `LocalBackend`, with the option `local`: answers by a lease or a cached refusal.
 * 2. `FallbackBackend`, with `onStoreFailure`: answers by an `EmbeddedShare` or `FixedResponses` if the
 *    store fails.
 * 3. `RedisBackend`: puts calls into the queue of the prefix, which the `Batcher` of the store sends.
 *
 * The backend checks string keys, because their length in bytes is known only when the store
 * encodes them. The limiter has checked costs, units and times. Operations on one key take effect
 * in call order. Decisions that take units carry metadata (`ts/api/decision-metadata.ts`).
 */
export interface LimiterBackend {
  /** Whether {@link take} answers synchronously. */
  readonly isSync: boolean
  /** Identifies the limiter and the tier in decision metadata. */
  readonly origin: DecisionOrigin
  /** The policies under which the store charges units. With leases they are not those of the user. */
  readonly policySet: PolicySet
  /** Whether the store is known to be down, so that a call would fail. */
  readonly isDown: boolean
  /** Takes `cost` units, 1 or more. Throws or rejects with a `TollgateError`. */
  take(key: string, cost: number): Decision | Promise<Decision>
  /** {@link take} for several keys that are decided together, with a tag, or with a cost for each policy. */
  takeBy(keys: Keys, cost: Units): Decision | Promise<Decision>
  /** {@link take} for several keys, each decided separately, in order. */
  takeMany(keys: readonly string[], costs: readonly number[]): TakeManyResults | Promise<TakeManyResults>
  execute(keys: Keys, operation: Operation): OperationResult | Promise<OperationResult>
  /** Takes units in advance, for the first time at which all policies admit them. The policies are rates. */
  schedule(keys: Keys, cost: Units, maxWaitUs: number): ScheduledReservation | Promise<ScheduledReservation>
  /**
   * Opens a limiter on the same keys whose policies have other numbers.
   *
   * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for policies that differ in more than numbers.
   */
  openVariant(policySet: PolicySet, variant: VariantIndex): LimiterBackend
  /** Resolves once the store can answer. With `takesOver` other processes may use policies of another kind. */
  ready(takesOver: boolean): Promise<void>
  /** Releases the prefix for another policy. */
  close(): Promise<void>
}

/** Which of the variants of a prefix a limiter opens. */
export interface VariantIndex {
  /** From 0. */
  readonly index: number
  /** Whether limiters of the prefix that are opened later must have these policies. */
  readonly replaces: boolean
}

/** The units that are charged in the store, held by this process, and not used yet. */
export interface LeasesHeld {
  /** The number of keys. */
  readonly keys: number
  readonly units: number
}

export type TakeManyResults = readonly (Decision | TollgateError)[]

/** Takes units for several keys, each separately. */
export async function takeEach<K, C extends Units>(
  keys: readonly K[],
  costs: readonly C[],
  take: (key: K, cost: C) => Decision | Promise<Decision>,
): Promise<TakeManyResults> {
  const calls = await Promise.allSettled(keys.map(async (key, index) => take(key, costs[index] as C)))
  return calls.map((call) => (call.status === 'fulfilled' ? call.value : (call.reason as TollgateError)))
}

/** A store of counts for limiters. */
export abstract class Store {
  /** The server that has the counts, without a password; `undefined` if they are in this process. @internal */
  abstract readonly address: string | undefined

  /** The engine that counts in this process, if necessary. @internal */
  abstract readonly engine: Engine

  /** The time by which calls wait for their turn. @internal */
  get waitingTime(): WaitingTime {
    return realTime(this.engine.elapsedMs)
  }

  /** The leases of limiters on this store. @internal */
  readonly leases = new Set<{ readonly held: LeasesHeld }>()

  /** @internal */
  protected get leasesHeld(): LeasesHeld {
    let [keys, units] = [0, 0]
    for (const { held } of this.leases) {
      keys += held.keys
      units += held.units
    }
    return { keys, units }
  }

  /**
   * Opens a limiter's backend. `tag` is the default hash tag of keys in a cluster.
   *
   * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` while `prefix` is open with another policy.
   * @internal
   */
  abstract open(prefix: string | undefined, policySet: PolicySet, tag: string | undefined): LimiterBackend
}
