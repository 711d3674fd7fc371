import { warnOfShorts } from '../input/duration.js'
import { invalid, optionsOf, shown } from '../input/options.js'
import type { CalendarWindowOptions, CalendarWindowPolicy } from '../policies/calendar-window.js'
import type { FixedWindowOptions, FixedWindowPolicy } from '../policies/fixed-window.js'
import type { GcraOptions, GcraPolicy } from '../policies/gcra.js'
import type { LeakyBucketOptions, LeakyBucketPolicy } from '../policies/leaky-bucket.js'
import { type Policy, policyOf } from '../policies/policy.js'
import type { Compound, Policies } from '../policies/policy-set.js'
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
 * The numbers that a key may have of its own, instead of its policy's: any of those of the policy's function.
 * What is left out stays as the limiter has it, and so does what is no number: the algorithm, its layout and mode,
 * calendars, buckets, precision, names, `countRefused` and `per`.
 *
 * A `burst` that is the `limit` stays so if `limit` alone is given, and so does an `initial` that is the
 * `capacity`.
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

/** The numbers of {@link PolicyOverride}: of a single policy, or of some of several by name. */
export type Override<P extends Policy | Policies> = P extends Policy
  ? PolicyOverride<P>
  : { readonly [Name in keyof P]?: P[Name] extends Policy ? PolicyOverride<P[Name]> : never }

/** What may be overridden of each algorithm. */
const NUMBERS = {
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

/** Values by the names of their options. */
interface Values {
  readonly limit?: unknown
  readonly capacity?: unknown
  readonly refill?: unknown
  readonly leak?: unknown
  readonly limits?: unknown
  readonly [name: string]: unknown
}

/**
 * What an override makes of a limiter's policies, by their numbers: `undefined` for those that it leaves alone.
 *
 * @param numbers - For a single policy its numbers, otherwise those of some policies by name.
 */
export function overridden(compound: Compound, numbers: unknown): readonly (Policy | undefined)[] {
  const policies = changes(compound, numbers)
  warnOfShorts('override: ', numbers as object)
  return policies
}

function changes({ policies, isSingle }: Compound, numbers: unknown): readonly (Policy | undefined)[] {
  if (isSingle) {
    return policies.map(({ policy }) => changed('override', policy, numbers))
  }
  const names = policies.map(({ name }) => name)
  const given = valuesOf('override', numbers, names)
  return policies.map(({ name, policy }) =>
    given[name] === undefined ? undefined : changed(`override: ${name}`, policy, given[name]),
  )
}

/** A policy with some of its numbers changed. */
function changed(where: string, policy: Policy, numbers: unknown): Policy {
  const given = valuesOf(where, numbers, NUMBERS[policy.algorithm])
  return policyOf({ ...policy, ...following(policy, given), ...merged(where, policy, given) })
}

/** The given values; those of a bucket's flow and of several limits together with what they leave out. */
function merged(where: string, policy: Policy, given: Values): Values {
  switch (policy.algorithm) {
    case 'tokenBucket':
      return 'refill' in given
        ? { ...given, refill: within(`${where}: refill`, policy.refill, given.refill, ['tokens', 'every']) }
        : given
    case 'leakyBucket':
      return 'leak' in given
        ? { ...given, leak: within(`${where}: leak`, policy.leak, given.leak, ['units', 'every']) }
        : given
    case 'slidingLogs': {
      const limits = valuesOf(`${where}: limits`, given.limits, Object.keys(policy.limits))
      const changes = Object.entries(limits).map(([name, limit]) => {
        const own = policy.limits[name] as object
        return [name, within(`${where}: limits.${name}`, own, limit, ['limit', 'window'])]
      })
      return { limits: { ...policy.limits, ...Object.fromEntries(changes) } }
    }
    default:
      return given
  }
}

function within(where: string, own: object, value: unknown, names: readonly string[]): object {
  return { ...own, ...valuesOf(where, value, names) }
}

/** What has its default goes with the number that is its default. */
function following(policy: Policy, given: Values): Values {
  if (policy.algorithm === 'gcra' && policy.burst === policy.limit && 'limit' in given) {
    return { burst: given.limit }
  }
  if (policy.algorithm === 'tokenBucket' && policy.initial === policy.capacity && 'capacity' in given) {
    return { initial: given.capacity }
  }
  return {}
}

/** Takes a value as an object of at least one of these, without those that are `undefined`. */
function valuesOf(where: string, value: unknown, names: readonly string[]): Values {
  if (value === undefined) {
    throw invalid('INVALID_OPTION', where, `takes an object with some of ${names.join(', ')}`, value)
  }
  const given = Object.entries(optionsOf('INVALID_OPTION', where, value, names)).filter(
    ([, value]) => value !== undefined,
  )
  if (given.length === 0) {
    throw new TollgateError('INVALID_OPTION', `${where} takes at least one of ${names.map(shown).join(', ')}`)
  }
  return Object.fromEntries(given)
}
