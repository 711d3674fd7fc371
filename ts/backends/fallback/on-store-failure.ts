import { invalid, optionsOf } from '../../input/options.js'

/**
 * The answer to a call when the store fails: it cannot be reached, does not answer in time, answers
 * with an error, or too many calls wait for it.
 *
 * - `'throw'`: the call rejects with the failure.
 * - `'allow'`: the call is allowed, and counted nowhere.
 * - `'refuse'`: the call is refused. Its `retryAfterMs` of 1000 is a time to try again.
 * - `{ embedded: { share } }`: the embedded store decides, with a share of the policies' numbers
 *   (above 0, at most 1). A share that leaves 0 of a limit, burst or capacity is `INVALID_OPTION`.
 *
 * **Law:** a window that overlaps an outage admits at most the units that the store's law admits, plus those that
 * the law of the share admits in each process. In N processes, shares of 1/N admit together no more than the
 * policies do.
 *
 * `ready`, and failures that are the caller's, such as `INVALID_KEY`, have no other answer. See
 * `docs/redis.md#when-redis-is-unreachable` for the share, and for each method.
 *
 * @example
 * // One of four processes.
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), {
 *   store: 'redis://localhost',
 *   prefix: 'api',
 *   onStoreFailure: { embedded: { share: 0.25 } },
 * })
 */
export type OnStoreFailure = 'throw' | 'allow' | 'refuse' | { readonly embedded: { readonly share: number } }

/** Checks {@link OnStoreFailure}. */
export function onStoreFailureOf(value: unknown): OnStoreFailure {
  if (value === undefined || value === 'throw' || value === 'allow' || value === 'refuse') {
    return value ?? 'throw'
  }
  if (typeof value !== 'object') {
    throw invalid(
      'INVALID_OPTION',
      'onStoreFailure',
      "must be 'throw', 'allow', 'refuse' or { embedded: { share } }",
      value,
    )
  }
  const { embedded } = optionsOf('INVALID_OPTION', 'onStoreFailure', value, ['embedded'])
  const { share } = optionsOf('INVALID_OPTION', 'onStoreFailure: embedded', embedded, ['share'])
  if (typeof share !== 'number' || !(share > 0 && share <= 1)) {
    throw invalid('INVALID_OPTION', 'onStoreFailure: embedded.share', 'must be a number above 0, at most 1', share)
  }
  return { embedded: { share } }
}
