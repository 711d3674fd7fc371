import type { Decision } from '../api/decision.js'
import type { TollgateError } from '../api/error.js'
import type { Keys } from '../input/keys.js'
import type { Compound } from '../policies/policy-set.js'
import type { Engine } from './engine.js'
import type { Booking, Operation, Performed } from './operation.js'

/**
 * One limiter's keys on one store: what a limiter asks.
 *
 * A key that is a string is checked here, because only the store's encoding tells its length in bytes for
 * free; costs, units and times have been checked by the limiter. Whatever is asked of one key takes effect in
 * the order in which it is asked. Decisions that take units are stamped (`ts/api/decision-metadata.ts`).
 */
export interface Ledger {
  /** Whether {@link take} answers at once. */
  readonly isSync: boolean
  /** What decisions of this ledger are stamped with. */
  readonly origin: object
  /** Whether the store is known to be down, so that asking it would be in vain. */
  readonly isDown: boolean
  /** Takes `cost` units, 1 or more. Throws or rejects with a `TollgateError`. */
  take(key: string, cost: number): Decision | Promise<Decision>
  /** {@link take} for several keys that are decided together, or with a tag. */
  takeBy(keys: Keys, cost: number): Decision | Promise<Decision>
  /** {@link take} for several keys, each by itself, in order: a decision or an error for each. */
  takeMany(keys: readonly string[], costs: readonly number[]): Answers | Promise<Answers>
  /** Whatever else can be asked. */
  perform(keys: Keys, operation: Operation): Performed | Promise<Performed>
  /**
   * Takes `cost` units as of the first time at which all policies admit them, if it is at most so many
   * microseconds away. All policies are rates.
   */
  book(keys: Keys, cost: number, maxWaitUs: number): Booking | Promise<Booking>
  /** Resolves once the store can answer. */
  ready(): Promise<void>
  /** Frees the prefix for another policy. */
  close(): Promise<void>
}

/** What became of each key. */
export type Answers = readonly (Decision | TollgateError)[]

/** The answers of calls that were made each by itself, and are over. */
export function answersOf(calls: readonly PromiseSettledResult<Decision>[]): Answers {
  return calls.map((call) => (call.status === 'fulfilled' ? call.value : (call.reason as TollgateError)))
}

/** A place where limiters keep their counts. */
export abstract class Store {
  /**
   * Tells the server that keeps the counts from all others, and holds no password; `undefined` if they are kept in
   * this process.
   *
   * @internal
   */
  abstract readonly address: string | undefined

  /**
   * What counts in this process, if it is needed.
   *
   * @internal
   */
  abstract readonly engine: Engine

  /**
   * Opens a limiter's keys.
   *
   * @param tag - What decides the keys' place in a cluster, where the call has no tag of its own.
   * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` while `prefix` is open with another
   * policy.
   * @internal
   */
  abstract open(prefix: string | undefined, compound: Compound, tag: string | undefined): Ledger
}
