import { type Duration, microsOf, millisOfOption } from '../input/duration.js'
import { invalid, wholeNumber } from '../input/options.js'
import { type AlgorithmDefinition, policyOptions, WINDOW_DEFINITION } from './definition.js'
import { type Counted, type CountOptions, countOf } from './meter.js'

/**
 * A sliding counter policy; made by {@link slidingCounter}. Durations are in milliseconds.
 *
 * @example
 * const policy: SlidingCounterPolicy = slidingCounter({ limit: 1_000, window: '1m' })
 */
export interface SlidingCounterPolicy {
  readonly algorithm: 'slidingCounter'
  readonly limit: number
  readonly window: number
}

/**
 * The options of {@link slidingCounter}.
 *
 * @example
 * const options: SlidingCounterOptions = { limit: 1_000, window: '1m' }
 * const limiter = new RateLimiter(slidingCounter(options))
 */
export interface SlidingCounterOptions<S extends string = string, M extends string = string, D extends number = number>
  extends CountOptions<S, M, D> {
  /** Units per window: a whole number from 1; multiplied by the window's milliseconds, below 2^53. */
  readonly limit: number
  /** The length of a window, in whole milliseconds; up to 142 years. */
  readonly window: Duration
}

/**
 * About `limit` units in any rolling span of `window`, by two counters: the count of the current window, plus the part
 * of the previous window's count that corresponds to its overlap with the span, rounded up. Windows are aligned to the
 * Unix epoch (a window of a day begins at midnight UTC).
 *
 * **Law:** fewer than `limit` · (1 + t / `window`) units in any span of length t; so at most 2 · `limit` − 1 in any
 * rolling window, and at most `limit` in each aligned window.
 *
 * **Promise:** an unused key admits `limit` units at once, and a caller of at most `limit` units in any span of two
 * windows is never refused. A call is admitted if it and all units admitted in the current and the previous window are
 * at most `limit`. The last unit of a full window comes back at the end of the next window: with a limit of 1 this is
 * one call in every other window.
 *
 * For large quotas over long windows, if the edge of a fixed window matters and a log is too large. For a limit below
 * 20 use `gcra`: this counter refuses some evenly spaced callers above `limit` − 2 units per window.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * slidingCounter({ limit: 1000, window: '1h' })
 */
export function slidingCounter<
  const S extends string = never,
  const M extends string = never,
  const D extends number = never,
>(options: SlidingCounterOptions<S, M, D>): Counted<SlidingCounterPolicy, NoInfer<S>, NoInfer<M>, NoInfer<D>> {
  const given = policyOptions('slidingCounter', arguments, options, ['limit', 'window'])
  const { limit, window } = given
  const units = wholeNumber('INVALID_POLICY', 'slidingCounter: limit', limit)
  const millis = millisOfOption('INVALID_POLICY', 'slidingCounter: window', window)
  if (!Number.isInteger(millis)) {
    throw invalid('INVALID_POLICY', 'slidingCounter: window', 'must be in whole milliseconds', window)
  }
  return Object.freeze({
    algorithm: 'slidingCounter',
    limit: units,
    window: millis,
    ...countOf('slidingCounter', given),
  }) as Counted<SlidingCounterPolicy, S, M, D>
}

export const SLIDING_COUNTER: AlgorithmDefinition<SlidingCounterPolicy> = {
  ...WINDOW_DEFINITION,
  create: slidingCounter,
  encode: ({ limit, window }) => ['slidingCounter', [limit, microsOf(window)]],
  decodeOverride: ([limit = 0, windowMs = 0]) => ({ limit, windowMs }),
}
