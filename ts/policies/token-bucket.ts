import { type Duration, microsOf, millisOfOption } from '../input/duration.js'
import { invalid, optionsOf, wholeNumber } from '../input/options.js'
import { type AlgorithmDefinition, policyOptions, refillMs } from './definition.js'
import { type Counted, type CountOptions, countOf } from './meter.js'

/**
 * A token bucket policy; made by {@link tokenBucket}. Durations are in milliseconds.
 *
 * @example
 * const policy: TokenBucketPolicy = tokenBucket({ capacity: 20, refill: { tokens: 2, every: '1s' } })
 */
export interface TokenBucketPolicy<R extends RefillMode = RefillMode> {
  readonly algorithm: 'tokenBucket'
  readonly capacity: number
  readonly refill: { readonly tokens: number; readonly every: number }
  readonly refillMode: R
  /** As it was written; `undefined` if it is the `capacity`. */
  readonly initial?: number | undefined
  readonly debt: number
}

/** How a token bucket refills: see {@link TokenBucketOptions.refillMode}. @inline */
type RefillMode = 'continuous' | 'interval'

/**
 * The options of {@link tokenBucket}.
 *
 * @example
 * const options: TokenBucketOptions = { capacity: 20, refill: { tokens: 2, every: '1s' } }
 * const limiter = new RateLimiter(tokenBucket(options))
 */
export interface TokenBucketOptions<
  S extends string = string,
  R extends RefillMode = RefillMode,
  M extends string = string,
  D extends number = number,
> extends CountOptions<S, M, D> {
  /** Tokens that the bucket holds: a whole number from 1 to 2^53 − 1. */
  readonly capacity: number
  /** The refill: `tokens` tokens in each `every`. */
  readonly refill: { readonly tokens: number; readonly every: Duration }
  /**
   * `'continuous'` (the default) refills evenly over each `every`. `'interval'` refills at once at
   * the end of each `every`, counted from the call that took the first token of a full bucket.
   */
  readonly refillMode?: R
  /**
   * Tokens of a key at its first call: a whole number from 0 to `capacity`. Default: `capacity`; in an
   * override, its `capacity`.
   *
   * With less than `capacity` the first call of a key is recorded even if it is refused: the bucket starts to fill
   * then. The key is kept until it has been full for 24 hours, and `resetAfterMs` includes them. After that it starts
   * again with `initial` tokens.
   */
  readonly initial?: number
  /**
   * How far below 0 a call may take the bucket: a whole number of tokens, 0 by default. A call is admitted if the
   * bucket has at least one whole token, and at least −`debt` tokens are left after the call. The following calls wait
   * until there is a whole token again. The largest cost is `capacity` + `debt`.
   */
  readonly debt?: number
}

/**
 * A bucket of `capacity` tokens that refills. A call takes as many tokens as it costs.
 *
 * **Law:** in any span of length t at most `capacity` + t · `tokens` / `every` units; with `refillMode: 'interval'` at
 * most `capacity` + `tokens` · (⌊t / `every`⌋ + 1). A `debt` adds `debt` units, once.
 *
 * For callers that may save up tokens and then burst. After a change of `refillMode` all keys start in their initial
 * state. All other numbers may change, and units already charged keep counting.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * tokenBucket({ capacity: 20, refill: { tokens: 5, every: '1s' } })
 * tokenBucket({ capacity: 100, refill: { tokens: 100, every: '1m' }, refillMode: 'interval' })
 */
export function tokenBucket<
  const S extends string = never,
  const R extends RefillMode = 'continuous',
  const M extends string = never,
  const D extends number = never,
>(options: TokenBucketOptions<S, R, M, D>): Counted<TokenBucketPolicy<NoInfer<R>>, NoInfer<S>, NoInfer<M>, NoInfer<D>> {
  const required = ['capacity', 'refill'] as const
  const example = 'capacity, refill: { tokens, every }'
  const given = policyOptions('tokenBucket', arguments, options, required, ['refillMode', 'initial', 'debt'], example)
  const { capacity, refill, refillMode, initial, debt = 0 } = given
  const { tokens, every } = optionsOf('INVALID_POLICY', 'tokenBucket: refill', refill, ['tokens', 'every'])
  const holds = wholeNumber('INVALID_POLICY', 'tokenBucket: capacity', capacity)
  return Object.freeze({
    algorithm: 'tokenBucket',
    capacity: holds,
    refill: Object.freeze({
      tokens: wholeNumber('INVALID_POLICY', 'tokenBucket: refill.tokens', tokens),
      every: millisOfOption('INVALID_POLICY', 'tokenBucket: refill.every', every),
    }),
    refillMode: refillModeOf(refillMode) as R,
    initial:
      initial === undefined ? undefined : wholeNumber('INVALID_POLICY', 'tokenBucket: initial', initial, 0, holds),
    debt: wholeNumber('INVALID_POLICY', 'tokenBucket: debt', debt, 0),
    ...countOf('tokenBucket', given),
  }) as Counted<TokenBucketPolicy<R>, S, M, D>
}

function refillModeOf(value: unknown = 'continuous'): RefillMode {
  if (value === 'continuous' || value === 'interval') {
    return value
  }
  throw invalid('INVALID_POLICY', 'tokenBucket: refillMode', 'must be "continuous" or "interval"', value)
}

export const TOKEN_BUCKET: AlgorithmDefinition<TokenBucketPolicy> = {
  create: tokenBucket,
  mainOption: 'capacity',
  encode({ capacity, refill, refillMode, initial = capacity, debt }) {
    const kind = refillMode === 'interval' ? 'tokenBucketInterval' : 'tokenBucket'
    return [kind, [capacity, refill.tokens, microsOf(refill.every), initial, debt]]
  },
  windowMs({ capacity, refill, refillMode, debt }) {
    const { tokens, every } = refill
    const units = capacity + debt
    return refillMode === 'interval' ? Math.ceil(units / tokens) * every : refillMs(units, tokens, every)
  },
  largestCost: ({ capacity, debt }) => capacity + debt,
  share({ capacity, refill, refillMode, initial = capacity, debt }, scale) {
    const { units, every } = scale.rateOf(refill.tokens, refill.every)
    return {
      capacity: scale.nonZeroUnitsOf('capacity', capacity),
      // A refill adds its tokens at once: half the share gets half of each refill, not every other one.
      refill:
        refillMode === 'interval'
          ? { tokens: scale.nonZeroUnitsOf('refill.tokens', refill.tokens), every: refill.every }
          : { tokens: units, every },
      initial: scale.unitsOf(initial),
      debt: scale.unitsOf(debt),
    }
  },
  rate: ({ capacity, refill, debt }) => ({ units: refill.tokens, periodMs: refill.every, limit: capacity + debt }),
  lease: ({ capacity, initial = capacity }, units) =>
    units < capacity ? { capacity: capacity - units, initial: Math.min(initial, capacity - units) } : undefined,
  decodeOverride: ([period = 0, units = 0, most = 0, capacity = 0, initial = 0]) => ({
    capacity,
    // Levels that have their default are left out.
    ...(initial === capacity ? {} : { initial }),
    ...(most === capacity ? {} : { debt: most - capacity }),
    tokens: units,
    everyMs: period / 1_000,
  }),
}
