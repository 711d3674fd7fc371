import { TollgateError } from '../api/error.js'
import { type Duration, microsOf, millisOf, millisOfOption } from '../input/duration.js'
import { invalid, nameOf, optionsOf, shown, trueOrFalse, wholeNumber } from '../input/options.js'
import {
  type AlgorithmDefinition,
  type OverrideLimit,
  type OverrideNumbers,
  policyOptions,
  WINDOW_DEFINITION,
} from './definition.js'
import { type Counted, type CountOptions, countOf } from './meter.js'

/**
 * A sliding log policy with one limit; made by {@link slidingLog}. Durations are in milliseconds.
 *
 * @example
 * const policy: SlidingLogPolicy = slidingLog({ limit: 5, window: '15m' })
 */
export interface SlidingLogPolicy {
  readonly algorithm: 'slidingLog'
  readonly limit: number
  readonly window: number
  readonly countRefused: boolean
}

/**
 * A sliding log policy with several limits; made by {@link slidingLog}. Durations are in milliseconds.
 *
 * @example
 * const limits = { second: { limit: 3, window: '1s' }, hour: { limit: 100, window: '1h' } } as const
 * const policy: SlidingLogLimitsPolicy<'second' | 'hour'> = slidingLog({ limits })
 */
export interface SlidingLogLimitsPolicy<N extends string = string> {
  readonly algorithm: 'slidingLog'
  readonly limits: { readonly [Name in N]: { readonly limit: number; readonly window: number } }
  readonly precision?: number
}

/**
 * The options of {@link slidingLog} with one limit.
 *
 * @example
 * const options: SlidingLogOptions = { limit: 5, window: '15m' }
 * const limiter = new RateLimiter(slidingLog(options))
 */
export interface SlidingLogOptions<S extends string = string, M extends string = string, D extends number = number>
  extends CountOptions<S, M, D> {
  /** Units in any rolling window: a whole number from 1 to 100,000. */
  readonly limit: number
  /** The length of the window; up to 142 years. */
  readonly window: Duration
  /**
   * Whether refused attempts count, too. A caller that keeps trying then stays refused. The log keeps the newest
   * `limit` units. Attempts whose cost is above `limit` never count. Default: `false`.
   */
  readonly countRefused?: boolean
}

/** The options of {@link slidingLog} with several limits. @inline */
export interface SlidingLogLimitsOptions<
  N extends string = string,
  S extends string = string,
  M extends string = string,
  D extends number = number,
> extends CountOptions<S, M, D> {
  /**
   * 1 to 8 limits by name (letters, digits, `_`, `.` and `-`, up to 32, starting with a letter). Each admits `limit`
   * units, a whole number from 1 to 100,000, in any rolling `window`. A smaller window must have a smaller limit.
   */
  readonly limits: { readonly [Name in N]: { readonly limit: number; readonly window: Duration } }
  /**
   * The precision of stored times. Times are rounded up to multiples of it, and calls with equal rounded times share
   * one log entry, so a key has at most window / precision + 2 entries. The limits never admit more; a caller may wait
   * up to one `precision` longer. At most the smallest window. Default: exact times.
   */
  readonly precision?: Duration
}

const MAX_LOGGED = 100_000
const MAX_LOG_LIMITS = 8

/**
 * At most `limit` units in any rolling window, exactly: each call is stored for as long as it counts.
 *
 * **Law:** at most `limit` units in any half-open span of length `window`.
 *
 * For small limits that must hold exactly. A key stores up to `limit` calls of 16 bytes each (about 100 bytes in
 * Redis). {@link gcra} stores one number.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * slidingLog({ limit: 5, window: '1m' })
 */
export function slidingLog<
  const S extends string = never,
  const M extends string = never,
  const D extends number = never,
>(options: SlidingLogOptions<S, M, D>): Counted<SlidingLogPolicy, NoInfer<S>, NoInfer<M>, NoInfer<D>>
/**
 * Several limits, each with its own rolling window, over one log of calls. A call is admitted if it fits all of them.
 *
 * **Law:** for each limit, at most `limit` units in any half-open span of the length of its window.
 *
 * A decision has the numbers of one limit: after a refusal the limit with the longest retry; if the cost can never fit,
 * the smallest limit; otherwise the limit with the least remaining.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * const limiter = new RateLimiter(
 *   slidingLog({ limits: { perSecond: { limit: 10, window: '1s' }, perHour: { limit: 1000, window: '1h' } } }),
 * )
 * const decision = await limiter.take('user:42')
 * if (!decision.allowed) console.log(decision.policy) // 'perSecond' or 'perHour'
 */
export function slidingLog<
  const N extends string,
  const S extends string = never,
  const M extends string = never,
  const D extends number = never,
>(options: SlidingLogLimitsOptions<N, S, M, D>): Counted<SlidingLogLimitsPolicy<N>, NoInfer<S>, NoInfer<M>, NoInfer<D>>
export function slidingLog(options: unknown): SlidingLogPolicy | SlidingLogLimitsPolicy {
  const example = 'limit, window }) or slidingLog({ limits'
  if (typeof options === 'object' && options !== null && 'limits' in options) {
    for (const name of ['limit', 'window']) {
      if (name in options) {
        const rule = `cannot be used together: write limits: { name: { limit, window }, … }, or limit and window alone`
        throw new TollgateError('INVALID_POLICY', `slidingLog: ${name} and limits ${rule}`)
      }
    }
    return policyOfLimits(policyOptions('slidingLog', arguments, options, ['limits'], ['precision'], example))
  }
  const required = ['limit', 'window'] as const
  const given = policyOptions('slidingLog', arguments, options, required, ['countRefused'], example)
  const { limit, window, countRefused = false } = given
  return Object.freeze({
    algorithm: 'slidingLog',
    limit: wholeNumber('INVALID_POLICY', 'slidingLog: limit', limit, 1, MAX_LOGGED),
    window: millisOfOption('INVALID_POLICY', 'slidingLog: window', window),
    countRefused: trueOrFalse('INVALID_POLICY', 'slidingLog: countRefused', countRefused),
    ...countOf('slidingLog', given),
  })
}

function policyOfLimits(options: {
  readonly limits?: unknown
  readonly precision?: unknown
  readonly per?: unknown
  readonly meter?: unknown
  readonly defaultCost?: unknown
  readonly maxOwed?: unknown
}): SlidingLogLimitsPolicy {
  const limits = limitsOf(options.limits)
  const policy = {
    algorithm: 'slidingLog',
    limits: Object.freeze(Object.fromEntries(limits)),
    ...countOf('slidingLog', options),
  } as const
  if (options.precision === undefined) {
    return Object.freeze(policy)
  }
  const precision = millisOf('INVALID_POLICY', 'slidingLog: precision', options.precision)
  for (const [name, { window }] of limits) {
    if (microsOf(precision) > microsOf(window)) {
      const rule = `must be at most the smallest window, and that of ${shown(name)} is ${window} ms`
      throw invalid('INVALID_POLICY', 'slidingLog: precision', rule, options.precision)
    }
  }
  return Object.freeze({ ...policy, precision })
}

type NamedLogLimit = readonly [name: string, limit: { readonly limit: number; readonly window: number }]

function limitsOf(value: unknown): readonly NamedLogLimit[] {
  const rule = `must be an object of 1 to ${MAX_LOG_LIMITS} limits by name`
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalid('INVALID_POLICY', 'slidingLog: limits', rule, value)
  }
  const entries = Object.entries(value)
  if (entries.length < 1 || entries.length > MAX_LOG_LIMITS) {
    throw new TollgateError('INVALID_POLICY', `slidingLog: limits ${rule}, got ${entries.length}`)
  }
  const limits = entries.map(limitOf)
  for (const smaller of limits) {
    for (const larger of limits) {
      checkPair(smaller, larger)
    }
  }
  return limits
}

function limitOf([name, value]: readonly [string, unknown]): NamedLogLimit {
  nameOf('slidingLog: limits: the name of a limit', name, 'INVALID_POLICY')
  const where = `slidingLog: limits.${name}`
  const { limit, window } = optionsOf('INVALID_POLICY', where, value, ['limit', 'window'])
  const checked = Object.freeze({
    limit: wholeNumber('INVALID_POLICY', `${where}.limit`, limit, 1, MAX_LOGGED),
    window: millisOfOption('INVALID_POLICY', `${where}.window`, window),
  })
  return [name, checked]
}

/** Throws if one of the two limits can never take effect. */
function checkPair([name, one]: NamedLogLimit, [otherName, other]: NamedLogLimit): void {
  const shorter = microsOf(one.window) < microsOf(other.window)
  if (shorter && one.limit >= other.limit) {
    const rule = `limit must be smaller than that of ${shown(otherName)}, whose window is longer`
    const got = `got ${one.limit} and ${other.limit}`
    throw new TollgateError('INVALID_POLICY', `slidingLog: limits.${name}: ${rule}, ${got}`)
  }
  if (name !== otherName && microsOf(one.window) === microsOf(other.window)) {
    const rule = `window must differ from that of ${shown(otherName)}`
    throw new TollgateError('INVALID_POLICY', `slidingLog: limits.${name}: ${rule}, got ${one.window} ms for both`)
  }
}

/** The stored numbers of an override begin with three that it does not change. */
function decodeOverride([, , , ...numbers]: readonly number[]): OverrideNumbers {
  const limits: OverrideLimit[] = []
  for (let at = 0; at + 1 < numbers.length; at += 2) {
    limits.push({ limit: numbers[at] as number, windowMs: (numbers[at + 1] as number) / 1_000 })
  }
  return limits.length === 1 ? { ...(limits[0] as OverrideLimit) } : { limits }
}

export const SLIDING_LOG: AlgorithmDefinition<SlidingLogPolicy | SlidingLogLimitsPolicy> = {
  create: slidingLog as AlgorithmDefinition<SlidingLogPolicy | SlidingLogLimitsPolicy>['create'],
  mainOption: 'limit',
  encode(policy) {
    if (!('limits' in policy)) {
      return ['slidingLog', [policy.limit, microsOf(policy.window), Number(policy.countRefused)]]
    }
    const { limits, precision } = policy
    const numbers = Object.values(limits).flatMap(({ limit, window }) => [limit, microsOf(window)])
    // Without a precision, times are exact: to the microsecond.
    return ['slidingLogs', [precision === undefined ? 1 : microsOf(precision), ...numbers]]
  },
  windowMs(policy, limit) {
    const all = limitsIn(policy)
    const own = limit === undefined ? undefined : all[limit]
    return own?.window ?? Math.max(...Object.values(all).map(({ window }) => window))
  },
  largestCost(policy, limit) {
    const all = limitsIn(policy)
    const own = limit === undefined ? undefined : all[limit]
    return own?.limit ?? Math.min(...Object.values(all).map((one) => one.limit))
  },
  share(policy, scale) {
    if (!('limits' in policy)) {
      return WINDOW_DEFINITION.share(policy, scale)
    }
    const shares = Object.entries(policy.limits).map(([name, { limit, window }]) => {
      return [name, { limit: scale.nonZeroUnitsOf(`limits.${name}.limit`, limit), window }]
    })
    return { limits: Object.fromEntries(shares) }
  },
  decodeOverride,
}

function limitsIn(policy: SlidingLogPolicy | SlidingLogLimitsPolicy): SlidingLogLimitsPolicy['limits'] {
  return 'limits' in policy ? policy.limits : { '': policy }
}
