import { type Duration, spanOf } from '../input/duration.js'
import { checkCount, optionsOf, trueOrFalse, wholeNumber } from '../input/options.js'
import { perOf } from './key-dimension.js'

/** A fixed window; made by {@link fixedWindow}. Lengths of time are in milliseconds. */
export interface FixedWindowPolicy<S extends string = string> {
  readonly algorithm: 'fixedWindow'
  readonly limit: number
  readonly window: number
  readonly countRefused: boolean
  readonly per?: S
}

/** The options of {@link fixedWindow}. */
export interface FixedWindowOptions<S extends string = string> {
  /** Units per window: a whole number from 1 to 2^53 − 1. */
  readonly limit: number
  /** How long a window lasts, from the first call admitted in it; up to 142 years. */
  readonly window: Duration
  /**
   * Whether a refused call counts: it then uses up its window, for smaller costs too. An impossible call
   * counts nothing. Default: `false`.
   */
  readonly countRefused?: boolean
  /**
   * The kind of key that it counts by, as calls name it: see `RateLimiter`. `'global'` counts all calls
   * together. Default: the key of the call.
   */
  readonly per?: S
}

/**
 * At most `limit` units per window; the first call admitted after a window's end opens the next.
 *
 * **Law:** `limit` per window, and at most 2 · `limit` − 1 in any rolling span of that length. A
 * window ends on a whole millisecond, up to 1 ms later than asked. If it is shortened while it is open, it keeps its
 * count and ends one new window from now at most.
 *
 * With `countRefused` a call that the window has no room for uses it up, as if attempts were counted; they
 * count at most up to the limit, so nobody is locked out for longer than the window.
 *
 * For quotas that people understand ("100 per hour"). Where the burst at a window's edge matters,
 * take `gcra`.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * fixedWindow({ limit: 100, window: '1h' })
 */
export function fixedWindow<const S extends string = never>(
  options: FixedWindowOptions<S>,
): FixedWindowPolicy<NoInfer<S>> {
  checkCount(arguments.length, 1, 'fixedWindow takes an object of options', 'write fixedWindow({ limit, window })')
  const names = ['limit', 'window', 'countRefused', 'per'] as const
  const { limit, window, countRefused = false, per } = optionsOf('INVALID_POLICY', 'fixedWindow', options, names)
  return Object.freeze({
    algorithm: 'fixedWindow',
    limit: wholeNumber('INVALID_POLICY', 'fixedWindow: limit', limit),
    window: spanOf('INVALID_POLICY', 'fixedWindow: window', window),
    countRefused: trueOrFalse('INVALID_POLICY', 'fixedWindow: countRefused', countRefused),
    ...perOf<S>('fixedWindow', per),
  })
}
