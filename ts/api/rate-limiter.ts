/// <reference lib="esnext.disposable" preserve="true" />

import type { OnStoreFailure } from '../backends/fallback/on-store-failure.js'
import type { LocalDecisions } from '../backends/local/local-options.js'
import { MemoryStore } from '../backends/memory/memory-store.js'
import type { RedisStore } from '../backends/redis/redis-store.js'
import { sharedStore } from '../backends/redis/shared-stores.js'
import type { Duration } from '../input/duration.js'
import type { CostOf, MeterOf, SomeUnitsBy, UnitsBy } from '../policies/cost-of.js'
import type { Policy } from '../policies/policy.js'
import type { Enforced, KeyOf, LimitNames, Policies, PolicyOf, TierOf, WithoutTiers } from '../policies/policy-set.js'
import type {
  CanSettle,
  IfEmbedded,
  IfPermits,
  IfRates,
  IfReservable,
  IfUnits,
  IfUnmetered,
  UsesConcurrency,
} from './availability.js'
import type { BanOptions } from './ban.js'
import type {
  CostArguments,
  CostOptionArguments,
  OptionArguments,
  OverrideOptions,
  TagArguments,
  TakeOptions,
  WithTier,
} from './call-options.js'
import type { Allowed, Decision } from './decision.js'
import { Limiter, type OwnedStore } from './limiter.js'
import { checkLimiterCount } from './limiter-options.js'
import type { Override } from './override.js'
import type { AcquireOptions, Permit } from './permit.js'
import type { Reservation, ReserveOptions, Settlement } from './reservation.js'
import type { WaitOptions } from './wait.js'

/** The URL of a Redis server: see `url` of `RedisStoreOptions`. */
export type RedisUrl = `${'redis' | 'rediss' | 'redis+unix' | 'valkey' | 'valkeys'}://${string}`

/**
 * The options of a {@link RateLimiter} on the embedded store. Those for Redis, and a `tag`, are checked, so that a
 * test can replace Redis, and have no effect.
 *
 * @example
 * const options: RateLimiterOptions = { ban: { after: 5, period: '1m', for: '10m' } }
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), options)
 */
export interface RateLimiterOptions {
  /** The store of the counts. Default: a new {@link MemoryStore}. */
  readonly store?: MemoryStore
  /**
   * As for Redis. Limiters with equal prefix share their counts, and each decides by its own numbers, with a
   * warning. Policies that differ in more than numbers are `INVALID_OPTION` while the other limiter is open.
   */
  readonly prefix?: string
  /** The `tag` of calls that give none: see {@link TakeOptions}. */
  readonly tag?: string
  /** The answer to calls when the store fails. The embedded store never fails. Default: `'throw'`. */
  readonly onStoreFailure?: OnStoreFailure
  /** The calls over Redis that this process decides itself. Default: none. */
  readonly local?: LocalDecisions
  /**
   * Whether `ready` accepts policies with other names or algorithms on the same prefix, as
   * while such a change is rolled out. Neither sees the counts of the other. Default: `false`.
   */
  readonly takeOver?: boolean
  /** Bans keys for refused calls. Default: no key is banned. */
  readonly ban?: BanOptions
  /** Blocks each key for this long from its first refused call on: `ban: { for: blockFor }`. Not with `ban`. */
  readonly blockFor?: Duration
}

/**
 * The options of a {@link RateLimiter} over Redis.
 *
 * @example
 * const options: RedisRateLimiterOptions = { store: 'redis://localhost', prefix: 'api' }
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), options)
 */
export interface RedisRateLimiterOptions extends Omit<RateLimiterOptions, 'store' | 'prefix'> {
  /** The store of the counts. Limiters with equal URLs share a connection; you close a store that you made. */
  readonly store: RedisStore | RedisUrl
  /**
   * Separates this limiter's keys from those of other limiters. Letters, digits, `_`, `.`,
   * `-` and `:`, up to 64, starting with a letter and not ending with `:`.
   */
  readonly prefix: string
}

declare const ENFORCED: unique symbol

/** A key that is a string, or some of its parts. `global: true` selects a policy that counts all calls together. */
type SomeOf<K> = K extends string
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
 * The types of keys, limit names, overrides and tiers follow from the policies. What these policies cannot do does not
 * compile, and fails when it is called. Without a type argument it is any limiter whose keys are strings, whose calls
 * name no tier, and whose units `take` takes: not one of `concurrency`.
 *
 * @typeParam P - The policy, the policies by name, or those with tiers, as you gave them to the constructor.
 *
 * @example
 * const policies = { ip: gcra({ limit: 20, period: '1m', per: 'ip' }), user: gcra({ limit: 5, period: '1h', per: 'user' }) }
 * async function admits(limiter: RateLimiter<typeof policies>, key: KeyOf<typeof policies>): Promise<boolean> {
 *   return (await limiter.take(key)).allowed
 * }
 */
export interface RateLimiter<P extends Enforced = Policy | Policies> {
  /** The policies, by the names that decisions use; with tiers those of the first tier. */
  readonly policies: { readonly [Name in LimitNames<P>]: PolicyOf<P, Name> }

  /** The prefix from the options; `undefined` for a limiter on the embedded store without one. */
  readonly prefix: string | undefined

  /** Only a type, by which TypeScript infers `P` of a generic function. No limiter has the property. */
  readonly [ENFORCED]?: P | undefined

  /** Where its counts are: in this process, or in Redis for all processes. */
  readonly storeKind: 'embedded' | 'redis'

  /** The {@link RateLimiter.policies} of each tier; without tiers an empty object. */
  readonly tiers: { readonly [Tier in TierOf<P>]: { readonly [Name in LimitNames<P>]: PolicyOf<P, Name> } }

  /**
   * Takes units for a key, if all of them fit. A refused call takes nothing, unless the policy has
   * `countRefused`.
   *
   * @param cost - The units that the call costs: a whole number from 1. Default: 1. If a policy has a `meter`, options
   * with a cost by meter: see {@link CostOf}.
   */
  readonly take: IfUnits<
    P,
    'take',
    (key: KeyOf<P>, ...cost: CostArguments<P, never, TakeOptions>) => Promise<Decision<LimitNames<P>>>
  >

  /** {@link take} without a promise, of an {@link EmbeddedRateLimiter}. Over Redis it throws, and does not compile. */
  readonly takeSync: IfEmbedded<SyncMethod<P>>

  /**
   * Takes units like {@link take}, and resolves to whether it took them, for use as a condition: a decision is an
   * object, and so always true.
   *
   * @example
   * if (!(await limiter.tryTake('user:42'))) return
   */
  readonly tryTake: IfUnits<
    P,
    'tryTake',
    (key: KeyOf<P>, ...cost: CostArguments<P, never, TakeOptions>) => Promise<boolean>
  >

  /**
   * {@link take} for several keys in one call to the engine, each decided separately, in order.
   *
   * If a key fails, the promise rejects with an error whose `results` hold the decision or error of
   * every key.
   *
   * @param cost - The units that each key costs, or an array of one cost per key. Default: 1.
   */
  readonly takeMany: IfUnits<
    P,
    'takeMany',
    (keys: readonly KeyOf<P>[], ...cost: CostArguments<P, readonly CostOf<P>[]>) => Promise<Decision<LimitNames<P>>[]>
  >

  /**
   * Takes as many units as fit, up to `units`. Under several policies `granted` is the smallest number that
   * one of them has room for. If none fits, the decision is that of a refused {@link take} of 1. Not for policies
   * with a `meter`.
   *
   * @param units - A whole number from 1.
   */
  readonly takeUpTo: IfUnits<
    P,
    'takeUpTo',
    IfUnmetered<
      P,
      'takeUpTo',
      (
        key: KeyOf<P>,
        units: number,
        ...options: TagArguments<P>
      ) => Promise<Decision<LimitNames<P>> & { readonly granted: number }>
    >
  >

  /** The answer that {@link take} would give, without taking anything. The cost may be 0. */
  peek(key: KeyOf<P>, ...cost: CostArguments<P>): Promise<Decision<LimitNames<P>>>

  /**
   * Charges units whether or not they fit: under each policy at most what is left, even while the key is blocked.
   *
   * @param units - A whole number from 1. Default: 1. With meters, units of some of them: those of the others are 0.
   * @returns The units charged, with meters those of each meter: under several policies the most that one of them charged; 0 if the store is
   * down and no embedded share charges them.
   */
  readonly penalize: IfUnits<
    P,
    'penalize',
    (
      key: KeyOf<P>,
      ...units: [TierOf<P> | MeterOf<P>] extends [never]
        ? [units?: number, options?: Pick<TakeOptions, 'tag'>]
        : [units: SomeUnitsBy<MeterOf<P>>, ...options: TagArguments<P>]
    ) => Promise<UnitsBy<MeterOf<P>>>
  >

  /**
   * Refunds units that a decision took, as far as they are still charged. A decision refunds no more than it
   * took, and a key never gets more than its full allowance.
   *
   * See `docs/operations.md#refund` for the units that come back under each algorithm.
   *
   * @param decision - The object returned by {@link take}, `takeSync`, {@link takeMany},
   * {@link takeUpTo} or `wait` of this limiter; or a copy, such as one from JSON, with `units` and
   * `options.key`, and with tiers the `options.tier` of the call.
   * @param units - A whole number from 1; with meters, units of some of them. Default: all units of the decision
   * that are not yet refunded. Required for a copy.
   * @param options - The key of the decision, and with tiers its tier. Required for a copy. Each refund of a copy
   * counts, and a copy whose `source` is not `'store'` refunds nothing.
   * @returns The units refunded, with meters those of each meter: under several policies the most that one of them refunded.
   */
  refund(
    decision: Decision<LimitNames<P>>,
    units?: SomeUnitsBy<MeterOf<P>>,
    options?: WithTier<P, Pick<TakeOptions, 'tag'> & { readonly key: KeyOf<P> }>,
  ): Promise<UnitsBy<MeterOf<P>>>

  /**
   * Takes units at the first time at which they fit, its *slot*, and resolves then. Rejects at once, and takes
   * nothing, with `WAIT_TOO_LONG` if the slot is further away than `maxWait`, the key is blocked or the cost can
   * never fit, and with `INVALID_OPTION` under a policy that is not a rate.
   *
   * See `docs/operations.md#wait` for aborting, closing and the order of calls, which all processes share.
   *
   * @returns The decision. `waitedMs` is the time from `at` to the slot, in milliseconds with
   * microsecond precision.
   *
   * @example
   * const pacer = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }))
   * await pacer.wait('api.example.com', { maxWait: '5s' })
   * const response = await fetch('https://api.example.com')
   */
  readonly wait: IfRates<
    P,
    <R extends 'reject' | 'resolve' = 'reject'>(
      key: KeyOf<P>,
      ...options: CostOptionArguments<P, WaitOptions, { readonly onTooLong?: R }>
    ) => Promise<
      ([R] extends ['reject'] ? Allowed<LimitNames<P>> : Decision<LimitNames<P>>) & { readonly waitedMs: number }
    >
  >

  /**
   * Takes an estimated number of units, if all of them fit, to be settled later by `commit` or `cancel`.
   * A reservation that is not settled before `ttl` counts as spent.
   *
   * See `docs/operations.md#reserve` for extending, settling elsewhere and errors.
   *
   * @param units - The estimate: a whole number from 1, or with meters a cost by meter.
   * @returns A {@link Reservation}, also after a refusal.
   *
   * @example
   * const reservation = await limiter.reserve('customer:7', 4000, { ttl: '2m' })
   * if (reservation.allowed) {
   *   const { tokens } = await generate()
   *   await reservation.commit(tokens)
   * }
   */
  readonly reserve: IfReservable<
    P,
    'reserve',
    (
      key: KeyOf<P>,
      units: CostOf<P>,
      ...options: OptionArguments<P, ReserveOptions>
    ) => Promise<
      UsesConcurrency<P> extends true ? Permit<LimitNames<P>, MeterOf<P>, true> : Reservation<LimitNames<P>, MeterOf<P>>
    >
  >

  /**
   * `commit` of a {@link Reservation}, for one of any process with the same policies, prefix and store.
   *
   * Rejects with `INVALID_OPTION` for an id that is none or belongs to other policies, with
   * `INVALID_COST`, and with the errors of every call on the store.
   *
   * @param id - The `id` of the reservation.
   * @param actual - A whole number from 0. Default: the units of the reservation when its id was read.
   * @returns A {@link Settlement}.
   *
   * @example
   * await limiter.settle(webhook.metadata.reservation, webhook.usage.tokens)
   */
  readonly settle: IfReservable<
    P,
    'settle',
    (id: string, actual?: SomeUnitsBy<MeterOf<P>>) => Promise<Settlement<MeterOf<P>>>
  >

  /**
   * Takes units of all policies, if all of them fit, and holds those of `concurrency` with a permit
   * until it is released. Units of the other policies are charged as by `take`. This process renews its permits
   * every third of `ttl`. If it is killed, they expire.
   *
   * With `maxWait` the call waits for its turn: see `docs/permits.md` for the order.
   *
   * Rejects with `INVALID_OPTION` for a limiter without a `concurrency` policy, and with `ABORTED` or `CLOSED`
   * while it waits. If the outcome of a request is unknown (`STORE_TIMEOUT`), the permit is released.
   *
   * @returns A {@link Permit}, also after a refusal.
   *
   * @example
   * const limiter = new RateLimiter(concurrency({ limit: 10 }))
   * await using permit = await limiter.acquire('model:large', { maxWait: '5s' })
   * if (permit.allowed) {
   *   await generate({ signal: permit.signal })
   * }
   */
  readonly acquire: IfPermits<
    P,
    (
      key: KeyOf<P>,
      ...options: CostOptionArguments<P, AcquireOptions>
    ) => Promise<Permit<LimitNames<P>, MeterOf<P>, CanSettle<P>>>
  >

  /**
   * Returns a key to its initial state and ends a block. An override stays.
   *
   * Rejects with `STORE_FULL` if the key shares its count because the embedded store is full.
   *
   * @param key - The key, or some of its parts.
   * @returns The place where the key was reset, as for {@link block}.
   */
  reset(key: SomeOf<KeyOf<P>>, options?: Pick<TakeOptions, 'tag'>): Promise<'store' | 'fallback' | false>

  /**
   * Refuses every call on a key for `duration`. A block that ends later stays: to shorten one, call
   * `unblock` first. Under several policies one blocked part refuses the call. Charged units drain as usual.
   *
   * Rejects with `STORE_FULL` if the embedded store has no room for the key.
   *
   * @param key - The key, or some of its parts.
   * @param duration - Up to 142 years.
   * @returns The place where the key is blocked: `'store'`, for all processes; `'fallback'`, in the embedded share of
   * this process until the outage ends; or `false`, nowhere, because the store failed. After a timeout the change may
   * still have reached the store.
   */
  block(
    key: SomeOf<KeyOf<P>>,
    duration: Duration,
    options?: Pick<TakeOptions, 'tag'>,
  ): Promise<'store' | 'fallback' | false>

  /** Ends a block. @returns The place where the block was ended, as for {@link block}. */
  unblock(key: SomeOf<KeyOf<P>>, options?: Pick<TakeOptions, 'tag'>): Promise<'store' | 'fallback' | false>

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
   * @returns The place where the override applies, as for {@link block}.
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }))
   * await limiter.override('customer:7', { limit: 500 }, { ttl: '30d' })
   */
  override(
    key: SomeOf<KeyOf<P>>,
    numbers: Override<WithoutTiers<P>>,
    options: WithTier<P, OverrideOptions>,
  ): Promise<'store' | 'fallback' | false>

  /** Removes the override of a key. @returns The place where it was removed, as for {@link block}. */
  clearOverride(key: SomeOf<KeyOf<P>>, options?: Pick<TakeOptions, 'tag'>): Promise<'store' | 'fallback' | false>

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
  update(policies: Policy | Enforced): void

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

/**
 * A {@link RateLimiter} on the embedded store, which can answer synchronously.
 *
 * @example
 * const limiter: EmbeddedRateLimiter = new RateLimiter(gcra({ limit: 100, period: '1m' }))
 * if (!limiter.takeSync('user:42').allowed) throw new Error('too many requests')
 */
export interface EmbeddedRateLimiter<P extends Enforced = Policy | Policies> extends RateLimiter<P> {
  // Repeated as the first property: its mapped type makes the compiler compare the members of two limiters, not their
  // type arguments.
  readonly policies: { readonly [Name in LimitNames<P>]: PolicyOf<P, Name> }

  /** {@link RateLimiter.take} without a promise. @throws {TollgateError} As `take` rejects. */
  readonly takeSync: SyncMethod<P>
}

type SyncMethod<P> = IfUnits<
  P,
  'takeSync',
  (key: KeyOf<P>, ...cost: CostArguments<P, never, TakeOptions>) => Decision<LimitNames<P>>
>

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
  new <const P extends Enforced>(policy: P, options?: RateLimiterOptions): EmbeddedRateLimiter<P>
  /**
   * A limiter whose store is chosen at run time: in Redis, or `undefined`, which is a new {@link MemoryStore}, with a
   * warning (`TOLLGATE_UNDEFINED_STORE`). It has no `takeSync`.
   */
  new <const P extends Enforced>(
    policy: P,
    options: Omit<RedisRateLimiterOptions, 'store'> & {
      readonly store: MemoryStore | RedisStore | RedisUrl | undefined
    },
  ): RateLimiter<P>
  /**
   * A limiter for many processes. It has no `takeSync`.
   *
   * @example
   * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store: 'redis://localhost', prefix: 'api' })
   */
  new <const P extends Enforced>(policy: P, options: RedisRateLimiterOptions): RateLimiter<P>
  /** Matches no call that the others do not: by it TypeScript says that `prefix` is missing. */
  new (policy: Enforced, options: RedisRateLimiterOptions): never
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
  return url === undefined ? { store: new MemoryStore(), release: async () => {} } : sharedStore(url)
}
