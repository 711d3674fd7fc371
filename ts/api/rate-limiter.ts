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

/** The options of a {@link RateLimiter} whose store is chosen at run time. */
export interface AnyRateLimiterOptions extends KeyOptions, BanningOptions {
  /**
   * The store of the counts. Limiters with equal URLs share a connection; you close a store that you made.
   * `undefined` is a new {@link MemoryStore}, with a warning (`TOLLGATE_UNDEFINED_STORE`).
   */
  readonly store: MemoryStore | RedisStore | RedisUrl | undefined
  /**
   * Separates this limiter's keys from those of other limiters. Letters, digits, `_`, `.`,
   * `-` and `:`, up to 64, starting with a letter and not ending with `:`.
   */
  readonly prefix: string
  /** The answer to calls when the store fails. The embedded store never fails. Default: `'throw'`. */
  readonly onStoreFailure?: OnStoreFailure
  /** The calls over Redis that this process decides itself. Default: none. */
  readonly local?: LocalDecisions
  /**
   * Whether `ready` accepts policies with other names or algorithms on the same prefix, as
   * while such a change is rolled out. Neither sees the counts of the other. Default: `false`.
   */
  readonly takeOver?: boolean
}

/** The options of a {@link RateLimiter} over Redis. */
export interface RedisRateLimiterOptions extends AnyRateLimiterOptions {
  readonly store: RedisStore | RedisUrl
}

/**
 * The options of a {@link RateLimiter} on the embedded store. Those for Redis, and a `tag`, are checked, so that a
 * test can replace Redis, and have no effect.
 */
export interface RateLimiterOptions extends Omit<AnyRateLimiterOptions, 'store' | 'prefix'> {
  /** The store of the counts. Default: a new {@link MemoryStore}. */
  readonly store?: MemoryStore
  /**
   * As for Redis. Limiters with equal prefix share their counts, and each decides by its own numbers, with a
   * warning. Policies that differ in more than numbers are `INVALID_OPTION` while the other limiter is open.
   */
  readonly prefix?: string
}

/** A key that is a string, or some of its parts. `global: true` selects a policy that counts all calls together. */
export type SomeOf<K> = K extends string
  ? K
  : { readonly [Part in keyof K as Exclude<Part, 'global'>]?: K[Part] } & { readonly global?: true }

/**
 * Limits how much each key may do. Several policies decide together: a call is charged under all of them,
 * or under none. Calls on one key take effect in call order, within one thread and one store.
 *
 * A key is a non-empty well-formed string of at most 1024 bytes of UTF-8. If the policies have a
 * `per`, the key is an object with one such string for each key dimension, `{ ip, account }`; a
 * policy with `per: 'global'` has no part in the key.
 *
 * A method that returns a promise never throws. It rejects with a `TollgateError`: `INVALID_KEY`,
 * `INVALID_COST`, `INVALID_OPTION`, `CLOSED`; over Redis also `STORE_UNAVAILABLE`, `STORE_TIMEOUT`,
 * `STORE_ERROR` and `OVERLOADED`, unless `onStoreFailure` chooses another answer.
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
  /** The policies, by the names that decisions use; with tiers those of the first tier. */
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
   * @param cost - The units that the call costs: a whole number from 1. Default: 1.
   */
  take(key: K, cost?: number | TakeOptions<T>): Promise<Decision<N>>

  /**
   * Takes units like {@link take}, and resolves to whether it took them, for use as a condition: a decision is an
   * object, and so always true.
   *
   * @example
   * if (!(await limiter.tryTake('user:42'))) return
   */
  tryTake(key: K, cost?: number | TakeOptions<T>): Promise<boolean>

  /**
   * {@link take} for several keys in one call to the engine, each decided separately, in order.
   *
   * If a key fails, the promise rejects with an error whose `results` hold the decision or error of
   * every key.
   *
   * @param cost - The units that each key costs, or an array of one cost per key. Default: 1.
   */
  takeMany(keys: readonly K[], cost?: number | readonly number[] | TakeOptions<T>): Promise<Decision<N>[]>

  /**
   * Takes as many units as fit, up to `units`. Under several policies `granted` is the smallest number that
   * one of them has room for. If none fits, the decision is that of a refused {@link take} of 1.
   *
   * @param units - A whole number from 1.
   */
  takeUpTo(key: K, units: number, options?: TierOptions<T>): Promise<Decision<N> & { readonly granted: number }>

  /** The answer that {@link take} would give, without taking anything. The cost may be 0. */
  peek(key: K, cost?: number | TakeOptions<T>): Promise<Decision<N>>

  /**
   * Charges units whether or not they fit: under each policy at most what is left, even while the key is blocked.
   *
   * @param units - A whole number from 1. Default: 1.
   * @returns The units charged: under several policies the most that one of them charged; 0 if the store is
   * down and no embedded share charges them.
   */
  penalize(key: K, units?: number, options?: TierOptions<T>): Promise<number>

  /**
   * Refunds units that a decision took, as far as they are still charged. A decision refunds no more than it
   * took, and a key never gets more than its full allowance.
   *
   * See `docs/operations.md#refund` for the units that come back under each algorithm.
   *
   * @param decision - The object returned by {@link take}, `takeSync`, {@link takeMany},
   * {@link takeUpTo} or `wait` of this limiter; or a copy, such as one from JSON, with `units` and
   * `options.key`.
   * @param units - A whole number from 1. Default: all units of the decision that are not yet
   * refunded. Required for a copy.
   * @param options - The key of the decision. Required for a copy. Each refund of a copy counts, and a copy
   * whose `source` is not `'store'` refunds nothing.
   * @returns The units refunded: under several policies the most that one of them refunded.
   */
  refund(decision: Decision<N>, units?: number, options?: RefundOptions<K>): Promise<number>

  /**
   * Returns a key to its initial state and ends a block. An override stays.
   *
   * Rejects with `STORE_FULL` if the key shares its count because the embedded store is full.
   *
   * @param key - The key, or some of its parts.
   * @returns The place where the key was reset: see {@link Applied}.
   */
  reset(key: SomeOf<K>, options?: KeyOptions): Promise<Applied>

  /**
   * Refuses every call on a key for `duration`. A block that ends later stays: to shorten one, call
   * `unblock` first. Under several policies one blocked part refuses the call. Charged units drain as usual.
   *
   * Rejects with `STORE_FULL` if the embedded store has no room for the key.
   *
   * @param key - The key, or some of its parts.
   * @param duration - Up to 142 years.
   * @returns The place where the key is blocked: see {@link Applied}.
   */
  block(key: SomeOf<K>, duration: Duration, options?: KeyOptions): Promise<Applied>

  /** Ends a block. @returns The place where the block was ended: see {@link Applied}. */
  unblock(key: SomeOf<K>, options?: KeyOptions): Promise<Applied>

  /**
   * Gives a key its own numbers for a limited time, in all processes. Units already charged keep counting.
   *
   * Rejects with `INVALID_OPTION` for an option that cannot be overridden, with `INVALID_POLICY`
   * for numbers that the policy does not allow, and with `STORE_FULL` if the embedded store has no
   * room for the key.
   *
   * @param key - The key, or at least the parts of it that the overridden policies count by.
   * @param numbers - The numbers that differ from the limiter's; for several policies by policy
   * name. With tiers they differ from those of `options.tier`, and the override decides the key's
   * calls in all tiers.
   * @param options - `ttl` is the duration of the override.
   * @returns The place where the override applies: see {@link Applied}.
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }))
   * await limiter.override('customer:7', { limit: 500 }, { ttl: '30d' })
   */
  override(key: SomeOf<K>, numbers: O, options: OverrideOptions<T>): Promise<Applied>

  /** Removes the override of a key. @returns The place where it was removed: see {@link Applied}. */
  clearOverride(key: SomeOf<K>, options?: KeyOptions): Promise<Applied>

  /**
   * Replaces the numbers of the policies, from the next call of this process on. Slots of `wait`, reservations
   * and overrides stay valid, and units already charged keep counting: see `docs/changing-limits.md#update`.
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
   * Resolves once the store can answer. Over Redis it rejects with `INVALID_POLICY` if another process has used
   * policies with other names or algorithms on the prefix in the last 90 minutes, unless `takeOver` is set.
   */
  ready(): Promise<void>

  /** Rejects further calls and pending `wait` calls with `CLOSED`. It does not close a store that you passed in. */
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
  /** {@link RateLimiter.take} without a promise. @throws {TollgateError} As `take` rejects. */
  takeSync(key: K, cost?: number | TakeOptions<T>): Decision<N>
}

/** The policies of a limiter, with their exact types. @typeParam P - The policy, or the policies by name. */
export interface Enforcing<P extends Policy | Policies> {
  /** As in {@link RateLimiter}, each with the numbers of its own algorithm. */
  readonly policies: PoliciesByLimit<P>
}

/** The policies of a limiter with tiers, with their exact types. @typeParam P - The policies, with their tiers. */
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
   */
  new <const P extends Policy | Policies>(
    policy: P,
    options?: RateLimiterOptions,
  ): EmbeddedRateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> &
    Enforcing<P> &
    ReservingFor<P> &
    WaitsOf<P> &
    AcquiringFor<P>
  /** A limiter whose store is chosen at run time: in Redis, or `undefined`. It has no `takeSync`. */
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
   */
  new <const P extends TieredPolicies>(policy: P, options?: RateLimiterOptions): EmbeddedTieredLimiter<P>
  /** A limiter with tiers whose store is chosen at run time. */
  new <const P extends TieredPolicies>(policy: P, options: AnyRateLimiterOptions): TieredLimiter<P>
  /** A limiter with tiers for many processes. */
  new <const P extends TieredPolicies>(policy: P, options: RedisRateLimiterOptions): TieredLimiter<P>
  /** Matches no call that the others do not: by it TypeScript says that `prefix` is missing. */
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
