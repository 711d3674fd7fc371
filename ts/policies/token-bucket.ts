import { type Duration, spanOf } from '../input/duration.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../input/options.js'
import { perOf } from './key-dimension.js'

/** A token bucket; made by {@link tokenBucket}. Lengths of time are in milliseconds. */
export interface TokenBucketPolicy<S extends string = string, M extends RefillMode = RefillMode> {
  readonly algorithm: 'tokenBucket'
  readonly capacity: number
  readonly refill: { readonly tokens: number; readonly every: number }
  readonly refillMode: M
  readonly initial: number
  readonly debt: number
  readonly per?: S
}

/** How a token bucket gains its tokens: see {@link TokenBucketOptions.refillMode}. */
export type RefillMode = 'continuous' | 'interval'

/** The options of {@link tokenBucket}. */
export interface TokenBucketOptions<S extends string = string, M extends RefillMode = RefillMode> {
  /** Tokens that the bucket holds: a whole number from 1 to 2^53 − 1. */
  readonly capacity: number
  /** The bucket gains `tokens` in each `every`. */
  readonly refill: { readonly tokens: number; readonly every: Duration }
  /**
   * `'continuous'` (the default): evenly over each `every`. `'interval'`: at once at the end of each
   * `every`, counted from the call that took the first token of a full bucket.
   */
  readonly refillMode?: M
  /**
   * Tokens that a key has when it is first seen: a whole number from 0 to `capacity`, the default.
   *
   * With less than `capacity` the first call of a key is recorded even if it is refused: from then on
   * the bucket fills. The key is known until it has been full for 24 hours, which is what
   * `resetAfterMs` tells; then it begins anew.
   */
  readonly initial?: number
  /**
   * Tokens below 0 that a call may take the bucket to: a whole number, 0 by default. A call is admitted
   * if there is at least one whole token and not less than −`debt` is left; those that follow wait until
   * there is a whole token again. The largest cost is then `capacity` + `debt`.
   */
  readonly debt?: number
  /**
   * The kind of key that it counts by, as calls name it: see `RateLimiter`. `'global'` counts all calls
   * together. Default: the key of the call.
   */
  readonly per?: S
}

/**
 * A bucket of `capacity` tokens that refills; a call takes as many as it costs.
 *
 * **Law:** in any span of length t at most `capacity` + t · `tokens` / `every` units; with `refillMode:
 * 'interval'` at most `capacity` + `tokens` · (⌊t / `every`⌋ + 1). With a `debt`, `debt` units more, once.
 *
 * For callers that may save up and then burst.
 *
 * Changing `refillMode` is changing the algorithm: keys are as if never used then. All other numbers may
 * change, and what has been used counts on.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * tokenBucket({ capacity: 20, refill: { tokens: 5, every: '1s' } })
 * tokenBucket({ capacity: 100, refill: { tokens: 100, every: '1m' }, refillMode: 'interval' })
 */
export function tokenBucket<const S extends string = never, const M extends RefillMode = 'continuous'>(
  options: TokenBucketOptions<S, M>,
): TokenBucketPolicy<NoInfer<S>, NoInfer<M>> {
  checkCount(
    arguments.length,
    1,
    'tokenBucket takes an object of options',
    'write tokenBucket({ capacity, refill: { tokens, every } })',
  )
  const names = ['capacity', 'refill', 'refillMode', 'initial', 'debt', 'per'] as const
  const given = optionsOf('INVALID_POLICY', 'tokenBucket', options, names)
  const { capacity, refill, refillMode, initial, debt, per } = given
  const { tokens, every } = optionsOf('INVALID_POLICY', 'tokenBucket: refill', refill, ['tokens', 'every'])
  const holds = wholeNumber('INVALID_POLICY', 'tokenBucket: capacity', capacity)
  return Object.freeze({
    algorithm: 'tokenBucket',
    capacity: holds,
    refill: Object.freeze({
      tokens: wholeNumber('INVALID_POLICY', 'tokenBucket: refill.tokens', tokens),
      every: spanOf('INVALID_POLICY', 'tokenBucket: refill.every', every),
    }),
    refillMode: refillModeOf(refillMode) as M,
    initial: initial === undefined ? holds : wholeNumber('INVALID_POLICY', 'tokenBucket: initial', initial, 0, holds),
    debt: debt === undefined ? 0 : wholeNumber('INVALID_POLICY', 'tokenBucket: debt', debt, 0),
    ...perOf<S>('tokenBucket', per),
  })
}

function refillModeOf(value: unknown): RefillMode {
  if (value === undefined || value === 'continuous') {
    return 'continuous'
  }
  if (value === 'interval') {
    return value
  }
  throw invalid('INVALID_POLICY', 'tokenBucket: refillMode', 'must be "continuous" or "interval"', value)
}
