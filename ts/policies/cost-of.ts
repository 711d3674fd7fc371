import type { PolicyIn } from './policy-set.js'

/**
 * The cost of a call: a number; or, if a policy has a `meter`, an object with a number for each meter of the policies.
 * A meter may be left out if its policy has a `defaultCost`; so may `calls`, which is the meter of policies without
 * one, and of which a call costs 1. Of a {@link Policy} whose meter is unknown it is a number.
 *
 * @example
 * const policies = {
 *   requests: gcra({ limit: 100, period: '1m' }),
 *   tokens: tokenBucket({ capacity: 40_000, refill: { tokens: 40_000, every: '1m' }, meter: 'tokens' }),
 * }
 * const cost: CostOf<typeof policies> = { tokens: 2_500 }
 */
export type CostOf<P> = [MeterOf<P>] extends [never]
  ? number
  : {
        readonly [Meter in RequiredMeter<P>]: number
      } & { readonly [Meter in Exclude<MeterOf<P>, RequiredMeter<P>>]?: number } extends infer Costs
    ? // One object, which messages of the compiler show without the names of these types.
      { readonly [Meter in keyof Costs]: Costs[Meter] }
    : never

/** The meters of the policies; `never` if all of them count calls, or if their types do not tell. */
export type MeterOf<P> = MetersOf<MeterOfPolicy<PolicyIn<P>>>

type MetersOf<M> = [Exclude<M, 'calls'>] extends [never] ? never : M

type MeterOfPolicy<P> = P extends { readonly meter: infer M extends string } ? M : 'calls'

/** The meters that every call must name. */
type RequiredMeter<P> = Exclude<MeterOf<P>, MeterWithDefault<PolicyIn<P>> | 'calls'>

type MeterWithDefault<P> = P extends { readonly meter: infer M } ? ('defaultCost' extends keyof P ? M : never) : never

/** Whether every call must name a cost. */
export type IsCostRequired<P> = [RequiredMeter<P>] extends [never] ? false : true

/** Units that were moved: a number, or one for each of the meters `M`. */
export type UnitsBy<M extends string> = [M] extends [never] ? number : { readonly [Meter in M]: number }

/** Units to move: a number, or one for some of the meters `M`. */
export type SomeUnitsBy<M extends string> = [M] extends [never] ? number : { readonly [Meter in M]?: number }
