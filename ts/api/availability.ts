/**
 * The methods that a limiter has because of its policies. Where the policies cannot do what a method does, its type is
 * an {@link Unavailable} with the fix, which the compiler shows: `Type 'Unavailable<"wait needs …">' has no call
 * signatures`.
 */
import type { ConcurrencyPolicy } from '../policies/concurrency.js'
import type { MeterOf } from '../policies/cost-of.js'
import type { GcraPolicy } from '../policies/gcra.js'
import type { LeakyBucketPolicy } from '../policies/leaky-bucket.js'
import type { Policy } from '../policies/policy.js'
import type { PolicyIn, WithoutTiers } from '../policies/policy-set.js'
import type { SlidingCounterPolicy } from '../policies/sliding-counter.js'
import type { TokenBucketPolicy } from '../policies/token-bucket.js'

type RatePolicy = GcraPolicy | LeakyBucketPolicy | TokenBucketPolicy<'continuous'>

/** Whether the algorithms are known when the program is compiled. */
type IsKnown<P> = Policy['algorithm'] extends PolicyIn<P>['algorithm'] ? false : true

/** Whether one of the policies certainly is a `concurrency`. */
export type UsesConcurrency<P> = true extends HasConcurrency<WithoutTiers<P>> ? true : false

type HasConcurrency<P> = [P] extends [Policy]
  ? IsConcurrency<P>
  : { [Name in keyof P]: IsConcurrency<P[Name]> }[keyof P]

type IsConcurrency<P> = [P] extends [ConcurrencyPolicy] ? true : false

/** In place of a method that always fails. It is an object type, because the compiler does not show a text alone. */
export interface Unavailable<Fix extends string> {
  readonly fix: Fix
}

/** `Method`; {@link Unavailable} if a policy is a `concurrency`. */
export type IfUnits<P, Name extends string, Method> =
  UsesConcurrency<P> extends true
    ? Unavailable<`${Name} cannot be used with concurrency(): use acquire(key), which returns a permit to release`>
    : Method

/** `Method`; {@link Unavailable} if a policy has a meter. */
export type IfUnmetered<P, Name extends string, Method> = [MeterOf<P>] extends [never]
  ? Method
  : Unavailable<`${Name} cannot be used with policies that have a meter: use take(key, { cost })`>

/** {@link Unavailable} if the policies are known, and if not perhaps `Method`. */
type Missing<P, Method, Fix extends string> = Unavailable<Fix> | (IsKnown<P> extends true ? never : Method)

/** A method of limiters on the embedded store, of a limiter on any store. */
export type IfEmbedded<Method> = Method | Unavailable<'takeSync needs the embedded store: over Redis, await take(key)'>

type IsRate<P> = [PolicyIn<P>] extends [RatePolicy] ? true : false

/** `Method` if every policy is a rate. */
export type IfRates<P, Method> =
  IsRate<P> extends true
    ? Method
    : Missing<
        P,
        Method,
        `wait needs policies made by gcra(), leakyBucket() or tokenBucket() with continuous refill: use ${UsesConcurrency<P> extends true ? 'acquire(key, { maxWait })' : 'one of these, or take(key)'}`
      >

/** The policies whose units a permit does not hold. */
type OtherPolicies<P> = Exclude<PolicyIn<P>, ConcurrencyPolicy>

type IsReservable<P> = [OtherPolicies<P>] extends [never]
  ? false
  : [Extract<OtherPolicies<P>, SlidingCounterPolicy>] extends [never]
    ? true
    : false

/** Whether units of permits can be settled; `boolean` if the policies are unknown. */
export type CanSettle<P> = IsKnown<P> extends true ? IsReservable<P> : boolean

/** `Member` if units of permits can be settled; perhaps if that is unknown. */
export type IfSettles<S extends boolean, Name extends string, Member> =
  | (true extends S ? Member : never)
  | (false extends S
      ? // Not `Unavailable`, because programs whose declarations infer a permit cannot name that.
        {
          readonly fix: `${Name} needs a policy beside concurrency(), and none made by slidingCounter(): use release()`
        }
      : never)

/** `Method` if there are units to reserve, and every policy can give them back; those of permits are released. */
export type IfReservable<P, Name extends string, Method> =
  IsReservable<P> extends true
    ? Method
    : Missing<
        P,
        Method,
        [OtherPolicies<P>] extends [never]
          ? `${Name} needs a policy beside concurrency(), whose units it settles: use acquire(key)`
          : `${Name} cannot be used with slidingCounter(), which only estimates earlier calls: use slidingWindow()`
      >

/** `Method` if a policy is a `concurrency`. */
export type IfPermits<P, Method> =
  UsesConcurrency<P> extends true
    ? Method
    : Missing<P, Method, 'acquire needs a policy made by concurrency({ limit }): use one, or take(key)'>
