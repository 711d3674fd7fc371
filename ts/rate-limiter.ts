/// <reference lib="esnext.disposable" preserve="true" />
import type { Decision } from './decision.js'
import { Limiter, type OwnedStore } from './limiter.js'
import { MemoryStore } from './memory/store.js'
import type { LimitNames, Policy } from './policy.js'
import { sharedStore } from './redis/shared.js'
import type { RedisStore } from './redis/store.js'

/** How a call is to be counted. */
export interface TakeOptions {
  /** The units that the call costs: a whole number from 1 (in `peek` from 0). Default: 1. */
  readonly cost?: number
}

/** The options of a {@link RateLimiter} over Redis. */
export interface RedisRateLimiterOptions {
  /**
   * Where the counts are kept. Limiters given the same URL share one connection, which is closed with the
   * last of them; a store that was made by you is closed by you.
   */
  readonly store: RedisStore | `redis://${string}` | `redis+unix://${string}`
  /**
   * Sets the keys of this limiter apart from those of others. Letters, digits, `_`, `.` and `-`, up to 32,
   * starting with a letter.
   */
  readonly prefix: string
}

/** The options of a {@link RateLimiter} on the embedded store. */
export interface RateLimiterOptions {
  /** Where the counts are kept. Default: a {@link MemoryStore} of its own. */
  readonly store?: MemoryStore
  /**
   * Sets the keys of this limiter apart from those of others on the same store. Letters, digits,
   * `_`, `.` and `-`, up to 32, starting with a letter. Limiters of equal prefix and policy share
   * their counts; of equal prefix and different policies, only one can be open.
   */
  readonly prefix?: string
}

/**
 * Limits how much each key may do.
 *
 * Calls on one key take effect in the order in which they are made. Every method that returns a
 * promise rejects, and never throws, with a `TollgateError`: `INVALID_KEY`, `INVALID_COST`,
 * `INVALID_OPTION` (an option of the call, or what the store's clock returned), `CLOSED`; over Redis also
 * `STORE_UNAVAILABLE`, `STORE_TIMEOUT`, `STORE_ERROR` and `OVERLOADED`.
 *
 * @typeParam K - The type of the keys.
 * @typeParam N - The names that decisions use: those of the limits of `slidingLogs`, otherwise `'default'`.
 */
export interface RateLimiter<K = string, N extends string = 'default'> {
  /** The policies, by the names that decisions use: for inspection. Limits that share a policy show the same one. */
  readonly policies: { readonly [Name in N]: Policy }

  /**
   * Takes units for a key, if all of them fit. A refused call takes nothing.
   *
   * @param key - Who is calling: a non-empty well-formed string of at most 1024 bytes of UTF-8.
   * @param cost - The units it costs. Default: 1.
   */
  take(key: K, cost?: number | TakeOptions): Promise<Decision<N>>

  /**
   * {@link take} for several keys in one call to the engine, each by itself, in order: some may be
   * refused while others are not.
   *
   * If a key fails, the promise rejects with an error whose `results` holds every key's decision
   * or error; the others have been charged.
   *
   * @param cost - The units that each key costs, or an array of one cost per key. Default: 1.
   */
  takeMany(keys: readonly K[], cost?: number | readonly number[] | TakeOptions): Promise<Decision<N>[]>

  /**
   * What {@link take} would answer, without taking anything; `remaining` and `resetAfterMs` are
   * those of the key as it stands. The cost may be 0.
   */
  peek(key: K, cost?: number | TakeOptions): Promise<Decision<N>>

  /**
   * Makes a key as if never used.
   *
   * Rejects with `STORE_FULL` if the embedded store has no room for the key, which so shares its
   * count with others (see `MemoryStoreOptions.maxKeys`).
   */
  reset(key: K): Promise<void>

  /** Resolves once the store can answer: at once on the embedded store. */
  ready(): Promise<void>

  /**
   * Refuses further calls with `CLOSED` and frees the prefix. May be called again. It does not
   * close a store that was passed in.
   */
  close(): Promise<void>

  /** {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** A {@link RateLimiter} on the embedded store, which can answer at once. */
export interface EmbeddedRateLimiter<K = string, N extends string = 'default'> extends RateLimiter<K, N> {
  /**
   * {@link RateLimiter.take} without a promise.
   *
   * @throws {TollgateError} `INVALID_KEY`, `INVALID_COST`, `INVALID_OPTION`, `CLOSED`
   */
  takeSync(key: K, cost?: number | TakeOptions): Decision<N>
}

/** Makes limiters. */
export interface RateLimiterConstructor {
  /**
   * @param policy - The limit, made by `gcra`, `fixedWindow` or another function of the kind.
   * @throws {TollgateError} `INVALID_POLICY`, `INVALID_OPTION`
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m', burst: 20 }))
   * const decision = await limiter.take('user:42')
   */
  new <P extends Policy>(policy: P, options?: RateLimiterOptions): EmbeddedRateLimiter<string, LimitNames<P>>
  /**
   * A limiter for many processes. It has no `takeSync`.
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store: 'redis://localhost', prefix: 'api' })
   */
  new <P extends Policy>(policy: P, options: RedisRateLimiterOptions): RateLimiter<string, LimitNames<P>>
  readonly prototype: RateLimiter
}

// The cast is for the names in decisions, which the policy's type tells and the engine's answer does not.
/** Limits how much each key may do: see the interface of the same name. */
export const RateLimiter = class RateLimiter extends Limiter {
  constructor(policy: unknown, options?: unknown) {
    super(policy, options, ownStore)
  }
} as unknown as RateLimiterConstructor

function ownStore(url: string | undefined): OwnedStore {
  if (url !== undefined) {
    return sharedStore(url)
  }
  return { store: new MemoryStore(), release: async () => {} }
}
