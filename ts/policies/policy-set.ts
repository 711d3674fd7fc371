import { TollgateError } from '../api/error.js'
import { invalid, nameOf, shown } from '../input/options.js'
import { type MeterSet, meterSetOf } from './meter.js'
import { isPolicyLike, limitNamesOf, POLICY_RULE, type Policy, policyOf } from './policy.js'
import type { SlidingLogLimitsPolicy } from './sliding-log.js'
import { isTieredLike, type TieredPolicy, tieredPolicyOf } from './tiers.js'

/**
 * 1 to 8 policies by name (letters, digits, `_`, `.` and `-`, up to 32, starting with a letter).
 *
 * @example
 * const policies: Policies = {
 *   burst: gcra({ limit: 10, period: '1s' }),
 *   daily: calendarWindow({ limit: 5_000, every: 'day' }),
 * }
 */
export interface Policies {
  readonly [name: string]: Policy
}

/** One policy with tiers, or several policies by name of which some have tiers. */
export type TieredPolicies = TieredPolicy | { readonly [name: string]: Policy | TieredPolicy }

/** What a limiter enforces: the type of the first argument of its constructor. */
export type Enforced = Policy | Policies | TieredPolicies

/** The policies of one tier, or of all calls if there are no tiers. Of policies of type `any` or `never` nothing is known. */
export type WithoutTiers<P> =
  IsOpen<P> extends true
    ? Policy | Policies
    : P extends Policy
      ? P
      : P extends TieredPolicy<infer Q>
        ? Q
        : { readonly [Name in keyof P]: P[Name] extends TieredPolicy<infer Q> ? Q : Extract<P[Name], Policy> }

/** Whether the type of policies says nothing: `any`, or `never` after a cast. */
type IsOpen<P> = [P] extends [never] ? true : 0 extends 1 & P ? true : false

/** All policies of a limiter, as a union. */
export type PolicyIn<P> = PolicyOfEach<WithoutTiers<P>>

type PolicyOfEach<P> = P extends Policy ? P : { [Name in keyof P]: Extract<P[Name], Policy> }[keyof P]

/** The names of the tiers; `never` if no policy has tiers. */
export type TierOf<P> =
  IsOpen<P> extends true
    ? never
    : P extends Policy
      ? never
      : P extends TieredPolicy<Policy, infer T>
        ? T
        : { [Name in keyof P]: P[Name] extends TieredPolicy<Policy, infer T> ? T : never }[keyof P]

/**
 * The limit names that decisions use: the policy names, or `'default'` for a single policy. The limits of a `slidingLog`
 * have their own names; among several policies these are `'policy.limit'`.
 */
export type LimitNames<P> = NamesOf<WithoutTiers<P>>

type NamesOf<P> =
  P extends SlidingLogLimitsPolicy<infer L>
    ? L
    : P extends Policy
      ? 'default'
      : { [Name in keyof P & string]: QualifiedNames<Name, P[Name]> }[keyof P & string]

type QualifiedNames<Name extends string, P> = P extends SlidingLogLimitsPolicy<infer L> ? `${Name}.${L}` : Name

/** The policy of a limit. The limits of a `slidingLog` share one policy. */
export type PolicyOf<P, Limit> = PolicyNamed<WithoutTiers<P>, Limit>

type PolicyNamed<P, Limit> = P extends Policy
  ? P
  : { [Name in keyof P & string]: Limit extends QualifiedNames<Name, P[Name]> ? P[Name] : never }[keyof P & string]

/**
 * The key of a call: a string, or an object with a string for each key dimension that the policies' `per` names.
 * `'global'` has no part in it: if all policies count all calls together, the key is `{}`. Of a {@link Policy} whose
 * `per` is unknown the key is a string; of a `Policy & { readonly per: string }` it is an object.
 *
 * @example
 * const policies = { ip: gcra({ limit: 20, period: '1m', per: 'ip' }), all: gcra({ limit: 99, period: '1s', per: 'global' }) }
 * const key: KeyOf<typeof policies> = { ip: '192.0.2.1' }
 */
export type KeyOf<P> = KeyOfDimensions<KeyDimensionOf<PolicyIn<P>>>

/** The key dimension of each policy; `undefined` for one that counts by the key of the call. */
type KeyDimensionOf<P> = P extends { readonly per: infer S extends string } ? S : undefined

type KeyOfDimensions<S> = [S] extends [undefined]
  ? string
  : undefined extends S
    ? 'per must be given for all policies or for none'
    : [Exclude<S, 'global'>] extends [never]
      ? { readonly global?: never }
      : { readonly [Dimension in Exclude<S, 'global'> & string]: string }

export interface PolicyEntry {
  readonly name: string
  readonly policy: Policy
  /** The index of its key dimension. */
  readonly dimension: number
  /** Whether its numbers depend on the tier. */
  readonly isTiered?: boolean
}

export interface LimitEntry {
  readonly name: string
  readonly policy: number
}

/** When a limiter bans keys, in microseconds: see `BanOptions`. */
export interface BanRule {
  readonly after: number
  readonly withinUs: number
  readonly forgetUs: number
  readonly lengthsUs: readonly number[]
  /** The names of the policies whose refusals are strikes; by default all whose keys can be banned. */
  readonly policies?: readonly string[]
  /** The key dimension whose key gets all strikes; by default the dimension of each policy that refuses. */
  readonly per?: string
}

/** The policies that a limiter enforces. */
export interface PolicySet {
  readonly policies: readonly PolicyEntry[]
  /** Whether it is a single policy without a name. */
  readonly isSingle: boolean
  /** The key dimensions, in the order of first use; `undefined` if the key of a call is a string. */
  readonly dimensions: readonly string[] | undefined
  readonly limits: readonly LimitEntry[]
  /** What the policies count; absent if all of them count calls. */
  readonly meters?: MeterSet
  /** The tier that has these numbers, if there are tiers. */
  readonly tier?: string
  /** The policies of all tiers, as they were written; absent without tiers. */
  readonly allTiers?: readonly PolicySet[]
  /** How much later than they are charged units may be used, in milliseconds; absent if never. */
  readonly leaseMs?: number
  /** When keys are banned for refused calls; absent if never. */
  readonly ban?: BanRule
}

const MAX_POLICIES = 8

const MAX_LIMITS = 16

/** The options of a policy, by the names here and in other packages. */
const NUMBER_OPTIONS = ['limit', 'capacity', 'max', 'points', 'requests', 'tokensPerInterval']

/** Throws if a value is the options of a policy in place of a policy. */
function checkNotOptions(value: unknown): void {
  if (typeof value !== 'object' || value === null || isPolicyLike(value)) {
    return
  }
  const option = NUMBER_OPTIONS.find((name) => typeof Reflect.get(value, name) === 'number')
  if (option !== undefined) {
    const fix = option === 'capacity' ? 'tokenBucket({ capacity, refill })' : 'gcra({ limit, period })'
    const rule = `policy ${POLICY_RULE}, got its options: write new RateLimiter(${fix})`
    throw new TollgateError('INVALID_POLICY', rule)
  }
}

/**
 * Checks a policy, or several policies by name, some of which may have tiers. Returns the policies of each tier, or of
 * all calls if there are no tiers.
 */
export function policySetsOf(value: unknown): readonly PolicySet[] {
  checkNotOptions(value)
  if (isTieredLike(value)) {
    const { tiers } = tieredPolicyOf(value)
    return Object.entries(tiers).map(([tier, policy]) => withTier(policySetOf(policy), tier, ['default']))
  }
  const tiered = tieredEntriesOf(value)
  const [first] = tiered
  if (first === undefined) {
    return [policySetOf(value)]
  }
  const tierNames = Object.keys(first[1].tiers)
  for (const [name, { tiers }] of tiered) {
    const missing =
      tierNames.find((tier) => !Object.hasOwn(tiers, tier)) ??
      Object.keys(tiers).find((tier) => !tierNames.includes(tier))
    if (missing !== undefined) {
      const rule = `policies must have the same tiers: ${shown(missing)} is not in both policies.${first[0]} and policies.${name}`
      throw new TollgateError('INVALID_POLICY', rule)
    }
  }
  const names = tiered.map(([name]) => name)
  return tierNames.map((tier) => {
    const own = tiered.map(([name, { tiers }]) => [name, tiers[tier]] as const)
    return withTier(policySetOf({ ...(value as object), ...Object.fromEntries(own) }), tier, names)
  })
}

function tieredEntriesOf(value: unknown): (readonly [string, TieredPolicy])[] {
  if (typeof value !== 'object' || value === null || isPolicyLike(value)) {
    return []
  }
  return Object.entries(value).flatMap(([name, policy]) =>
    isTieredLike(policy) ? [[name, tieredPolicyOf(policy, `policies.${name}`)] as const] : [],
  )
}

function withTier(policySet: PolicySet, tier: string, tiered: readonly string[]): PolicySet {
  const policies = policySet.policies.map((entry) => ({ ...entry, isTiered: tiered.includes(entry.name) }))
  return { ...policySet, policies, tier }
}

/** Checks a policy, or several policies by name. */
export function policySetOf(value: unknown): PolicySet {
  const isSingle = isPolicyLike(value)
  const entries: (readonly [string, Policy])[] = isSingle ? [['default', policyOf(value)]] : entriesOf(value)
  const dimensions = dimensionsOf(entries)
  const policies = entries.map(([name, policy]) => ({
    name,
    policy,
    dimension: policy.per === undefined ? 0 : dimensions.indexOf(policy.per),
  }))
  const limits = policies.flatMap(({ name, policy }, index): LimitEntry[] => {
    const names = limitNamesOf(policy)?.map((limit) => (isSingle ? limit : `${name}.${limit}`))
    return (names ?? [name]).map((name) => ({ name, policy: index }))
  })
  checkLimits(limits.map(({ name }) => name))
  const meters = meterSetOf(entries)
  return {
    policies,
    isSingle,
    dimensions: dimensions.length === 0 ? undefined : dimensions,
    limits,
    ...(meters !== undefined && { meters }),
  }
}

function entriesOf(value: unknown): (readonly [string, Policy])[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const rule = `${POLICY_RULE}, or be an object of 1 to ${MAX_POLICIES} of these by name`
    throw invalid('INVALID_POLICY', 'policy', rule, value)
  }
  const entries = Object.entries(value)
  if (entries.length < 1 || entries.length > MAX_POLICIES) {
    const rule = `policies must be an object of 1 to ${MAX_POLICIES} by name`
    throw new TollgateError('INVALID_POLICY', `${rule}, got ${entries.length}`)
  }
  return entries.map(([name, policy]) => {
    nameOf('policies: the name of a policy', name, 'INVALID_POLICY')
    if (name === 'store' && !isPolicyLike(policy)) {
      const rule = 'is not a policy: options are the second argument, as in new RateLimiter(policy, { store })'
      throw new TollgateError('INVALID_POLICY', `policies.store ${rule}`)
    }
    const checked = policyOf(policy, `policies.${name}`)
    if (entries.length > 1 && 'countRefused' in checked && checked.countRefused) {
      const rule = 'cannot be used among several policies: a call that one of them refuses is counted by none'
      throw new TollgateError('INVALID_POLICY', `policies.${name}: countRefused ${rule}`)
    }
    return [name, checked] as const
  })
}

/** The key dimensions of the policies. All policies must have a `per`, or none. */
function dimensionsOf(entries: readonly (readonly [string, Policy])[]): string[] {
  const named = entries.filter(([, { per }]) => per !== undefined)
  const without = entries.find(([, { per }]) => per === undefined)
  if (named.length > 0 && without !== undefined) {
    const rule = `per must be given for all policies or for none: ${shown(without[0])} has none`
    throw new TollgateError('INVALID_POLICY', `policies: ${rule}`)
  }
  return [...new Set(named.map(([, { per }]) => per as string))]
}

function checkLimits(names: readonly string[]): void {
  if (names.length > MAX_LIMITS) {
    const rule = `must have at most ${MAX_LIMITS} limits, counting each limit of a slidingLog`
    throw new TollgateError('INVALID_POLICY', `policies ${rule}, got ${names.length}`)
  }
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) {
    throw new TollgateError('INVALID_POLICY', `policies must give each limit a unique name, got ${shown(twice)} twice`)
  }
}
