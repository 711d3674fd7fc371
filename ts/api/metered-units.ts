import type { CallId, OperationResult } from '../backends/operation.js'
import { isNone, type Units } from '../backends/units.js'
import { invalid, isPlain, shown, wholeNumber } from '../input/options.js'
import { suggestionFor } from '../input/suggestion.js'
import { CALLS, type MeterSet, meterOf } from '../policies/meter.js'
import type { PolicySet } from '../policies/policy-set.js'
import { callIdOf, takeOptionNamesOf } from './call-id.js'
import { TollgateError } from './error.js'

/** Checks the cost of a call: a number, or under policies with meters an object, which becomes the cost by policy. */
export function costOf(meters: MeterSet | undefined, value: unknown, min: number): Units {
  return meters === undefined ? plainUnitsOf('cost', value === undefined ? 1 : value, min) : costsOf(meters, value)
}

/** Checks the units of a call under policies without meters. */
export function plainUnitsOf(option: string, value: unknown, min = 1): number {
  if (typeof value === 'object' && value !== null && isPlain(value) && Object.keys(value).length > 0) {
    const fix = `no policy has a meter: write ${nameIn(option)}: 5, or meter: 'tokens' in a policy`
    throw invalid('INVALID_COST', option, `must be a whole number from ${min} to 2^53 - 1`, value, fix)
  }
  return wholeNumber('INVALID_COST', option, value, min)
}

/** The cost of a call by policy. A meter that it leaves out has its default cost. */
export function costsOf(meters: MeterSet, value: unknown, option = 'cost'): readonly number[] {
  const costs = value === undefined ? undefined : validCostsOf(meters, value)
  if (costs !== undefined) {
    return costs
  }
  const given = unitsByMeter(meters, option, value ?? {})
  return byPolicy(meters, (meter, index) => {
    const cost = given(meter) ?? meters.defaultCosts[index]
    if (cost === undefined) {
      const fix = `write ${nameIn(option)}: ${exampleOf(meters)}, or give the policies of ${shown(meter)} a defaultCost`
      throw new TollgateError(
        'INVALID_COST',
        `${option} must have the units of each meter, ${meter} is missing; ${fix}`,
      )
    }
    return cost
  })
}

/** The cost by policy of nearly all calls, without the texts of errors; `undefined` for any other value. */
function validCostsOf({ names, ofPolicy, defaultCosts }: MeterSet, value: unknown): readonly number[] | undefined {
  // The units of other objects may be out of sight, as those of a `Map` or of a getter of a class.
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) {
    return undefined
  }
  const costs: number[] = []
  let given = 0
  for (let index = 0; index < names.length; index++) {
    const name = names[index] as string
    const isGiven = Object.hasOwn(value, name)
    const cost: unknown = isGiven ? (value as { readonly [name: string]: unknown })[name] : defaultCosts[index]
    given += isGiven ? 1 : 0
    if (typeof cost !== 'number' || !Number.isSafeInteger(cost) || cost < 0) {
      return undefined
    }
    costs.push(cost)
  }
  if (given === 0 || Object.keys(value).length !== given) {
    return undefined
  }
  return ofPolicy.map((index) => costs[index] as number)
}

/** The units of a reservation: not 0 under all policies. */
export function reservedUnitsOf(policySet: PolicySet, value: unknown): Units {
  const { meters } = policySet
  if (meters === undefined) {
    return plainUnitsOf('units', value)
  }
  const units = costsOf(meters, value, 'units')
  if (isNone(units)) {
    throw new TollgateError('INVALID_COST', `units must be 1 or more of at least one meter; write ${exampleOf(meters)}`)
  }
  checkPermitUnits('units', units, policySet)
  return units
}

/** The cost of a permit by policy: not 0 under a policy for concurrency, whose units the permit holds. */
export function permitUnitsOf(policySet: PolicySet, cost: unknown): Units {
  const units = costOf(policySet.meters, cost, 1)
  checkPermitUnits('cost', units, policySet)
  return units
}

function checkPermitUnits(option: string, units: Units, { policies }: PolicySet): void {
  if (typeof units !== 'number') {
    const empty = policies.find(({ policy }, index) => policy.algorithm === 'concurrency' && units[index] === 0)
    if (empty !== undefined) {
      const rule = 'must be a whole number from 1 to 2^53 - 1: a permit holds units of concurrency()'
      throw new TollgateError('INVALID_COST', `${option}.${meterOf(empty.policy)} ${rule}, got 0`)
    }
  }
}

/** Throws for an extension that would only take units that the permit holds. */
export function checkExtension(units: Units, { policies }: PolicySet): void {
  const isPermits = (policy: number) => policies[policy]?.policy.algorithm === 'concurrency'
  if (typeof units !== 'number' && !isNone(units) && units.every((own, policy) => own === 0 || isPermits(policy))) {
    const fix = 'extend takes units of the other meters; acquire another permit'
    throw new TollgateError('INVALID_COST', `units are only units of concurrency(), which the permit holds: ${fix}`)
  }
}

/** Units by policy, of some meters. Those of the others are 0, or as `omitted` tells by policy. */
export function someUnitsOf(
  meters: MeterSet,
  option: string,
  value: unknown,
  omitted?: readonly number[],
): readonly number[] {
  const given = unitsByMeter(meters, option, value)
  if (omitted === undefined && meters.names.every((meter) => given(meter) === undefined)) {
    const fix = `write ${exampleOf(meters)}`
    throw new TollgateError('INVALID_COST', `${option} must have the units of at least one meter; ${fix}`)
  }
  return meters.ofPolicy.map((index, policy) => given(meters.names[index] as string) ?? omitted?.[policy] ?? 0)
}

/** Checks units that are refunded, by policy under policies with meters. */
export function refundedUnitsOf(meters: MeterSet | undefined, units: unknown): Units {
  return meters === undefined ? plainUnitsOf('units', units) : someUnitsOf(meters, 'units', units)
}

/** Units that an operation has moved: the most under any policy, and under policies with meters by meter. */
export type Moved = number | { readonly [meter: string]: number }

/** The units that an operation has moved; 0 without a result. */
export function movedBy(meters: MeterSet | undefined, result: OperationResult | undefined): Moved {
  return meters === undefined ? (result?.units ?? 0) : mostByMeter(meters, result?.moved ?? [])
}

/** The most units under any policy of each meter, by meter. */
export function mostByMeter(meters: MeterSet, units: readonly number[]): { readonly [meter: string]: number } {
  const most = meters.names.map((name, index) => {
    return [name, Math.max(0, ...units.filter((_, policy) => meters.ofPolicy[policy] === index))] as const
  })
  return Object.fromEntries(most)
}

/** Units as a caller sees them. */
export function shownUnits(meters: MeterSet | undefined, units: Units): Moved {
  return typeof units === 'number' ? units : mostByMeter(meters as MeterSet, units)
}

/** Throws for a method that takes a number of units if policies have meters. */
export function checkUnmetered(method: string, { meters }: PolicySet): void {
  if (meters !== undefined) {
    const fix = `use take(key, { cost: ${exampleOf(meters)} })`
    throw new TollgateError('INVALID_OPTION', `${method} cannot be used with policies that have a meter: ${fix}`)
  }
}

/** The options of a call under policies with meters. */
interface MeteredCall {
  /** Not checked. */
  readonly cost: unknown
  /** Not checked. */
  readonly tag: unknown
  /** Not checked. */
  readonly tier: unknown
  readonly callId: CallId | undefined
}

/** Checks the names of the options of a call under policies with meters. */
export function meteredCallOf(method: string, options: unknown, meters: MeterSet): MeteredCall {
  if (typeof options === 'number') {
    throw invalid('INVALID_COST', 'cost', BY_METER, options, `write ${method}(key, { cost: ${exampleOf(meters)} })`)
  }
  if (typeof options === 'object' && options !== null) {
    const keys = Object.keys(options)
    if (keys.length === 1 && keys[0] === 'cost') {
      return { cost: (options as { readonly cost: unknown }).cost, tag: undefined, tier: undefined, callId: undefined }
    }
  }
  const names: readonly string[] = ['cost', 'tag', 'tier', ...(method === 'take' ? ['id', 'idTtl'] : [])]
  const given = typeof options === 'object' && options !== null ? Object.keys(options) : []
  // A meter may have the name of an option.
  const meter = given.find((name) => meters.names.includes(name) && !names.includes(name))
  if (meter !== undefined) {
    const fix = `write ${method}(key, { cost: { ${meter}: … } })`
    throw new TollgateError('INVALID_OPTION', `${method} has no option ${shown(meter)}, which is a meter: ${fix}`)
  }
  const { cost, tag, tier, id, idTtl } = takeOptionNamesOf(method, options ?? {})
  return { cost, tag, tier, callId: callIdOf(method, id, idTtl) }
}

const BY_METER = 'must be an object by meter, because a policy has a meter'

const PLAIN_BY_METER = 'must be a plain object by meter, because a policy has a meter'

/** Checks an object of units by meter, and returns a function that finds them. */
function unitsByMeter(meters: MeterSet, option: string, value: unknown): (meter: string) => number | undefined {
  if (typeof value !== 'object' || value === null || !isPlain(value) || 'then' in value) {
    const isObject = typeof value === 'object' && value !== null
    const fix = isObject && 'then' in value ? undefined : `write ${nameIn(option)}: ${exampleOf(meters)}`
    throw invalid('INVALID_COST', option, isObject ? PLAIN_BY_METER : BY_METER, value, fix)
  }
  for (const name of Object.keys(value)) {
    if (!meters.names.includes(name)) {
      const meant = suggestionFor(name, meters.names)
      const all = `the meters are ${meters.names.join(', ')}`
      const advice = meant === undefined ? all : `did you mean ${shown(meant)}? ${capitalized(all)}`
      throw new TollgateError('INVALID_COST', `${option}: no policy has the meter ${shown(name)}; ${advice}`)
    }
  }
  return (meter) => {
    const units = Object.hasOwn(value, meter) ? (value as { readonly [name: string]: unknown })[meter] : undefined
    return units === undefined ? undefined : wholeNumber('INVALID_COST', `${option}.${meter}`, units, 0)
  }
}

function byPolicy({ names, ofPolicy }: MeterSet, unitsOf: (meter: string, index: number) => number): readonly number[] {
  const units = names.map(unitsOf)
  return ofPolicy.map((index) => units[index] as number)
}

/** A cost with the meters that each call must name, for messages. */
function exampleOf({ names, defaultCosts }: MeterSet): string {
  const required = names.filter((_, index) => defaultCosts[index] === undefined)
  const shownNames = required.length > 0 ? required : names.filter((name) => name !== CALLS)
  return `{ ${shownNames.map((name) => `${name}: 5`).join(', ')} }`
}

/** The name of an option without its function: `rateLimit: cost`. */
function nameIn(option: string): string {
  return option.slice(option.lastIndexOf(' ') + 1)
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
