import { TollgateError } from '../api/error.js'
import { nameOf, shown, wholeNumber } from '../input/options.js'
import { type Keyed, type PerOption, perOf } from './key-dimension.js'

/** The meter of policies without one: they count calls. */
export const CALLS = 'calls'

/** The options that every policy has: its key dimension, its meter with a default cost, and what may be owed. */
export interface CountOptions<S extends string = string, M extends string = string, D extends number = number>
  extends PerOption<S> {
  /**
   * The name of this policy's unit, such as `'tokens'`: letters, digits, `_`, `.` and `-`, up to 32, starting with a
   * letter. If a policy of a limiter has a meter, the cost of a call is an object by meter:
   * `take(key, { cost: { tokens: 2500 } })`. Default: `'calls'`, of which each call costs 1 unless it says otherwise.
   */
  readonly meter?: M
  /**
   * The cost of a call that does not name this policy's `meter`: a whole number from 0. Needs a `meter` other than
   * `'calls'`. Default: each call must name the meter.
   */
  readonly defaultCost?: D
  /**
   * The most units that a key may owe under this policy: units that were used although they did not fit. A settlement of
   * a reservation charges what fits; the rest is owed, and later calls wait until it is paid. What exceeds `maxOwed` is a
   * `shortfall`. A whole number from 0. Default: the largest cost of a call; for `penalize`, 0.
   */
  readonly maxOwed?: number
}

/** The options of {@link CountOptions} as a policy keeps them: absent if they were not given. */
interface CountData {
  readonly per?: string
  readonly meter?: string
  readonly defaultCost?: number
  readonly maxOwed?: number
}

/** What the policy of the function `where` counts, and by which key. */
export function countOf(
  where: string,
  given: {
    readonly per?: unknown
    readonly meter?: unknown
    readonly defaultCost?: unknown
    readonly maxOwed?: unknown
  },
): CountData {
  const { per, meter, defaultCost, maxOwed } = given
  const others = {
    ...perOf(where, per),
    ...(maxOwed !== undefined && { maxOwed: wholeNumber('INVALID_POLICY', `${where}: maxOwed`, maxOwed, 0) }),
  }
  if (meter === undefined && defaultCost === undefined) {
    return others
  }
  const name = meter === undefined ? CALLS : nameOf(`${where}: meter`, meter, 'INVALID_POLICY')
  if (defaultCost === undefined) {
    return { ...others, meter: name }
  }
  if (name === CALLS) {
    const rule =
      "needs a meter, as in { meter: 'tokens', defaultCost: 5 }: without one a policy counts calls, which cost 1"
    throw new TollgateError('INVALID_POLICY', `${where}: defaultCost ${rule}`)
  }
  const cost = wholeNumber('INVALID_POLICY', `${where}: defaultCost`, defaultCost, 0)
  return { ...others, meter: name, defaultCost: cost }
}

/** The type of a policy of type `P` that was made with a `per`, a `meter` and a `defaultCost` of these types. */
export type Counted<P, S extends string, M extends string, D extends number> = WithDefaultCost<
  Metered<Keyed<P, S>, M>,
  D
>

type Metered<P, M extends string> = [M] extends [never]
  ? P
  : P & (string extends M ? { readonly meter?: string } : { readonly meter: M })

// The number is not part of the type: tiers may have different ones.
type WithDefaultCost<P, D extends number> = [D] extends [never]
  ? P
  : P & (number extends D ? { readonly defaultCost?: number } : { readonly defaultCost: number })

/** The meters of a policy set. A cost by meter becomes a cost by policy before the engine sees it. */
export interface MeterSet {
  /** The meters, in the order of first use. */
  readonly names: readonly string[]
  /** The index of its meter, by policy. */
  readonly ofPolicy: readonly number[]
  /** What a call costs that does not name a meter, by meter; `undefined` if it must. */
  readonly defaultCosts: readonly (number | undefined)[]
}

/** The part of a policy that this file reads. */
interface MeteredPolicy {
  readonly meter?: string
  readonly defaultCost?: number
}

/** The meter of a policy. */
export function meterOf({ meter = CALLS }: MeteredPolicy): string {
  return meter
}

/** The meters of policies by name; `undefined` if all of them count calls. */
export function meterSetOf(entries: readonly (readonly [name: string, policy: MeteredPolicy])[]): MeterSet | undefined {
  const names = [...new Set(entries.map(([, policy]) => meterOf(policy)))]
  if (names.length === 1 && names[0] === CALLS) {
    return undefined
  }
  const defaultCosts = names.map((name) => (name === CALLS ? 1 : undefined) as number | undefined)
  const from: (string | undefined)[] = names.map(() => undefined)
  for (const [name, policy] of entries) {
    const index = names.indexOf(meterOf(policy))
    const { defaultCost } = policy
    if (defaultCost === undefined) {
      continue
    }
    const other = from[index]
    if (other !== undefined && defaultCosts[index] !== defaultCost) {
      const values = `${defaultCosts[index]} in ${other} and ${defaultCost} in ${name}`
      const rule = `must be the same for all policies of the meter ${shown(names[index])}`
      throw new TollgateError('INVALID_POLICY', `policies: defaultCost ${rule}, got ${values}`)
    }
    from[index] = name
    defaultCosts[index] = defaultCost
  }
  return { names, ofPolicy: entries.map(([, policy]) => names.indexOf(meterOf(policy))), defaultCosts }
}
