import { type Duration, microsOf, millisOfOption } from '../input/duration.js'
import { optionsOf, wholeNumber } from '../input/options.js'
import { type AlgorithmDefinition, policyOptions, refillMs } from './definition.js'
import { type Counted, type CountOptions, countOf } from './meter.js'

/**
 * A leaky bucket policy; made by {@link leakyBucket}. Durations are in milliseconds.
 *
 * @example
 * const policy: LeakyBucketPolicy = leakyBucket({ capacity: 20, leak: { units: 2, every: '1s' } })
 */
export interface LeakyBucketPolicy {
  readonly algorithm: 'leakyBucket'
  readonly capacity: number
  readonly leak: { readonly units: number; readonly every: number }
}

/**
 * The options of {@link leakyBucket}.
 *
 * @example
 * const options: LeakyBucketOptions = { capacity: 20, leak: { units: 2, every: '1s' } }
 * const limiter = new RateLimiter(leakyBucket(options))
 */
export interface LeakyBucketOptions<S extends string = string, M extends string = string, D extends number = number>
  extends CountOptions<S, M, D> {
  /** Units that the bucket holds: a whole number from 1 to 2^53 − 1. */
  readonly capacity: number
  /** The leak: `units` units drain evenly over each `every`. */
  readonly leak: { readonly units: number; readonly every: Duration }
}

/**
 * A bucket of `capacity` units that leaks evenly. A call adds its cost, if it fits.
 *
 * **Law:** at most `capacity` + t · `units` / `every` units in any span of length t.
 *
 * Also called a funnel. A call that does not fit is refused, not queued. The decisions equal those of `tokenBucket` and
 * `gcra` with the same numbers.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * leakyBucket({ capacity: 15, leak: { units: 1, every: '2s' } })
 */
export function leakyBucket<
  const S extends string = never,
  const M extends string = never,
  const D extends number = never,
>(options: LeakyBucketOptions<S, M, D>): Counted<LeakyBucketPolicy, NoInfer<S>, NoInfer<M>, NoInfer<D>> {
  const example = 'capacity, leak: { units, every }'
  const given = policyOptions('leakyBucket', arguments, options, ['capacity', 'leak'], [], example)
  const { capacity, leak } = given
  const { units, every } = optionsOf('INVALID_POLICY', 'leakyBucket: leak', leak, ['units', 'every'])
  return Object.freeze({
    algorithm: 'leakyBucket',
    capacity: wholeNumber('INVALID_POLICY', 'leakyBucket: capacity', capacity),
    leak: Object.freeze({
      units: wholeNumber('INVALID_POLICY', 'leakyBucket: leak.units', units),
      every: millisOfOption('INVALID_POLICY', 'leakyBucket: leak.every', every),
    }),
    ...countOf('leakyBucket', given),
  }) as Counted<LeakyBucketPolicy, S, M, D>
}

export const LEAKY_BUCKET: AlgorithmDefinition<LeakyBucketPolicy> = {
  create: leakyBucket,
  mainOption: 'capacity',
  encode: ({ capacity, leak }) => ['leakyBucket', [capacity, leak.units, microsOf(leak.every)]],
  windowMs: ({ capacity, leak }) => refillMs(capacity, leak.units, leak.every),
  largestCost: ({ capacity }) => capacity,
  share: ({ capacity, leak }, scale) => ({
    capacity: scale.nonZeroUnitsOf('capacity', capacity),
    leak: scale.rateOf(leak.units, leak.every),
  }),
  rate: ({ capacity, leak }) => ({ units: leak.units, periodMs: leak.every, limit: capacity }),
  lease: ({ capacity }, units) => (units < capacity ? { capacity: capacity - units } : undefined),
  decodeOverride: ([period = 0, units = 0, capacity = 0]) => ({ capacity, units, everyMs: period / 1_000 }),
}
