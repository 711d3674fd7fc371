import { warnIfAnyShort } from '../input/duration.js'
import { invalid, optionsOf, shown } from '../input/options.js'
import type { CalendarWindowOptions, CalendarWindowPolicy } from '../policies/calendar-window.js'
import type { FixedWindowOptions, FixedWindowPolicy } from '../policies/fixed-window.js'
import type { GcraOptions, GcraPolicy } from '../policies/gcra.js'
import type { LeakyBucketOptions, LeakyBucketPolicy } from '../policies/leaky-bucket.js'
import { type Policy, policyOf } from '../policies/policy.js'
import type { Policies, PolicySet } from '../policies/policy-set.js'
import type { SlidingCounterOptions, SlidingCounterPolicy } from '../policies/sliding-counter.js'
import type {
  SlidingLogOptions,
  SlidingLogPolicy,
  SlidingLogsOptions,
  SlidingLogsPolicy,
} from '../policies/sliding-log.js'
import type { SlidingWindowOptions, SlidingWindowPolicy } from '../policies/sliding-window.js'
import type { TokenBucketOptions, TokenBucketPolicy } from '../policies/token-bucket.js'
import { TollgateError } from './error.js'

/**
 * The numbers of a policy that an override can replace for one key: the numeric options of the
 * policy's function. An omitted number keeps the limiter's value. All other options stay: the
 * algorithm, its layout and mode, calendars, buckets, precision, names, `countRefused` and `per`.
 *
 * If only `limit` is given, a `burst` equal to the old `limit` becomes the new `limit`. Likewise an
 * `initial` equal to the old `capacity` becomes the new `capacity`.
 */
export type PolicyOverride<P extends Policy = Policy> = P extends GcraPolicy
  ? Partial<Pick<GcraOptions, 'limit' | 'period' | 'burst'>>
  : P extends TokenBucketPolicy
    ? Partial<Pick<TokenBucketOptions, 'capacity' | 'initial' | 'debt'>> & {
        readonly refill?: Partial<TokenBucketOptions['refill']>
      }
    : P extends LeakyBucketPolicy
      ? Partial<Pick<LeakyBucketOptions, 'capacity'>> & { readonly leak?: Partial<LeakyBucketOptions['leak']> }
      : P extends FixedWindowPolicy
        ? Partial<Pick<FixedWindowOptions, 'limit' | 'window'>>
        : P extends CalendarWindowPolicy
          ? Partial<Pick<CalendarWindowOptions, 'limit'>>
          : P extends SlidingWindowPolicy
            ? Partial<Pick<SlidingWindowOptions, 'limit' | 'window'>>
            : P extends SlidingCounterPolicy
              ? Partial<Pick<SlidingCounterOptions, 'limit' | 'window'>>
              : P extends SlidingLogPolicy
                ? Partial<Pick<SlidingLogOptions, 'limit' | 'window'>>
                : P extends SlidingLogsPolicy<infer N>
                  ? { readonly limits?: { readonly [Name in N]?: Partial<SlidingLogsOptions['limits'][string]> } }
                  : never

/** The {@link PolicyOverride} of a single policy, or of some of several policies by name. */
export type Override<P extends Policy | Policies> = P extends Policy
  ? PolicyOverride<P>
  : { readonly [Name in keyof P]?: P[Name] extends Policy ? PolicyOverride<P[Name]> : never }

/** The options that can be overridden, by algorithm. */
const OVERRIDABLE_OPTIONS = {
  fixedWindow: ['limit', 'window'],
  calendarWindow: ['limit'],
  slidingWindow: ['limit', 'window'],
  slidingCounter: ['limit', 'window'],
  slidingLog: ['limit', 'window'],
  slidingLogs: ['limits'],
  tokenBucket: ['capacity', 'refill', 'initial', 'debt'],
  leakyBucket: ['capacity', 'leak'],
  gcra: ['limit', 'period', 'burst'],
} as const satisfies { readonly [Algorithm in Policy['algorithm']]: readonly string[] }

/** Option values by option name. */
interface OverrideValues {
  readonly limit?: unknown
  readonly capacity?: unknown
  readonly refill?: unknown
  readonly leak?: unknown
  readonly limits?: unknown
  readonly [name: string]: unknown
}

/**
 * The overridden policies of a limiter, by policy index: `undefined` for a policy without an
 * override.
 *
 * @param numbers - A single policy's numbers, or the numbers of some policies by name.
 */
export function overriddenPolicies(policySet: PolicySet, numbers: unknown): readonly (Policy | undefined)[] {
  const policies = policiesWithChanges(policySet, numbers)
  warnIfAnyShort('override: ', numbers as object)
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

/** A copy of a policy with some of its numbers replaced. */
function policyWithChanges(where: string, policy: Policy, numbers: unknown): Policy {
  const values = valuesOf(where, numbers, OVERRIDABLE_OPTIONS[policy.algorithm])
  return policyOf({ ...policy, ...impliedValues(policy, values), ...withNestedDefaults(where, policy, values) })
}

/** The given values. Nested numbers (refill, leak, `limits`) are completed from the policy. */
function withNestedDefaults(where: string, policy: Policy, values: OverrideValues): OverrideValues {
  switch (policy.algorithm) {
    case 'tokenBucket':
      return 'refill' in values
        ? { ...values, refill: withDefaults(`${where}: refill`, policy.refill, values.refill, ['tokens', 'every']) }
        : values
    case 'leakyBucket':
      return 'leak' in values
        ? { ...values, leak: withDefaults(`${where}: leak`, policy.leak, values.leak, ['units', 'every']) }
        : values
    case 'slidingLogs': {
      const limits = valuesOf(`${where}: limits`, values.limits, Object.keys(policy.limits))
      const changes = Object.entries(limits).map(([name, limit]) => {
        const own = policy.limits[name] as object
        return [name, withDefaults(`${where}: limits.${name}`, own, limit, ['limit', 'window'])]
      })
      return { limits: { ...policy.limits, ...Object.fromEntries(changes) } }
    }
    default:
      return values
  }
}

function withDefaults(where: string, own: object, value: unknown, names: readonly string[]): object {
  return { ...own, ...valuesOf(where, value, names) }
}

/** Values that default to another option change together with it. */
function impliedValues(policy: Policy, values: OverrideValues): OverrideValues {
  if (policy.algorithm === 'gcra' && policy.burst === policy.limit && 'limit' in values) {
    return { burst: values.limit }
  }
  if (policy.algorithm === 'tokenBucket' && policy.initial === policy.capacity && 'capacity' in values) {
    return { initial: values.capacity }
  }
  return {}
}

/** Checks an object of at least one of these options. Values that are `undefined` are omitted. */
function valuesOf(where: string, value: unknown, names: readonly string[]): OverrideValues {
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
