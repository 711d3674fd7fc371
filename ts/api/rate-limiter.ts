/// <reference lib="esnext.disposable" preserve="true" />

import type { OnStoreFailure } from '../backends/fallback/on-store-failure.js'
import type { LocalDecisions } from '../backends/local/local-options.js'
import { MemoryStore } from '../backends/memory/memory-store.js'
import type { RedisStore } from '../backends/redis/redis-store.js'
import { sharedStore } from '../backends/redis/shared-stores.js'
import type { Duration } from '../input/duration.js'
import type { Policy } from '../policies/policy.js'
import type {
  KeyOf,
  LimitNames,
  Policies,
  PoliciesByLimit,
  PoliciesOfTier,
  TieredPolicies,
  TierOf,
} from '../policies/policy-set.js'
import type { BanningOptions } from './ban.js'
import type { KeyOptions, OverrideOptions, RefundOptions, TakeOptions, TierOptions } from './call-options.js'
import type { Applied, Decision } from './decision.js'
import { Limiter, type OwnedStore } from './limiter.js'
import { checkLimiterCount } from './limiter-options.js'
import type { Override, PolicyOverride } from './override.js'
import type { AcquiringFor } from './permit.js'
import type { ReservingFor } from './reservation.js'
import type { WaitsOf } from './wait.js'

/** The URL of a Redis server: see `url` of `RedisStoreOptions`. */
export type RedisUrl = `${'redis' | 'rediss' | 'redis+unix' | 'valkey' | 'valkeys'}://${string}`

/** The options of a {@link RateLimiter} over Redis. */
export interface RedisRateLimiterOptions extends KeyOptions, BanningOptions {
  /**
   * The store of the counts. Limiters with the same URL share one connection, which closes with the
   * last of them. You close a store that you made.
   */
  readonly store: RedisStore | RedisUrl
  /**
   * Separates this limiter's keys from those of other limiters. Letters, digits, `_`, `.`,
   * `-` and `:`, up to 64, starting with a letter and not ending with `:`.
   */
  readonly prefix: string
  /**
   * How calls are answered when the store fails (`STORE_UNAVAILABLE`, `STORE_TIMEOUT`,
   * `STORE_ERROR`, `OVERLOADED`). Default: `'throw'`. See {@link OnStoreFailure}.
   */
  readonly onStoreFailure?: OnStoreFailure
  /** The calls that this process decides itself. Default: none. See {@link LocalDecisions}. */
  readonly local?: LocalDecisions
  /**
   * Whether {@link RateLimiter.ready} accepts that other processes use policies with other names or
   * algorithms on the same prefix, as while such a change is rolled out. Neither sees the counts of
   * the other. Default: `false`.
   */
  readonly takeOver?: boolean
}

/** The options of a {@link RateLimiter} on the embedded store. A `tag` has no effect there. */
export interface RateLimiterOptions extends KeyOptions, BanningOptions {
  /** The store of the counts. Default: a new {@link MemoryStore}. */
  readonly store?: MemoryStore
  /**
   * Separates this limiter's keys from those of other limiters on the same store. Letters, digits,
   * `_`, `.`, `-` and `:`, up to 64, starting with a letter and not ending with `:`. Limiters with equal
   * prefix share their counts. If their numbers differ, each decides by its own, and a warning says so.
   * Policies that differ in more than numbers are `INVALID_OPTION` while the other limiter is open.
   */
  readonly prefix?: string
  /**
   * How calls are answered when the store fails. The embedded store never fails: the option is
   * checked and has no effect, so that a test can use a {@link MemoryStore} instead of Redis.
   */
  readonly onStoreFailure?: OnStoreFailure
  /** As for Redis. The embedded store needs no calls: the option is checked and has no effect. */
  readonly local?: LocalDecisions
  /** As for Redis. On the embedded store it is checked and has no effect. */
  readonly takeOver?: boolean
}

/** The options of a {@link RateLimiter} whose store is chosen at run time. */
export interface AnyRateLimiterOptions extends KeyOptions, BanningOptions {
  /**
   * The store of the counts; `undefined` is a new {@link MemoryStore}, with a process warning
   * (`TOLLGATE_UNDEFINED_STORE`): each process then counts alone.
   */
  readonly store: MemoryStore | RedisStore | RedisUrl | undefined
  /** As for Redis, where it is required. */
  readonly prefix: string
  /** As for Redis. On the embedded store it is checked and has no effect. */
  readonly onStoreFailure?: OnStoreFailure
  /** As for Redis. On the embedded store it is checked and has no effect. */
  readonly local?: LocalDecisions
  /** As for Redis. On the embedded store it is checked and has no effect. */
  readonly takeOver?: boolean
}

/**
 * Some parts of a key: the key itself if it is a string, otherwise any of its parts. A policy that
 * counts all calls together has no part in keys; `global: true` selects it.
 */
export type SomeOf<K> = K extends string
  ? K
  : { readonly [Part in keyof K as Exclude<Part, 'global'>]?: K[Part] } & { readonly global?: true }

/**
 * Limits how much each key may do.
 *
 * A key is a non-empty well-formed string of at most 1024 bytes of UTF-8. If the policies have a
 * `per`, the key is an object with one such string for each key dimension: `{ ip, account }`. A
 * policy with `per: 'global'` counts all calls together and has no part in the key. If all policies
 * have it, the key is `{}`.
 *
 * Several policies decide together: a call is charged under all of them, or under none.
 *
 * If all policies are rates, the limiter can also wait: see `Waits`.
 *
 * Calls on one key take effect in call order, within one thread and one store. Over Redis a call
 * that is sent again, or whose outcome is unknown, may be decided later.
 *
 * Every method that returns a promise rejects with a `TollgateError`, and never throws:
 * `INVALID_KEY`, `INVALID_COST`, `INVALID_OPTION` (an option of the call, or the return value of
 * the store's clock), `CLOSED`; over Redis also `STORE_UNAVAILABLE`, `STORE_TIMEOUT`, `STORE_ERROR`
 * and `OVERLOADED`, unless `onStoreFailure` chooses another answer.
 *
 * @typeParam K - The type of the keys.
 * @typeParam N - The names that decisions use: the limit names, or `'default'` for a single limit.
 * @typeParam O - The type of an override's numbers.
 * @typeParam T - The names of the tiers; `never` without tiers. With tiers every call that decides
 * needs one.
 */
export interface RateLimiter<
  K = string,
  N extends string = 'default',
  O = PolicyOverride | Override<Policies>,
  T extends string = never,
> {
  /**
   * The policies, by the names that decisions use, for inspection. Limits that share a policy show
   * the same one. With tiers they are those of the first tier: see {@link RateLimiter.tiers}.
   */
  readonly policies: { readonly [Name in N]: Policy }

  /** The prefix from the options; `undefined` for a limiter on the embedded store without one. */
  readonly prefix: string | undefined

  /** Where its counts are: in this process, or in Redis for all processes. */
  readonly storeKind: 'embedded' | 'redis'

  /** The {@link RateLimiter.policies} of each tier; without tiers an empty object. */
  readonly tiers: { readonly [Tier in T]: { readonly [Name in N]: Policy } }

  /**
   * Takes units for a key, if all of them fit. A refused call takes nothing, unless the policy has
   * `countRefused`.
   *
   * @param key - The caller's key.
   * @param cost - The units that the call costs. Default: 1.
   */
  take(key: K, cost?: number | TakeOptions<T>): Promise<Decision<N>>

  /**
   * {@link take} as a condition: whether the units were taken.
   *
   * A decision is an object, and so always true: `if (await limiter.take(key))` admits every call.
   *
   * @example
   * if (!(await limiter.isAllowed('user:42'))) return
   */
  isAllowed(key: K, cost?: number | TakeOptions<T>): Promise<boolean>

  /**
   * {@link take} for several keys in one call to the engine. Each key is decided separately, in
   * order: some may be refused while others are admitted.
   *
   * If a key fails, the promise rejects with an error whose `results` hold the decision or error of
   * every key, and whose `charged` is `true` if any of them was charged: sending all again would
   * charge those a second time.
   *
   * @param cost - The units that each key costs, or an array of one cost per key. Default: 1.
   */
  takeMany(keys: readonly K[], cost?: number | readonly number[] | TakeOptions<T>): Promise<Decision<N>[]>

  /**
   * Takes as many units as fit, up to `units`. `granted` is the number taken: under several
   * policies the smallest number that one of them has room for. If none fits, the decision is that
   * of a refused {@link take} of 1.
   *
   * @param units - A whole number from 1.
   */
  takeUpTo(key: K, units: number, options?: TierOptions<T>): Promise<Decision<N> & { readonly granted: number }>

  /**
   * The answer that {@link take} would give, without taking anything. `remaining` and
   * `resetAfterMs` describe the current state of the key. The cost may be 0.
   */
  peek(key: K, cost?: number | TakeOptions<T>): Promise<Decision<N>>

  /**
   * Charges units whether or not they fit, for a cost that becomes known too late. Each policy
   * charges what it has left, up to `units`, even while the key is blocked.
   *
   * @param units - A whole number from 1. Default: 1.
   * @returns The units charged: under several policies the most that one of them charged. While the
   * store is down they are charged to the embedded share of `onStoreFailure`. Without a share
   * nothing is charged, and the result is 0.
   */
  penalize(key: K, units?: number, options?: TierOptions<T>): Promise<number>

  /**
   * Refunds units that a decision took, as far as they are still charged. Units that have drained
   * or expired are gone. So are units of a window that has closed or whose end has moved. A key
   * never gets more than its full allowance.
   *
   * Under rates and buckets at most the undrained part of the decision's own units comes back. A
   * unit that has drained in part counts as whole. The drain time comes from `resetAfterMs`, which
   * is rounded up, so units count as undrained for up to 1 ms too long. While slots of `wait` are
   * scheduled ahead, nothing comes back.
   *
   * A decision refunds no more than it took, however often it is refunded, and nothing if it was
   * refused.
   *
   * @param decision - The object returned by {@link take}, `takeSync`, {@link takeMany},
   * {@link takeUpTo} or `wait` of this limiter. Or a copy of it, such as one from JSON, with
   * `units` and `options.key`.
   * @param units - A whole number from 1. Default: all units of the decision that are not yet
   * refunded. Required for a copy.
   * @param options - The key of the decision. Required for a copy, which contains no key. A copy of
   * a decision whose `source` is not `'store'` refunds nothing. Each refund of a copy counts: for
   * work that may be retried elsewhere, use `reserve` and `settle`, which settle once.
   * @returns The units refunded: under several policies the most that one of them refunded.
   */
  refund(decision: Decision<N>, units?: number, options?: RefundOptions<K>): Promise<number>

  /**
   * Returns a key to its initial state and ends a block. An override (see {@link override}) stays.
   *
   * Rejects with `STORE_FULL` if the embedded store has no room for the key. The key then shares
   * its count with others (see `MemoryStoreOptions.maxKeys`).
   *
   * @param key - The key, or some of its parts.
   * @returns The place where the key was reset. While the store is down, `onStoreFailure` decides:
   * `'fallback'` means only in the embedded share, and the store keeps its count; `false` means
   * nowhere.
   */
  reset(key: SomeOf<K>, options?: KeyOptions): Promise<Applied>

  /**
   * Refuses every call on a key for `duration`, even if the cost would fit. A block that ends later
   * stays: to shorten one, call `unblock` first. Under several policies one blocked part refuses the
   * call. A block charges nothing. Charged units drain and expire as usual.
   *
   * If the store's clock is set back, the block lasts longer by that step.
   *
   * Rejects with `STORE_FULL` if the embedded store has no room for the key.
   *
   * @param key - The key, or some of its parts.
   * @param duration - Up to 142 years.
   * @returns The place where the key is blocked. While the store is down, `onStoreFailure` decides:
   * `'fallback'` means in the embedded share of this process, until the outage ends; `false` means
   * nowhere.
   */
  block(key: SomeOf<K>, duration: Duration, options?: KeyOptions): Promise<Applied>

  /**
   * Ends a block.
   *
   * @returns The place where the block was ended. While the store is down, `onStoreFailure`
   * decides: `'fallback'` means only in the embedded share, and a block in the store stays; `false`
   * means nowhere.
   */
  unblock(key: SomeOf<K>, options?: KeyOptions): Promise<Applied>

  /**
   * Gives a key its own numbers for a limited time, in all processes from the store's next decision
   * on. Units already charged keep counting, as after a change of the policy, both when the
   * override begins and when it ends. A window that becomes shorter keeps its count, and ends at
   * most one new window from now.
   *
   * Rejects with `INVALID_OPTION` for an option that cannot be overridden, with `INVALID_POLICY`
   * for numbers that the policy does not allow, and with `STORE_FULL` if the embedded store has no
   * room for the key.
   *
   * @param key - The key, or at least the parts of it that the overridden policies count by. A policy
   * that counts all calls together needs none; `global: true` may be given.
   * @param numbers - The numbers that differ from the limiter's; for several policies by policy
   * name. With tiers they differ from those of `options.tier`, and the override decides the key's
   * calls in all tiers.
   * @param options - `ttl` is the duration of the override.
   * @returns The place where the override applies. While the store is down, `onStoreFailure`
   * decides: `'fallback'` means in the embedded share of this process, which takes its share of the
   * numbers, until the outage ends; `false` means nowhere.
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }))
   * await limiter.override('customer:7', { limit: 500 }, { ttl: '30d' })
   */
  override(key: SomeOf<K>, numbers: O, options: OverrideOptions<T>): Promise<Applied>

  /**
   * Removes the override of a key.
   *
   * @returns The place where it was removed. While the store is down, `onStoreFailure` decides:
   * `'fallback'` means only in the embedded share, and the override in the store stays; `false`
   * means nowhere.
   */
  clearOverride(key: SomeOf<K>, options?: KeyOptions): Promise<Applied>

  /**
   * Replaces the numbers of the policies. Calls from the next one on are decided by the new numbers,
   * in this process. Calls under way are decided by the old ones. Slots of `wait`, reservations and
   * overrides stay valid. Units already charged keep counting (see docs/changing-limits.md).
   *
   * Other processes keep their numbers until they update, too. In between the law holds with the
   * larger numbers.
   *
   * @param policies - As for the constructor. They must differ in numbers only, and have the same
   * tiers.
   * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for policies that differ in more than
   * numbers; `CLOSED`
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }))
   * limiter.update(gcra({ limit: 200, period: '1m' }))
   */
  update(policies: Policy | TieredPolicies): void

  /**
   * Resolves once the store can answer: immediately on the embedded store.
   *
   * Over Redis it rejects with `INVALID_POLICY` if another process has used policies with other names
   * or algorithms on the prefix in the last 90 minutes, unless `takeOver` is set. Other numbers are a
   * `warning` event of the store.
   */
  ready(): Promise<void>

  /**
   * Rejects further calls and pending `wait` calls with `CLOSED`, and frees the prefix. May be
   * called again. It does not close a store that you passed in.
   */
  close(): Promise<void>

  /** {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** A {@link RateLimiter} on the embedded store, which can answer synchronously. */
export interface EmbeddedRateLimiter<
  K = string,
  N extends string = 'default',
  O = PolicyOverride | Override<Policies>,
  T extends string = never,
> extends RateLimiter<K, N, O, T> {
  /**
   * {@link RateLimiter.take} without a promise.
   *
   * @throws {TollgateError} `INVALID_KEY`, `INVALID_COST`, `INVALID_OPTION`, `CLOSED`
   */
  takeSync(key: K, cost?: number | TakeOptions<T>): Decision<N>
}

/**
 * The policies of a limiter, with their exact types.
 *
 * @typeParam P - The policy, or the policies by name.
 */
export interface Enforcing<P extends Policy | Policies> {
  /** As in {@link RateLimiter}, each with the numbers of its own algorithm. */
  readonly policies: PoliciesByLimit<P>
}

/**
 * The policies of a limiter with tiers, with their exact types.
 *
 * @typeParam P - The policies, with their tiers.
 */
export interface EnforcingTiers<P extends TieredPolicies> extends Enforcing<PoliciesOfTier<P>> {
  /** As in {@link RateLimiter}, each with the numbers of its own algorithm. */
  readonly tiers: { readonly [Tier in TierOf<P>]: PoliciesByLimit<PoliciesOfTier<P>> }
}

/** A limiter with tiers: its methods have the types of the policies' keys, names, numbers and tiers. */
export type TieredLimiter<P extends TieredPolicies> = RateLimiter<
  KeyOf<PoliciesOfTier<P>>,
  LimitNames<PoliciesOfTier<P>>,
  Override<PoliciesOfTier<P>>,
  TierOf<P>
> &
  EnforcingTiers<P> &
  ReservingFor<PoliciesOfTier<P>, TierOf<P>> &
  WaitsOf<PoliciesOfTier<P>, TierOf<P>> &
  AcquiringFor<PoliciesOfTier<P>, TierOf<P>>

/** {@link TieredLimiter} on the embedded store. */
export type EmbeddedTieredLimiter<P extends TieredPolicies> = TieredLimiter<P> &
  EmbeddedRateLimiter<KeyOf<PoliciesOfTier<P>>, LimitNames<PoliciesOfTier<P>>, Override<PoliciesOfTier<P>>, TierOf<P>>

/** The constructor of limiters. */
export interface RateLimiterConstructor {
  /**
   * @param policy - The limit, made by `gcra`, `fixedWindow` or another policy function; or an
   * object of 1 to 8 policies by name, which decide together. Then either all have a `per` or none
   * has one, and `countRefused` cannot be used. A decision covers at most 16 limits.
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
  ): EmbeddedRateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> &
    Enforcing<P> &
    ReservingFor<P> &
    WaitsOf<P> &
    AcquiringFor<P>
  /**
   * A limiter whose store is chosen at run time. It has no `takeSync`.
   *
   * @example
   * const { REDIS_URL } = process.env
   * const store = REDIS_URL ? new RedisStore(REDIS_URL) : undefined
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store, prefix: 'api' })
   */
  new <const P extends Policy | Policies>(
    policy: P,
    options: AnyRateLimiterOptions,
  ): RateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> & Enforcing<P> & ReservingFor<P> & WaitsOf<P> & AcquiringFor<P>
  /**
   * A limiter for many processes. It has no `takeSync`.
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store: 'redis://localhost', prefix: 'api' })
   */
  new <const P extends Policy | Policies>(
    policy: P,
    options: RedisRateLimiterOptions,
  ): RateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> & Enforcing<P> & ReservingFor<P> & WaitsOf<P> & AcquiringFor<P>
  /**
   * A limiter whose policies, or some of them, have tiers.
   *
   * @example
   * const limiter = new RateLimiter(tiers({ free: gcra({ limit: 10, period: '1m' }), pro: gcra({ limit: 1_000, period: '1m' }) }))
   * await limiter.take('user:42', { tier: 'pro' })
   */
  new <const P extends TieredPolicies>(policy: P, options?: RateLimiterOptions): EmbeddedTieredLimiter<P>
  /** A limiter with tiers whose store is chosen at run time. */
  new <const P extends TieredPolicies>(policy: P, options: AnyRateLimiterOptions): TieredLimiter<P>
  /** A limiter with tiers for many processes. */
  new <const P extends TieredPolicies>(policy: P, options: RedisRateLimiterOptions): TieredLimiter<P>
  /**
   * Matches no call that the others do not. TypeScript explains why the last overload does not match:
   * by this one it says that `prefix` is missing.
   */
  new (policy: Policy | Policies | TieredPolicies, options: RedisRateLimiterOptions): never
  readonly prototype: RateLimiter
}

// The cast adds the names in decisions: the policy's type has them, the engine's answer does not.
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
