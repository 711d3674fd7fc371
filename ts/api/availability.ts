/**
 * The methods that a limiter has because of its policies. Where the policies cannot do what a method does, its type is
 * an {@link Unavailable} with the fix, which the compiler shows: `Type 'Unavailable<"wait needs …">' has no call
 * signatures`.
 */
import type { ConcurrencyPolicy } from '../policies/concurrency.js'
import type { GcraPolicy } from '../policies/gcra.js'
import type { LeakyBucketPolicy } from '../policies/leaky-bucket.js'
import type { Policy } from '../policies/policy.js'
import type { KeyOf, LimitNames, PolicyIn, WithoutTiers } from '../policies/policy-set.js'
import type { SlidingCounterPolicy } from '../policies/sliding-counter.js'
import type { TokenBucketPolicy } from '../policies/token-bucket.js'
import type { OptionArguments } from './call-options.js'
import type { Allowed, Decision } from './decision.js'
import type { AcquireOptions, Permit } from './permit.js'
import type { Reservation, ReserveOptions, Settlement } from './reservation.js'
import type { WaitOptions } from './wait.js'

type RatePolicy = GcraPolicy | LeakyBucketPolicy | TokenBucketPolicy<'continuous'>

/** Whether the algorithms are known when the program is compiled. */
type IsKnown<P> = Policy['algorithm'] extends PolicyIn<P>['algorithm'] ? false : true

/** Whether one of the policies certainly is a `concurrency`. */
type UsesConcurrency<P> = true extends HasConcurrency<WithoutTiers<P>> ? true : false

type HasConcurrency<P> = [P] extends [Policy]
  ? IsConcurrency<P>
  : { [Name in keyof P]: IsConcurrency<P[Name]> }[keyof P]

type IsConcurrency<P> = [P] extends [ConcurrencyPolicy] ? true : false

/** In place of a method that always fails. It is an object type, because the compiler does not show a text alone. */
export interface Unavailable<Fix extends string> {
  readonly fix: Fix
}

/** `Method`; {@link Unavailable} if a policy is a `concurrency`. */
export type TakesUnits<P, Name extends string, Method> =
  UsesConcurrency<P> extends true
    ? Unavailable<`${Name} cannot be used with concurrency(): use acquire(key), which returns a permit to release`>
    : Method

/** `Method` if the policies have it, {@link Unavailable} if not, and either if they are unknown. */
type Either<P, Has, Method, Fix extends string> = Has extends true
  ? Method
  : IsKnown<P> extends true
    ? Unavailable<Fix>
    : Method | Unavailable<Fix>

/** A method of limiters on the embedded store, of a limiter on any store. */
export type EmbeddedOnly<Method> =
  | Method
  | Unavailable<'takeSync needs the embedded store: over Redis, await take(key)'>

type IsRate<P> = [PolicyIn<P>] extends [RatePolicy] ? true : false

export type WaitMethod<P> = Either<
  P,
  IsRate<P>,
  <R extends 'reject' | 'resolve' = 'reject'>(
    key: KeyOf<P>,
    ...options: OptionArguments<P, WaitOptions & { readonly onTooLong?: R }>
  ) => Promise<([R] extends ['reject'] ? Allowed<LimitNames<P>> : Decision<LimitNames<P>>) & { readonly waitedMs: number }>,
  `wait needs policies made by gcra(), leakyBucket() or tokenBucket() with continuous refill: use ${UsesConcurrency<P> extends true ? 'acquire(key, { maxWait })' : 'one of these, or take(key)'}`
>

type IsReservable<P> = [Extract<PolicyIn<P>, SlidingCounterPolicy | ConcurrencyPolicy>] extends [never] ? true : false

type ReserveAdvice<P, Name extends string> =
  UsesConcurrency<P> extends true
    ? `${Name} cannot be used with concurrency(): use acquire(key), which returns a permit to release`
    : `${Name} cannot be used with slidingCounter(), which only estimates earlier calls: use slidingWindow()`

export type ReserveMethod<P> = Either<
  P,
  IsReservable<P>,
  (key: KeyOf<P>, units: number, ...options: OptionArguments<P, ReserveOptions>) => Promise<Reservation<LimitNames<P>>>,
  ReserveAdvice<P, 'reserve'>
>

export type SettleMethod<P> = Either<
  P,
  IsReservable<P>,
  (id: string, actual?: number) => Promise<Settlement>,
  ReserveAdvice<P, 'settle'>
>

export type AcquireMethod<P> = Either<
  P,
  UsesConcurrency<P>,
  (key: KeyOf<P>, ...options: OptionArguments<P, AcquireOptions>) => Promise<Permit<LimitNames<P>>>,
  'acquire needs a policy made by concurrency({ limit }): use one, or take(key)'
>
