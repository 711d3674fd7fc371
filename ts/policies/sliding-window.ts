import { type Duration, microsOf, millisOfOption } from '../input/duration.js'
import { oneOf, wholeNumber } from '../input/options.js'
import { type AlgorithmDefinition, policyOptions, WINDOW_DEFINITION } from './definition.js'
import { type Counted, type CountOptions, countOf } from './meter.js'

/**
 * A sliding window policy; made by {@link slidingWindow}. Durations are in milliseconds.
 *
 * @example
 * const policy: SlidingWindowPolicy = slidingWindow({ limit: 1_000, window: '1m', buckets: 10 })
 */
export interface SlidingWindowPolicy {
  readonly algorithm: 'slidingWindow'
  readonly limit: number
  readonly window: number
  readonly buckets: number
  readonly layout: SlidingWindowLayout
}

/** The layout of the buckets of a {@link slidingWindow} in Redis: a list of running totals, or a hash of counts. @inline */
type SlidingWindowLayout = 'list' | 'hash'

/**
 * The options of {@link slidingWindow}.
 *
 * @example
 * const options: SlidingWindowOptions = { limit: 1_000, window: '1m', buckets: 10 }
 * const limiter = new RateLimiter(slidingWindow(options))
 */
export interface SlidingWindowOptions<S extends string = string, M extends string = string, D extends number = number>
  extends CountOptions<S, M, D> {
  /** Units in any window: a whole number from 1 to 2^53 − 1. */
  readonly limit: number
  /** The length of the window. Together with one more bucket, up to 71 years. */
  readonly window: Duration
  /** The number of buckets that the window is divided into: a whole number from 1 to 1000. Default: 10. */
  readonly buckets?: number
  /**
   * The layout of the buckets in Redis. Decisions are the same. Default: `'list'`, where a call takes as many commands
   * for 1000 buckets as for 10. With `'hash'` a call reads all buckets; a few buckets take a third of the memory. A
   * store keeps the two layouts apart: after a change of layout all keys start in their initial state.
   */
  readonly layout?: SlidingWindowLayout
}

/**
 * At most `limit` units in **any** rolling `window`, counted in `buckets` parts of it.
 *
 * **Law:** at most `limit` units in any span of the window's length. The oldest bucket counts in full although the
 * window covers only a part of it, so a unit counts for up to one bucket longer than the window: a steady caller gets
 * `limit` per `window` · (`buckets` + 1) / `buckets`. More buckets admit more, and take 16 bytes each (34 in a Redis
 * list).
 *
 * For limits that must hold at every moment, where twice the limit at a window's edge is too much.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * slidingWindow({ limit: 100, window: '1m', buckets: 60 })
 */
export function slidingWindow<
  const S extends string = never,
  const M extends string = never,
  const D extends number = never,
>(options: SlidingWindowOptions<S, M, D>): Counted<SlidingWindowPolicy, NoInfer<S>, NoInfer<M>, NoInfer<D>> {
  const required = ['limit', 'window'] as const
  const given = policyOptions('slidingWindow', arguments, options, required, ['buckets', 'layout'])
  const { limit, window, buckets = 10, layout = 'list' } = given
  return Object.freeze({
    algorithm: 'slidingWindow',
    limit: wholeNumber('INVALID_POLICY', 'slidingWindow: limit', limit),
    window: millisOfOption('INVALID_POLICY', 'slidingWindow: window', window),
    buckets: wholeNumber('INVALID_POLICY', 'slidingWindow: buckets', buckets, 1, 1_000),
    layout: oneOf('INVALID_POLICY', 'slidingWindow: layout', layout, ['list', 'hash']),
    ...countOf('slidingWindow', given),
  }) as Counted<SlidingWindowPolicy, S, M, D>
}

export const SLIDING_WINDOW: AlgorithmDefinition<SlidingWindowPolicy> = {
  ...WINDOW_DEFINITION,
  create: slidingWindow,
  encode({ limit, window, buckets, layout }) {
    const kind = layout === 'hash' ? 'slidingWindowHash' : 'slidingWindowList'
    return [kind, [limit, microsOf(window), buckets]]
  },
  decodeOverride: ([limit = 0, , windowUs = 0]) => ({ limit, windowMs: windowUs / 1_000 }),
}
