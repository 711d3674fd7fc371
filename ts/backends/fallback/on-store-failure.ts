import { invalid, optionsOf } from '../../input/options.js'

/**
 * The answer to a call when the store fails: it cannot be reached, does not answer in time, answers
 * with an error, or too many calls wait for it. While the store is known to be down, the answer is
 * immediate.
 *
 * - `'throw'`: the call rejects with the failure.
 * - `'allow'`: the call is allowed, and counted nowhere.
 * - `'refuse'`: the call is refused. Its `retryAfterMs` of 1000 is a time to try again.
 * - `{ embedded: { share } }`: the embedded store decides, with a share of the policies' numbers
 *   (above 0, at most 1).
 *
 * `Decision.source` names the origin of a decision: `'store'`; `'fallback'` for the embedded store;
 * `'none'` for the fixed answers of `'allow'` and `'refuse'`, which have no counts.
 *
 * **Law:** a window that overlaps an outage admits at most the units that the store's law admits,
 * plus, with an embedded share, the units that the law of the share admits in each process. In N
 * processes, shares of 1/N admit together no more than the policies do. With `'allow'` there is no
 * bound; `'refuse'` adds nothing.
 *
 * **The embedded share.** Limits, capacities, bursts, `initial` and `debt` are multiplied and
 * rounded down, exactly: 0.07 of 100 is 7. So are the `refill.tokens` of a bucket with interval
 * refill. Other rates are never exceeded, and kept as closely as whole units or whole microseconds
 * allow: with 0.25, one unit each 100 ms becomes one unit each 400 ms. Windows, calendars, buckets,
 * precision and modes stay. A share that reduces a number to 0 is `INVALID_OPTION`, except for
 * `initial` and `debt`.
 *
 * A cost that the share could never admit, and the policies could, is refused as by `'refuse'`, with
 * `source: 'none'`: the store may admit it later. A cost that the policies could never admit is
 * `'impossible'`, as in the store.
 *
 * The counts of the share belong to the process. Limiters of one prefix on one server share them,
 * in all threads, so they must have the same policies and the same share. The counts are kept
 * between outages. The share has no access to the store's counts, blocks and overrides. A call with
 * an unknown outcome in the store may be charged there, too.
 *
 * **Calls with a fallback answer:** `take`, `takeMany` (each key separately), `takeUpTo`, `peek`,
 * `wait`, `reserve`, `acquire` and `penalize`. A permit of the embedded share is renewed and released
 * there. A penalty is charged to the embedded share; with `'allow'` and
 * `'refuse'` it is charged nowhere. Units are refunded where they were taken. For units that the
 * store took, `refund`, `commit` and `cancel` therefore reject with the store's failure. Units that
 * were counted nowhere refund nothing.
 *
 * **Changes of a key:** `block`, `unblock`, `reset`, `override` and `clearOverride` resolve with
 * the place of the change ({@link Applied}):
 *
 * - `'store'`: the store applied it. An `unblock`, `reset` or `clearOverride` in the store is
 *   applied to an embedded share, too.
 * - `'fallback'`: the embedded share applied it, for this process. The numbers of an override are
 *   shared as the policies are. The change applies while the share decides: it ends with the
 *   outage. If it has not expired by then, it applies again in the next outage.
 * - `false`: the change was not applied. The reasons are `'allow'` or `'refuse'`, a share that
 *   reduces a number of an override to 0, or a share that holds as many keys as it can.
 *
 * With `'throw'` they reject with the failure. A change that failed after it was sent
 * (`STORE_TIMEOUT`) may have reached the store, or may reach it later.
 *
 * **No fallback answer:** `ready`, which concerns the store alone, and failures that are the
 * caller's, such as `INVALID_KEY`, or `CLOSED`.
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
