import { checkBareNumbers, type Duration } from '../input/duration.js'
import { invalid, optionsOf, shown } from '../input/options.js'
import { type Policy, policyOf } from '../policies/policy.js'
import type { PolicySet } from '../policies/policy-set.js'
import { TollgateError } from './error.js'

const OVERRIDABLE = {
  limit: true,
  period: true,
  burst: true,
  window: true,
  limits: true,
  capacity: true,
  refill: true,
  leak: true,
  initial: true,
  debt: true,
} as const

/**
 * The numbers of an override: the numeric options of a policy's function, by name for several policies. An omitted
 * number keeps the limiter's value. A `burst` that the policy was not given is the `limit`, also that of the override.
 * The same holds for `initial` and `capacity`.
 */
export type Override<P> = P extends Policy
  ? OverrideValues<P, Extract<keyof P, keyof typeof OVERRIDABLE>>
  : { readonly [Name in keyof P]?: P[Name] extends Policy ? Override<P[Name]> : never }

/** Values for some of a policy's numbers, or for some of a group of its numbers such as `refill`. */
type OverrideValues<T, Option extends keyof T = keyof T> = {
  readonly [O in Option]?: NonNullable<T[O]> extends number
    ? O extends 'period' | 'window' | 'every'
      ? Duration
      : number
    : OverrideValues<NonNullable<T[O]>>
}

interface Numbers {
  readonly [option: string]: unknown
}

/** The overridden policies of a limiter, by policy index; `undefined` for one without an override. */
export function overriddenPolicies(policySet: PolicySet, numbers: unknown): readonly (Policy | undefined)[] {
  const policies = policiesWithChanges(policySet, numbers)
  checkBareNumbers('INVALID_OPTION', 'override: ', numbers as object)
  return policies
}

function policiesWithChanges({ policies, isSingle }: PolicySet, numbers: unknown): readonly (Policy | undefined)[] {
  if (isSingle) {
    return policies.map(({ policy }) => policyWithChanges('override', policy, numbers))
  }
  const names = policies.map(({ name }) => name)
  const values = valuesOf('override', numbers, names)
  return policies.map(({ name, policy }) =>
    values[name] === undefined ? undefined : policyWithChanges(`override: ${name}`, policy, values[name]),
  )
}

function policyWithChanges(where: string, policy: Policy, numbers: unknown): Policy {
  const own: Numbers = { ...policy }
  const values = valuesOf(
    where,
    numbers,
    Object.keys(own).filter((option) => option in OVERRIDABLE),
  )
  return policyOf({ ...own, ...completed(where, own, values) })
}

/** The given values. Groups of numbers (refill, leak, `limits`) are completed from the policy. */
function completed(where: string, own: Numbers, values: Numbers, separator = ': '): Numbers {
  const all = Object.entries(values).map(([option, value]) => {
    const group = own[option]
    if (typeof group !== 'object' || group === null) {
      return [option, value]
    }
    const inner = `${where}${separator}${option}`
    const given = valuesOf(inner, value, Object.keys(group))
    return [option, { ...group, ...completed(inner, group as Numbers, given, '.') }]
  })
  return Object.fromEntries(all)
}

/** Checks an object of at least one of these options. Values that are `undefined` are omitted. */
function valuesOf(where: string, value: unknown, names: readonly string[]): Numbers {
  if (value === undefined) {
    throw invalid('INVALID_OPTION', where, `takes an object with some of ${names.join(', ')}`, value)
  }
  const values = Object.entries(optionsOf('INVALID_OPTION', where, value, names)).filter(
    ([, value]) => value !== undefined,
  )
  if (values.length === 0) {
    throw new TollgateError('INVALID_OPTION', `${where} takes at least one of ${names.map(shown).join(', ')}`)
  }
  return Object.fromEntries(values)
}
