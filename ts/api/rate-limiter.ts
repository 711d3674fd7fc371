/// <reference lib="esnext.disposable" preserve="true" />

import type { OnStoreFailure } from '../backends/fallback/on-store-failure.js'
import { MemoryStore } from '../backends/memory/memory-store.js'
import type { RedisStore } from '../backends/redis/redis-store.js'
import { sharedStore } from '../backends/redis/shared-stores.js'
import type { Duration } from '../input/duration.js'
import type { Policy } from '../policies/policy.js'
import type { KeyOf, LimitNames, Policies, PoliciesByLimit } from '../policies/policy-set.js'
import type { KeyOptions, OverrideOptions, TakeOptions } from './call-options.js'
import type { Applied, Decision } from './decision.js'
import { Limiter, type OwnedStore } from './limiter.js'
import { checkLimiterCount } from './limiter-options.js'
import type { Override, PolicyOverride } from './override.js'
import type { ReservingFor } from './reservation.js'
import type { WaitsOf } from './wait.js'

/** The URL of a Redis server: see `url` of `RedisStoreOptions`. */
export type RedisUrl = `redis://${string}` | `rediss://${string}` | `redis+unix://${string}`

/** The options of a {@link RateLimiter} over Redis. */
export interface RedisRateLimiterOptions extends KeyOptions {
  /**
   * Where the counts are kept. Limiters given the same URL share one connection, which is closed with the
   * last of them; a store that was made by you is closed by you.
   */
  readonly store: RedisStore | RedisUrl
  /**
   * Sets the keys of this limiter apart from those of others. Letters, digits, `_`, `.` and `-`, up to 32,
   * starting with a letter.
   */
  readonly prefix: string
  /**
   * What becomes of a call when the store fails (`STORE_UNAVAILABLE`, `STORE_TIMEOUT`, `STORE_ERROR`, `OVERLOADED`).
   * Default: `'throw'`. See {@link OnStoreFailure}.
   */
  readonly onStoreFailure?: OnStoreFailure
}

/** The options of a {@link RateLimiter} on the embedded store, where a `tag` has no effect. */
export interface RateLimiterOptions extends KeyOptions {
  /** Where the counts are kept. Default: a {@link MemoryStore} of its own. */
  readonly store?: MemoryStore
  /**
   * Sets the keys of this limiter apart from those of others on the same store. Letters, digits,
   * `_`, `.` and `-`, up to 32, starting with a letter. Limiters of equal prefix and policies share
   * their counts; of equal prefix and different policies, only one can be open.
   */
  readonly prefix?: string
  /**
   * What becomes of a call when the store fails. The embedded store never does: the option is checked and has no effect,
   * so that a test may put a {@link MemoryStore} in the place of Redis.
   */
  readonly onStoreFailure?: OnStoreFailure
}

/** The options of a {@link RateLimiter} whose store is chosen when the program runs. */
export interface AnyRateLimiterOptions extends KeyOptions {
  /** Where the counts are kept; `undefined` is a {@link MemoryStore} of its own. */
  readonly store: MemoryStore | RedisStore | RedisUrl | undefined
  /** As over Redis, where it is needed. */
  readonly prefix: string
  /** As over Redis; on the embedded store it is checked and has no effect. */
  readonly onStoreFailure?: OnStoreFailure
}

/**
 * Those parts of a key that are meant: the key itself if it is a string; otherwise any of its parts. What counts
 * all calls together is no part of a key and is meant only by `global: true`.
 */
export type SomeOf<K> = K extends string
  ? K
  : { readonly [Part in keyof K as Exclude<Part, 'global'>]?: K[Part] } & { readonly global?: true }

/**
 * Limits how much each key may do.
 *
 * A key is a non-empty well-formed string of at most 1024 bytes of UTF-8. If the policies have a `per`, it is an
 * object with such a string for each of those kinds: `{ ip, account }`; `per: 'global'` counts all calls together
 * and has no part in the key, so that of a limiter which has only that is `{}`.
 *
 * Several policies decide together: a call is charged by all of them, or by none.
 *
 * A limiter whose policies are all rates can wait, too: see `Waits`.
 *
 * Whatever is asked of one key takes effect in the order in which it is asked, in one thread and through one store; over
 * Redis what is sent again, or has an unknown outcome, may be decided later. Every method that returns a promise rejects, and never throws, with a `TollgateError`: `INVALID_KEY`, `INVALID_COST`,
 * `INVALID_OPTION` (an option of the call, or what the store's clock returned), `CLOSED`; over Redis also
 * `STORE_UNAVAILABLE`, `STORE_TIMEOUT`, `STORE_ERROR` and `OVERLOADED`, unless `onStoreFailure` has another answer.
 *
 * @typeParam K - The type of the keys.
 * @typeParam N - The names that decisions use: those of the limits, or `'default'` for a single one.
 * @typeParam O - The numbers that a key may have of its own.
 */
export interface RateLimiter<K = string, N extends string = 'default', O = PolicyOverride | Override<Policies>> {
  /** The policies, by the names that decisions use: for inspection. Limits that share a policy show the same one. */
  readonly policies: { readonly [Name in N]: Policy }

  /**
   * Takes units for a key, if all of them fit. A refused call takes nothing, unless the policy has `countRefused`.
   *
   * @param key - Who is calling.
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
   * Takes as many units as fit, at most so many; `granted` tells how many, under several policies the least that
   * one of them has room for. If none fits, the decision is that of a refused {@link take} of 1.
   *
   * @param units - A whole number from 1.
   */
  takeUpTo(key: K, units: number, options?: KeyOptions): Promise<Decision<N> & { readonly granted: number }>

  /**
   * What {@link take} would answer, without taking anything; `remaining` and `resetAfterMs` are
   * those of the key as it stands. The cost may be 0.
   */
  peek(key: K, cost?: number | TakeOptions): Promise<Decision<N>>

  /**
   * Charges units whether or not they fit, for what was known too late: each policy charges as many as it has
   * left, at most so many, also while the key is blocked.
   *
   * @param units - A whole number from 1. Default: 1.
   * @returns The units charged, under several policies the most that one of them charged. While the store is away they
   * are charged to the embedded share of `onStoreFailure`, if there is one; otherwise to nobody, and it is 0.
   */
  penalize(key: K, units?: number, options?: KeyOptions): Promise<number>

  /**
   * Gives back units that a decision took: those that are still on the books. What has drained or expired since,
   * and what was taken in a window that has closed, or whose end has moved, is gone; nothing is ever above full. Under
   * rates and buckets at most what has not drained of the decision's own units comes back: a unit that has drained in
   * part is told as a whole one. `resetAfterMs` is rounded up, so this may be up to 1 ms too late. While slots of `wait`
   * are booked ahead, nothing comes back.
   *
   * A decision gives back no more than it took, however often it is asked, and nothing if it was refused.
   *
   * @param decision - What {@link take}, `takeSync`, {@link takeMany}, {@link takeUpTo} or `wait` of this limiter returned:
   * the object itself, as a copy is `INVALID_OPTION`.
   * @param units - A whole number from 1. Default: all that the decision has not given back.
   * @returns The units given back, under several policies the most that one of them gave back.
   */
  refund(decision: Decision<N>, units?: number): Promise<number>

  /**
   * Makes a key as if never used, and ends a block; numbers of its own (see {@link override}) stay.
   *
   * Rejects with `STORE_FULL` if the embedded store has no room for the key, which so shares its
   * count with others (see `MemoryStoreOptions.maxKeys`).
   *
   * @param key - The key, or some of its parts.
   * @returns Where it was done. While the store is away it is what `onStoreFailure` says: `'fallback'`, the embedded
   * share alone, and the store keeps its count; or `false`, nowhere.
   */
  reset(key: SomeOf<K>, options?: KeyOptions): Promise<Applied>

  /**
   * Refuses every call on a key for so long, whatever room there is; a block of the key that is under way ends
   * then instead. Under several policies one blocked part refuses the call. Nothing is charged, and what has been
   * charged drains and expires as ever.
   *
   * If the store's clock is set back, the block lasts longer by that step.
   *
   * Rejects with `STORE_FULL` if the embedded store has no room for the key.
   *
   * @param key - The key, or some of its parts.
   * @param duration - Up to 142 years.
   * @returns Where the key is blocked. While the store is away it is what `onStoreFailure` says: `'fallback'`, in the
   * embedded share of this process, where the block ends with the outage; or `false`, nowhere.
   */
  block(key: SomeOf<K>, duration: Duration, options?: KeyOptions): Promise<Applied>

  /**
   * Ends a block.
   *
   * @returns Where it was ended. While the store is away it is what `onStoreFailure` says: `'fallback'`, in the embedded
   * share alone, and a block in the store stays; or `false`, nowhere.
   */
  unblock(key: SomeOf<K>, options?: KeyOptions): Promise<Applied>

  /**
   * Gives a key numbers of its own for a time, in all processes from the store's next decision on. What it has used
   * counts on, as if the policy had been changed; and so it does when the time is over. A window that is shortened so
   * keeps its count, and ends one new window from now at most.
   *
   * Rejects with `INVALID_OPTION` for what is no number of the policy, with `INVALID_POLICY` for numbers that it
   * cannot have, and with `STORE_FULL` if the embedded store has no room for the key.
   *
   * @param key - The key, or those of its parts that the policies count by.
   * @param numbers - Those that are to differ from the limiter's; of several policies by name.
   * @param options - `ttl` says for how long.
   * @returns Where the numbers are in force. While the store is away it is what `onStoreFailure` says: `'fallback'`, in the
   * embedded share of this process, which takes its share of them, until the outage ends; or `false`, nowhere.
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }))
   * await limiter.override('customer:7', { limit: 500 }, { ttl: '30d' })
   */
  override(key: SomeOf<K>, numbers: O, options: OverrideOptions): Promise<Applied>

  /**
   * Takes the numbers of its own from a key.
   *
   * @returns Where they were taken. While the store is away it is what `onStoreFailure` says: `'fallback'`, in the embedded
   * share alone, and the numbers in the store stay; or `false`, nowhere.
   */
  clearOverride(key: SomeOf<K>, options?: KeyOptions): Promise<Applied>

  /** Resolves once the store can answer: at once on the embedded store. */
  ready(): Promise<void>

  /**
   * Refuses further calls with `CLOSED` and frees the prefix; calls that wait for their slots are rejected so, too.
   * May be called again. It does not close a store that was passed in.
   */
  close(): Promise<void>

  /** {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** A {@link RateLimiter} on the embedded store, which can answer at once. */
export interface EmbeddedRateLimiter<K = string, N extends string = 'default', O = PolicyOverride | Override<Policies>>
  extends RateLimiter<K, N, O> {
  /**
   * {@link RateLimiter.take} without a promise.
   *
   * @throws {TollgateError} `INVALID_KEY`, `INVALID_COST`, `INVALID_OPTION`, `CLOSED`
   */
  takeSync(key: K, cost?: number | TakeOptions): Decision<N>
}

/**
 * What a limiter was made with.
 *
 * @typeParam P - Its policy, or its policies by name.
 */
export interface Enforcing<P extends Policy | Policies> {
  /** As in {@link RateLimiter}, each with the numbers of its own algorithm. */
  readonly policies: PoliciesByLimit<P>
}

/** Makes limiters. */
export interface RateLimiterConstructor {
  /**
   * @param policy - The limit, made by `gcra`, `fixedWindow` or another function of the kind; or 1 to 8 by name,
   * which decide together. Then either all have a `per` or none has one, and `countRefused` cannot be used.
   * Decisions tell of at most 16 limits.
   * @throws {TollgateError} `INVALID_POLICY`, `INVALID_OPTION`
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m', burst: 20 }))
   * const decision = await limiter.take('user:42')
   *
   * @example
   * const login = new RateLimiter({
   *   ip: gcra({ limit: 20, period: '1m', per: 'ip' }),
   *   account: gcra({ limit: 5, period: '1h', per: 'account' }),
   * })
   * const { allowed, policy } = await login.take({ ip: '192.0.2.1', account: 'ann' })
   */
  new <const P extends Policy | Policies>(
    policy: P,
    options?: RateLimiterOptions,
  ): EmbeddedRateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> & Enforcing<P> & ReservingFor<P> & WaitsOf<P>
  /**
   * A limiter on whichever store it is given. It has no `takeSync`.
   *
   * @example
   * const { REDIS_URL } = process.env
   * const store = REDIS_URL ? new RedisStore(REDIS_URL) : undefined
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store, prefix: 'api' })
   */
  new <const P extends Policy | Policies>(
    policy: P,
    options: AnyRateLimiterOptions,
  ): RateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> & Enforcing<P> & ReservingFor<P> & WaitsOf<P>
  /**
   * A limiter for many processes. It has no `takeSync`.
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store: 'redis://localhost', prefix: 'api' })
   */
  new <const P extends Policy | Policies>(
    policy: P,
    options: RedisRateLimiterOptions,
  ): RateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> & Enforcing<P> & ReservingFor<P> & WaitsOf<P>
  readonly prototype: RateLimiter
}

// The cast is for the names in decisions, which the policy's type tells and the engine's answer does not.
/** Limits how much each key may do: see the interface of the same name. */
export const RateLimiter = class RateLimiter extends Limiter {
  constructor(policy: unknown, options?: unknown) {
    checkLimiterCount(arguments.length)
    super(policy, options, ownStore)
  }
} as unknown as RateLimiterConstructor

function ownStore(url: string | undefined): OwnedStore {
  if (url !== undefined) {
    return sharedStore(url)
  }
  return { store: new MemoryStore(), release: async () => {} }
}
