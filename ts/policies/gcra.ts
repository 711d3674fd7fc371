import { type Duration, microsOf, millisOfOption } from '../input/duration.js'
import { wholeNumber } from '../input/options.js'
import { type AlgorithmDefinition, policyOptions, refillMs } from './definition.js'
import { type Counted, type CountOptions, countOf } from './meter.js'

/**
 * A GCRA policy (generic cell rate algorithm); made by {@link gcra}. Durations are in milliseconds.
 *
 * @example
 * const policy: GcraPolicy = gcra({ limit: 100, period: '1m', burst: 20 })
 */
export interface GcraPolicy {
  readonly algorithm: 'gcra'
  readonly limit: number
  readonly period: number
  /** As it was written; `undefined` if it is the `limit`. */
  readonly burst?: number | undefined
}

/**
 * The options of {@link gcra}.
 *
 * @example
 * const options: GcraOptions = { limit: 100, period: '1m', burst: 20 }
 * const limiter = new RateLimiter(gcra(options))
 */
export interface GcraOptions<S extends string = string, M extends string = string, D extends number = number>
  extends CountOptions<S, M, D> {
  /** Units per period, evenly spread: a whole number from 1 to 2^53 − 1. */
  readonly limit: number
  /** The duration in which `limit` units are admitted. */
  readonly period: Duration
  /** Units that an unused key admits at once. Default: `limit`; in an override, its `limit`. */
  readonly burst?: number
}

/**
 * The generic cell rate algorithm: `limit` units per `period`, evenly spread, and `burst` at once.
 *
 * **Law:** at most `burst` + t · `limit` / `period` units in any span of length t.
 *
 * The default choice: exact, smooth, and with the smallest state per key.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * gcra({ limit: 100, period: '1m', burst: 20 })
 */
export function gcra<const S extends string = never, const M extends string = never, const D extends number = never>(
  options: GcraOptions<S, M, D>,
): Counted<GcraPolicy, NoInfer<S>, NoInfer<M>, NoInfer<D>> {
  const given = policyOptions('gcra', arguments, options, ['limit', 'period'], ['burst'])
  const { limit, period, burst } = given
  return Object.freeze({
    algorithm: 'gcra',
    limit: wholeNumber('INVALID_POLICY', 'gcra: limit', limit),
    period: millisOfOption('INVALID_POLICY', 'gcra: period', period),
    burst: burst === undefined ? undefined : wholeNumber('INVALID_POLICY', 'gcra: burst', burst),
    ...countOf('gcra', given),
  }) as Counted<GcraPolicy, S, M, D>
}

export const GCRA: AlgorithmDefinition<GcraPolicy> = {
  create: gcra,
  mainOption: 'limit',
  encode: ({ limit, period, burst = limit }) => ['gcra', [limit, microsOf(period), burst]],
  windowMs: ({ limit, period, burst = limit }) => refillMs(burst, limit, period),
  largestCost: ({ limit, burst = limit }) => burst,
  share({ limit, period, burst = limit }, scale) {
    const { units, every } = scale.rateOf(limit, period)
    return { limit: units, period: every, burst: scale.nonZeroUnitsOf('burst', burst) }
  },
  rate: ({ limit, period, burst = limit }) => ({ units: limit, periodMs: period, limit: burst }),
  lease: ({ limit, burst = limit }, units) => (units < burst ? { burst: burst - units } : undefined),
  decodeOverride: ([period = 0, units = 0, burst = 0]) => ({ limit: units, periodMs: period / 1_000, burst }),
}
