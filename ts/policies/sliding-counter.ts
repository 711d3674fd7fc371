import { type Duration, spanOf } from '../input/duration.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../input/options.js'
import { perOf } from './key-dimension.js'

/** A sliding counter; made by {@link slidingCounter}. Lengths of time are in milliseconds. */
export interface SlidingCounterPolicy<S extends string = string> {
  readonly algorithm: 'slidingCounter'
  readonly limit: number
  readonly window: number
  readonly per?: S
}

/** The options of {@link slidingCounter}. */
export interface SlidingCounterOptions<S extends string = string> {
  /** Units per window: a whole number from 1; times the window's milliseconds, below 2^53. */
  readonly limit: number
  /** How long a window lasts, in whole milliseconds; up to 142 years. */
  readonly window: Duration
  /**
   * The kind of key that it counts by, as calls name it: see `RateLimiter`. `'global'` counts all calls
   * together. Default: the key of the call.
   */
  readonly per?: S
}

/**
 * About `limit` units in any rolling span of `window`, by two counters: what the present window admitted,
 * and of the one before as large a part as still lies within the span, rounded up. Windows are those of
 * the Unix epoch's grid (a window of a day begins at midnight UTC).
 *
 * **Law:** fewer than `limit` · (1 + t / `window`) units in any span of length t; so at most
 * 2 · `limit` − 1 in any rolling window, and at most `limit` in each window of the grid. It is an
 * estimate, as if the units of the window before had been spread evenly over it.
 *
 * **Promise:** an unused key has `limit` units at once, and a caller of at most `limit` units in any two
 * windows' time is never refused. A call is admitted if it and all that was admitted in the present window
 * and the one before are at most `limit`. The last unit of a full window comes back at the end of the next:
 * with a limit of 1 that is one call in every other window.
 *
 * For large quotas over long windows, where a fixed window's edge matters and a log is too large. It
 * remembers little more than `gcra`, which is exact.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * slidingCounter({ limit: 1000, window: '1h' })
 */
export function slidingCounter<const S extends string = never>(
  options: SlidingCounterOptions<S>,
): SlidingCounterPolicy<NoInfer<S>> {
  checkCount(
    arguments.length,
    1,
    'slidingCounter takes an object of options',
    'write slidingCounter({ limit, window })',
  )
  const { limit, window, per } = optionsOf('INVALID_POLICY', 'slidingCounter', options, ['limit', 'window', 'per'])
  const units = wholeNumber('INVALID_POLICY', 'slidingCounter: limit', limit)
  const millis = spanOf('INVALID_POLICY', 'slidingCounter: window', window)
  if (!Number.isInteger(millis)) {
    throw invalid('INVALID_POLICY', 'slidingCounter: window', 'must be in whole milliseconds', window)
  }
  return Object.freeze({
    algorithm: 'slidingCounter',
    limit: units,
    window: millis,
    ...perOf<S>('slidingCounter', per),
  })
}
