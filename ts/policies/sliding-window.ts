import { type Duration, spanOf } from '../input/duration.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../input/options.js'
import { perOf } from './key-dimension.js'

/** A sliding window; made by {@link slidingWindow}. Lengths of time are in milliseconds. */
export interface SlidingWindowPolicy<S extends string = string> {
  readonly algorithm: 'slidingWindow'
  readonly limit: number
  readonly window: number
  readonly buckets: number
  readonly layout: SlidingWindowLayout
  readonly per?: S
}

/**
 * How the buckets of a {@link slidingWindow} are laid out in Redis: in a list of running totals, or in a hash of
 * counts. Decisions are the same.
 */
export type SlidingWindowLayout = 'list' | 'hash'

/** The options of {@link slidingWindow}. */
export interface SlidingWindowOptions<S extends string = string> {
  /** Units in any window: a whole number from 1 to 2^53 − 1. */
  readonly limit: number
  /** The length of the window; with one bucket more, up to 71 years. */
  readonly window: Duration
  /** Parts that the window is counted in: a whole number from 1 to 1000. Default: 10. */
  readonly buckets?: number
  /**
   * How Redis keeps the buckets. Default: `'list'`, where a call takes as many commands for 1000 buckets as for
   * 10; with `'hash'` a call reads all buckets, which take a third of the memory if they are few. A store keeps the two apart: a change of layout begins anew.
   */
  readonly layout?: SlidingWindowLayout
  /**
   * The kind of key that it counts by, as calls name it: see `RateLimiter`. `'global'` counts all calls
   * together. Default: the key of the call.
   */
  readonly per?: S
}

const LAYOUTS: readonly unknown[] = ['list', 'hash'] satisfies SlidingWindowLayout[]

/**
 * At most `limit` units in **any** rolling `window`, counted in `buckets` parts of it.
 *
 * **Law:** `limit` in any span of the window's length. The bucket that the window only partly covers counts in
 * full, so a unit counts for up to one bucket longer than the window: a steady caller gets `limit` per
 * `window` · (`buckets` + 1) / `buckets`. More buckets give more, and take 16 bytes each (in a Redis list 34).
 *
 * For limits that must hold at every moment, where a window's edge may not let through twice as much.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * slidingWindow({ limit: 100, window: '1m', buckets: 60 })
 */
export function slidingWindow<const S extends string = never>(
  options: SlidingWindowOptions<S>,
): SlidingWindowPolicy<NoInfer<S>> {
  checkCount(arguments.length, 1, 'slidingWindow takes an object of options', 'write slidingWindow({ limit, window })')
  const names = ['limit', 'window', 'buckets', 'layout', 'per'] as const
  const given = optionsOf('INVALID_POLICY', 'slidingWindow', options, names)
  const { limit, window, buckets = 10, layout = 'list', per } = given
  return Object.freeze({
    algorithm: 'slidingWindow',
    limit: wholeNumber('INVALID_POLICY', 'slidingWindow: limit', limit),
    window: spanOf('INVALID_POLICY', 'slidingWindow: window', window),
    buckets: wholeNumber('INVALID_POLICY', 'slidingWindow: buckets', buckets, 1, 1_000),
    layout: layoutOf(layout),
    ...perOf<S>('slidingWindow', per),
  })
}

function layoutOf(value: unknown): SlidingWindowLayout {
  if (LAYOUTS.includes(value)) {
    return value as SlidingWindowLayout
  }
  throw invalid('INVALID_POLICY', 'slidingWindow: layout', "must be 'list' or 'hash'", value)
}
