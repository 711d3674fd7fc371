import type { Decision } from './decision.js'
import type { TollgateError } from './error.js'
import type { Policy } from './policy.js'

/**
 * One limiter's keys on one store: what a limiter asks.
 *
 * Keys are checked here, because only the store's encoding tells their length in bytes for free;
 * costs have been checked by the limiter.
 */
export interface Ledger {
  /** Whether {@link take} answers at once. */
  readonly isSync: boolean
  /** Takes `cost` units, 1 or more. Throws or rejects with a `TollgateError`. */
  take(key: string, cost: number): Decision | Promise<Decision>
  /** What {@link take} would answer; `cost` may be 0. */
  peek(key: string, cost: number): Decision | Promise<Decision>
  /** {@link take} for several keys, each by itself, in order: a decision or an error for each. */
  takeMany(keys: readonly string[], costs: readonly number[]): Answers | Promise<Answers>
  /** Makes a key as if never used. */
  reset(key: string): void | Promise<void>
  /** Resolves once the store can answer. */
  ready(): Promise<void>
  /** Frees the prefix for another policy. */
  close(): Promise<void>
}

/** What became of each key. */
export type Answers = readonly (Decision | TollgateError)[]

/** A place where limiters keep their counts. */
export abstract class Store {
  /**
   * Opens a limiter's keys.
   *
   * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` while `prefix` is open with another
   * policy.
   * @internal
   */
  abstract open(prefix: string | undefined, policy: Policy): Ledger
}
