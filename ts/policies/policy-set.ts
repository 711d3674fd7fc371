import { TollgateError } from '../api/error.js'
import { invalid, nameOf, shown } from '../input/options.js'
import { isPolicyLike, limitNamesOf, POLICY_RULE, type Policy, policyOf } from './policy.js'
import type { SlidingLogsPolicy } from './sliding-log.js'

/** 1 to 8 policies by name (letters, digits, `_`, `.` and `-`, up to 32, starting with a letter). */
export interface Policies {
  readonly [name: string]: Policy
}

/**
 * The names of the limits that decisions tell of: those of several policies; `'default'` for a single one. The
 * limits of `slidingLogs` have names of their own, and among several policies both: `'policy.limit'`.
 */
export type LimitNames<P extends Policy | Policies> =
  P extends SlidingLogsPolicy<infer L>
    ? L
    : P extends Policy
      ? 'default'
      : { [Name in keyof P & string]: NamesWithin<Name, P[Name]> }[keyof P & string]

/** The policies by those names: the limits of a `slidingLogs` share one. */
export type PoliciesByLimit<P extends Policy | Policies> = P extends Policy
  ? { readonly [Name in LimitNames<P>]: P }
  : { readonly [Name in keyof P & string as NamesWithin<Name, P[Name]>]: P[Name] }

type NamesWithin<Name extends string, P> = P extends SlidingLogsPolicy<infer L> ? `${Name}.${L}` : Name

/**
 * What a call names as its key: a string; or a string for each kind of key that the policies count by, as their
 * `per` says. `'global'` is none: if all policies count all calls together, the key is `{}`.
 */
export type KeyOf<P extends Policy | Policies> = [P] extends [Policy]
  ? KeyFor<SubjectOf<P>>
  : boolean extends { [Name in keyof P]: HasSubject<P[Name]> }[keyof P]
    ? never // Some have a `per` and others have not.
    : KeyFor<{ [Name in keyof P]: SubjectOf<P[Name]> }[keyof P]>

type SubjectOf<P> = P extends { readonly per?: infer S } ? Extract<S, string> : never

type HasSubject<P> = [SubjectOf<P>] extends [never] ? false : true

type KeyFor<S extends string> = [S] extends [never]
  ? string
  : string extends S
    ? string | { readonly [subject: string]: string }
    : [Exclude<S, 'global'>] extends [never]
      ? { readonly global?: never }
      : { readonly [Subject in Exclude<S, 'global'>]: string }

/** One of a limiter's policies. */
export interface NamedPolicy {
  readonly name: string
  readonly policy: Policy
  /** The number of the kind of key that it counts by. */
  readonly subject: number
}

/** One of the limits that decisions tell of. */
export interface NamedLimit {
  readonly name: string
  /** The number of its policy. */
  readonly policy: number
}

/** What a limiter enforces. */
export interface Compound {
  readonly policies: readonly NamedPolicy[]
  /** Whether it is a single policy without a name. */
  readonly isSingle: boolean
  /** The kinds of keys, in the order of first mention; `undefined` if a call names one key, a string. */
  readonly subjects: readonly string[] | undefined
  /** The limits that decisions tell of, in their order. */
  readonly limits: readonly NamedLimit[]
}

const MOST_POLICIES = 8

/** The most limits that a decision tells of. */
const MOST_LIMITS = 16

/** Takes a value as a policy or as several by name. */
export function compoundOf(value: unknown): Compound {
  const isSingle = isPolicyLike(value)
  const entries: (readonly [string, Policy])[] = isSingle ? [['default', policyOf(value)]] : entriesOf(value)
  const subjects = subjectsOf(entries)
  const policies = entries.map(([name, policy]) => ({
    name,
    policy,
    subject: policy.per === undefined ? 0 : subjects.indexOf(policy.per),
  }))
  const limits = policies.flatMap(({ name, policy }, index): NamedLimit[] => {
    const names = limitNamesOf(policy)?.map((limit) => (isSingle ? limit : `${name}.${limit}`))
    return (names ?? [name]).map((name) => ({ name, policy: index }))
  })
  checkLimits(limits.map(({ name }) => name))
  return { policies, isSingle, subjects: subjects.length === 0 ? undefined : subjects, limits }
}

function entriesOf(value: unknown): (readonly [string, Policy])[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const rule = `${POLICY_RULE}, or be an object of 1 to ${MOST_POLICIES} of these by name`
    throw invalid('INVALID_POLICY', 'policy', rule, value)
  }
  const entries = Object.entries(value)
  if (entries.length < 1 || entries.length > MOST_POLICIES) {
    const rule = `policies must be an object of 1 to ${MOST_POLICIES} by name`
    throw new TollgateError('INVALID_POLICY', `${rule}, got ${entries.length}`)
  }
  return entries.map(([name, policy]) => {
    nameOf('policies: the name of a policy', name, 'INVALID_POLICY')
    if (name === 'store' && !isPolicyLike(policy)) {
      const rule = 'is no policy: options are the second argument, as in new RateLimiter(policy, { store })'
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

/** The kinds of keys that policies count by, if they name any; then all must. */
function subjectsOf(entries: readonly (readonly [string, Policy])[]): string[] {
  const named = entries.filter(([, { per }]) => per !== undefined)
  const without = entries.find(([, { per }]) => per === undefined)
  if (named.length > 0 && without !== undefined) {
    const rule = `per must be given for all policies or for none: ${shown(without[0])} has none`
    throw new TollgateError('INVALID_POLICY', `policies: ${rule}`)
  }
  return [...new Set(named.map(([, { per }]) => per as string))]
}

function checkLimits(names: readonly string[]): void {
  if (names.length > MOST_LIMITS) {
    const rule = `must have at most ${MOST_LIMITS} limits, those of slidingLogs counted each`
    throw new TollgateError('INVALID_POLICY', `policies ${rule}, got ${names.length}`)
  }
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) {
    throw new TollgateError(
      'INVALID_POLICY',
      `policies must give each limit a name of its own, got ${shown(twice)} twice`,
    )
  }
}
