import { type Duration, millisOf } from '../duration.js'
import { optionsOf, wholeNumber } from '../options.js'

/** The generic cell rate algorithm; made by {@link gcra}. Lengths of time are in milliseconds. */
export interface GcraPolicy {
  readonly algorithm: 'gcra'
  readonly limit: number
  readonly period: number
  readonly burst: number
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
