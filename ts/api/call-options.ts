import type { CallId } from '../backends/operation.js'
import { checkBareNumber, type Duration, microsOf, millisOf } from '../input/duration.js'
import { tagOf } from '../input/keys.js'
import { invalid, isPlain, optionsOf, wholeNumber } from '../input/options.js'
import type { CostOf, IsCostRequired, MeterOf } from '../policies/cost-of.js'
import type { TierOf } from '../policies/policy-set.js'
import { adviceOnId, callIdOf, takeOptionNamesOf, type UncheckedTakeOptions } from './call-id.js'
import { TollgateError } from './error.js'
import { plainUnitsOf } from './metered-units.js'

/**
 * Options of a call that takes or previews units. With tiers they also have the `tier`, whose numbers decide. If a
 * policy has a `meter`, the `cost` is an object by meter: see {@link CostOf}.
 *
 * @example
 * await limiter.take('user:42', { cost: 5 })
 * await limiterWithTiers.take('user:42', { cost: 5, tier: 'pro' })
 */
export interface TakeOptions {
  /** The units that the call costs: a whole number from 1 (in `peek` from 0). Default: 1. */
  readonly cost?: number
  /**
   * Redis Cluster only: the hash tag that places the key in a slot. Keys that one call decides together must
   * share a slot, and a key must always have the same tag. Default: the limiter's tag, or else the key itself.
   */
  readonly tag?: string
  /**
   * Names the call: one of the same `id` on the same key gets the first decision again, and is not charged, in any
   * process. So a call may be repeated after an error. A string of 1 to 128 bytes of UTF-8. A refused call is decided
   * anew.
   */
  readonly id?: string
  /** How long the `id` of an admitted call is remembered: up to a day. Default: ten minutes. */
  readonly idTtl?: Duration
}

/** {@link TakeOptions} of a call that has no `id`. @inline */
export type TakeOptionsWithoutId = Omit<TakeOptions, 'id' | 'idTtl'>

/**
 * Options of an override. With tiers they also have the `tier`, from whose numbers the override differs.
 * @inline
 */
export interface OverrideOptions {
  /** How long the override applies: up to 142 years. */
  readonly ttl: Duration
  /** As in {@link TakeOptions}. */
  readonly tag?: string
}

/** Options of a call that decides: with tiers they are required, and have the tier. */
export type WithTier<P, O> = [TierOf<P>] extends [never] ? O : O & { readonly tier: TierOf<P> }

/** The last arguments of a call that decides. */
export type OptionArguments<P, O> = [TierOf<P>] extends [never] ? [options?: O] : [options: WithTier<P, O>]

/** Options with a `cost`, which is by meter if a policy has a meter. */
export type WithCost<P, O> = [MeterOf<P>] extends [never] ? O : Omit<O, 'cost'> & CostOption<P>

type CostOption<P> = IsCostRequired<P> extends true ? { readonly cost: CostOf<P> } : { readonly cost?: CostOf<P> }

/** The last arguments of a call whose options `O` have a `cost`, with further options. */
export type CostOptionArguments<P, O, Further = unknown> =
  IsCostRequired<P> extends true
    ? [options: WithTier<P, WithCost<P, O> & Further>]
    : OptionArguments<P, WithCost<P, O> & Further>

/** The last argument of a call whose units are an argument of their own. */
export type TagArguments<P> = OptionArguments<P, Pick<TakeOptions, 'tag'>>

/** The cost of a call, or its options `O`. */
export type CostArguments<P, Costs = never, O extends TakeOptionsWithoutId = TakeOptionsWithoutId> = [
  MeterOf<P>,
] extends [never]
  ? [TierOf<P>] extends [never]
    ? [cost?: number | Costs | O]
    : [options: WithTier<P, O>]
  : [TierOf<P>] extends [never]
    ? IsCostRequired<P> extends true
      ? [options: Costs | WithCost<P, O>]
      : [options?: Costs | WithCost<P, O>]
    : [options: WithTier<P, WithCost<P, O>>]

/** The checked cost, tag and tier of a call. */
export interface TakeArguments {
  readonly units: number
  readonly tag: string | undefined
  /** Not checked. */
  readonly tier: unknown
  readonly callId: CallId | undefined
}

/** Checks a cost or {@link TakeOptions}. */
export function takeArgumentsOf(method: string, cost: unknown, min: number): TakeArguments {
  if (cost === undefined) {
    return { units: 1, tag: undefined, tier: undefined, callId: undefined }
  }
  // A promise or a `Date` has no options, and would cost 1.
  if (typeof cost !== 'object' || cost === null || !isPlain(cost)) {
    const units = wholeNumber('INVALID_COST', 'cost', cost, min)
    return { units, tag: undefined, tier: undefined, callId: undefined }
  }
  const { cost: given, tag, tier, id, idTtl } = takeOptionsOf(method, cost)
  return {
    units: given === undefined ? 1 : plainUnitsOf('cost', given, min),
    tag: tag === undefined ? undefined : tagOf(tag),
    tier,
    callId: id === undefined && idTtl === undefined ? undefined : callIdOf(method, id, idTtl),
  }
}

/** Checks the names of options. `optionsOf` would take 50 ns of a call of the embedded store. */
function takeOptionsOf(method: string, options: object): UncheckedTakeOptions {
  for (const name in options) {
    if (name !== 'cost' && name !== 'tier' && name !== 'tag') {
      return takeOptionNamesOf(method, options)
    }
  }
  return options
}

/** The checked tag of a call, and its tier, not checked. */
export interface TierArguments {
  readonly tag: string | undefined
  readonly tier: unknown
}

/** Checks the options of a call that decides. */
export function tierArgumentsOf(method: string, options: unknown): TierArguments {
  if (options === undefined) {
    return { tag: undefined, tier: undefined }
  }
  const { tag, tier } = optionsOf('INVALID_OPTION', method, options, ['tag', 'tier'], adviceOnId)
  return { tag: tagOf(tag), tier }
}

/** Checks the options of a call on a key, and returns the tag. */
export function tagOfOptions(method: string, options: unknown): string | undefined {
  return options === undefined
    ? undefined
    : tagOf(optionsOf('INVALID_OPTION', method, options, ['tag'], adviceOnId).tag)
}

export function unitsOf(value: unknown): number {
  return plainUnitsOf('units', value)
}

/** The checked costs of several keys, and their tag and tier. */
export interface TakeManyArguments {
  readonly costs: readonly number[]
  readonly tag: string | undefined
  /** Not checked. */
  readonly tier: unknown
}

/** Checks one cost for all `count` keys, or an array with one each. */
export function takeManyArgumentsOf(cost: unknown, count: number): TakeManyArguments {
  if (!Array.isArray(cost)) {
    const { units, tag, tier } = takeArgumentsOf('takeMany', cost, 1)
    return { costs: new Array<number>(count).fill(units), tag, tier }
  }
  checkCostCount(cost, count)
  return { costs: cost.map((one) => plainUnitsOf('cost', one)), tag: undefined, tier: undefined }
}

/** Throws unless there is a cost for each key. */
export function checkCostCount(costs: readonly unknown[], count: number): void {
  if (costs.length !== count) {
    const rule = `must have a cost for each of the ${count} keys`
    throw new TollgateError('INVALID_COST', `costs ${rule}, got ${costs.length}`)
  }
}

/** The longest duration that the engine supports: 2^52 microseconds. */
const MAX_DURATION_US = 2 ** 52

/** Checks a duration, and returns it in microseconds. */
export function durationUsOf(method: string, option: string, value: unknown): number {
  const durationUs = microsOf(millisOf('INVALID_OPTION', option, value))
  if (durationUs > MAX_DURATION_US) {
    throw invalid('INVALID_OPTION', option, 'must be at most 2^52 µs (142 years)', value)
  }
  checkBareNumber('INVALID_OPTION', `${method}: ${option}`, value)
  return durationUs
}
