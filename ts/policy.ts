import { type Duration, millisOf } from './duration.js'
import { invalid, optionsOf, shown, wholeNumber } from './options.js'

/** A fixed window; made by {@link fixedWindow}. Lengths of time are in milliseconds. */
export interface FixedWindowPolicy {
  readonly algorithm: 'fixedWindow'
  readonly limit: number
  readonly window: number
}

/** A token bucket; made by {@link tokenBucket}. Lengths of time are in milliseconds. */
export interface TokenBucketPolicy {
  readonly algorithm: 'tokenBucket'
  readonly capacity: number
  readonly refill: { readonly tokens: number; readonly every: number }
}

/** The generic cell rate algorithm; made by {@link gcra}. Lengths of time are in milliseconds. */
export interface GcraPolicy {
  readonly algorithm: 'gcra'
  readonly limit: number
  readonly period: number
  readonly burst: number
}

/**
 * One limit: an algorithm with its numbers.
 *
 * It is plain data: it can be logged, sent to a worker or written to a file, and is checked again
 * wherever it is used.
 */
export type Policy = FixedWindowPolicy | TokenBucketPolicy | GcraPolicy

/** The options of {@link fixedWindow}. */
export interface FixedWindowOptions {
  /** Units per window: a whole number from 1 to 2^53 − 1. */
  readonly limit: number
  /** How long a window lasts, from the first call admitted in it; up to 142 years. */
  readonly window: Duration
}

/** The options of {@link tokenBucket}. */
export interface TokenBucketOptions {
  /** Tokens that the bucket holds, and has at first: a whole number from 1 to 2^53 − 1. */
  readonly capacity: number
  /** The bucket gains `tokens` evenly over each `every`. */
  readonly refill: { readonly tokens: number; readonly every: Duration }
}

/** The options of {@link gcra}. */
export interface GcraOptions {
  /** Units per period, evenly spread: a whole number from 1 to 2^53 − 1. */
  readonly limit: number
  /** The length of time that `limit` speaks of. */
  readonly period: Duration
  /** Units that an unused key has at once. Default: `limit`. */
  readonly burst?: number
}

/**
 * At most `limit` units per window; the first call admitted after a window's end opens the next.
 *
 * **Law:** `limit` per window, and at most 2 · `limit` − 1 in any rolling span of that length. A
 * window ends on a whole millisecond, up to 1 ms later than asked.
 *
 * For quotas that people understand ("100 per hour"). Where the burst at a window's edge matters,
 * take {@link gcra}.
 *
 * @throws {TollgateError} `INVALID_POLICY`
 *
 * @example
 * fixedWindow({ limit: 100, window: '1h' })
 */
export function fixedWindow(options: FixedWindowOptions): FixedWindowPolicy {
  const { limit, window } = optionsOf('INVALID_POLICY', 'fixedWindow', options, ['limit', 'window'])
  return Object.freeze({
    algorithm: 'fixedWindow',
    limit: wholeNumber('INVALID_POLICY', 'fixedWindow: limit', limit),
    window: millisOf('INVALID_POLICY', 'fixedWindow: window', window),
  })
}

/**
 * A bucket of `capacity` tokens that refills continuously; a call takes as many as it costs.
 *
 * **Law:** at most `capacity` + t · `tokens` / `every` units in any span of length t.
 *
 * For callers that may save up and then burst.
 *
 * @throws {TollgateError} `INVALID_POLICY`
 *
 * @example
 * tokenBucket({ capacity: 20, refill: { tokens: 5, every: '1s' } })
 */
export function tokenBucket(options: TokenBucketOptions): TokenBucketPolicy {
  const { capacity, refill } = optionsOf('INVALID_POLICY', 'tokenBucket', options, ['capacity', 'refill'])
  const { tokens, every } = optionsOf('INVALID_POLICY', 'tokenBucket: refill', refill, ['tokens', 'every'])
  return Object.freeze({
    algorithm: 'tokenBucket',
    capacity: wholeNumber('INVALID_POLICY', 'tokenBucket: capacity', capacity),
    refill: Object.freeze({
      tokens: wholeNumber('INVALID_POLICY', 'tokenBucket: refill.tokens', tokens),
      every: millisOf('INVALID_POLICY', 'tokenBucket: refill.every', every),
    }),
  })
}

/**
 * The generic cell rate algorithm: `limit` units per `period`, evenly spread, and `burst` at once.
 *
 * **Law:** at most `burst` + t · `limit` / `period` units in any span of length t.
 *
 * The one to take when in doubt: exact, smooth, and the least to remember per key.
 *
 * @throws {TollgateError} `INVALID_POLICY`
 *
 * @example
 * gcra({ limit: 100, period: '1m', burst: 20 })
 */
export function gcra(options: GcraOptions): GcraPolicy {
  const { limit, period, burst } = optionsOf('INVALID_POLICY', 'gcra', options, ['limit', 'period', 'burst'])
  const units = wholeNumber('INVALID_POLICY', 'gcra: limit', limit)
  return Object.freeze({
    algorithm: 'gcra',
    limit: units,
    period: millisOf('INVALID_POLICY', 'gcra: period', period),
    burst: burst === undefined ? units : wholeNumber('INVALID_POLICY', 'gcra: burst', burst),
  })
}

const MAKERS = { fixedWindow, tokenBucket, gcra }

/** Takes a value as a policy: a policy is what its function makes of its own numbers. */
export function policyOf(value: unknown): Policy {
  if (typeof value === 'object' && value !== null && 'algorithm' in value) {
    const { algorithm, ...options } = value
    if (typeof algorithm === 'string' && Object.hasOwn(MAKERS, algorithm)) {
      const make: (options: never) => Policy = MAKERS[algorithm as keyof typeof MAKERS]
      return make(options as never)
    }
    throw invalid(
      'INVALID_POLICY',
      'algorithm',
      `must be one of ${Object.keys(MAKERS).map(shown).join(', ')}`,
      algorithm,
    )
  }
  throw invalid('INVALID_POLICY', 'policy', `must be made by ${Object.keys(MAKERS).join('(), ')}()`, value)
}
