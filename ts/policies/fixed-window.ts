import { type Duration, microsOf, millisOfOption } from '../input/duration.js'
import { trueOrFalse, wholeNumber } from '../input/options.js'
import { type AlgorithmDefinition, policyOptions, WINDOW_DEFINITION } from './definition.js'
import { type Counted, type CountOptions, countOf } from './meter.js'

/**
 * A fixed window policy; made by {@link fixedWindow}. Durations are in milliseconds.
 *
 * @example
 * const policy: FixedWindowPolicy = fixedWindow({ limit: 100, window: '1h' })
 */
export interface FixedWindowPolicy {
  readonly algorithm: 'fixedWindow'
  readonly limit: number
  readonly window: number
  readonly countRefused: boolean
}

/**
 * The options of {@link fixedWindow}.
 *
 * @example
 * const options: FixedWindowOptions = { limit: 100, window: '1h' }
 * const limiter = new RateLimiter(fixedWindow(options))
 */
export interface FixedWindowOptions<S extends string = string, M extends string = string, D extends number = number>
  extends CountOptions<S, M, D> {
  /** Units per window: a whole number from 1 to 2^53 − 1. */
  readonly limit: number
  /** The length of a window, from the first call admitted in it; up to 142 years. */
  readonly window: Duration
  /** Whether a refused call uses up its window, also for smaller costs; not an impossible call. Default: `false`. */
  readonly countRefused?: boolean
}

/**
 * At most `limit` units per window. The first call admitted after a window's end opens the next one.
 *
 * **Law:** at most `limit` units per window, and at most 2 · `limit` − 1 in any rolling span of that length. A window
 * ends on a whole millisecond, up to 1 ms later than configured. If `window` is shortened while a window is open, that
 * window keeps its count and ends at most one new window from now.
 *
 * With `countRefused` a call that does not fit uses up the rest of its window. No key is refused for longer than the
 * window.
 *
 * For quotas that people understand ("100 per hour"). If the burst at a window's edge matters, use `gcra`.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * fixedWindow({ limit: 100, window: '1h' })
 */
export function fixedWindow<
  const S extends string = never,
  const M extends string = never,
  const D extends number = never,
>(options: FixedWindowOptions<S, M, D>): Counted<FixedWindowPolicy, NoInfer<S>, NoInfer<M>, NoInfer<D>> {
  const required = ['limit', 'window'] as const
  const given = policyOptions('fixedWindow', arguments, options, required, ['countRefused'])
  const { limit, window, countRefused = false } = given
  return Object.freeze({
    algorithm: 'fixedWindow',
    limit: wholeNumber('INVALID_POLICY', 'fixedWindow: limit', limit),
    window: millisOfOption('INVALID_POLICY', 'fixedWindow: window', window),
    countRefused: trueOrFalse('INVALID_POLICY', 'fixedWindow: countRefused', countRefused),
    ...countOf('fixedWindow', given),
  }) as Counted<FixedWindowPolicy, S, M, D>
}

export const FIXED_WINDOW: AlgorithmDefinition<FixedWindowPolicy> = {
  ...WINDOW_DEFINITION,
  create: fixedWindow,
  lease: () => ({}),
  encode: ({ limit, window, countRefused }) => ['fixedWindow', [limit, microsOf(window), Number(countRefused)]],
}
