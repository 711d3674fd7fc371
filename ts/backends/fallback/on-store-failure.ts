import { invalid, optionsOf } from '../../input/options.js'
import type { Compound } from '../../policies/policy-set.js'
import type { Ledger, Store } from '../limiter-backend.js'
import { EmbeddedShare } from './embedded-share.js'
import { GuardedLedger } from './fallback-backend.js'
import { FixedAnswers } from './fixed-responses.js'
import { shareOf } from './share.js'

/**
 * What becomes of a call when the store fails: it cannot be reached, does not answer in time or answers with an
 * error, or too many calls wait for it. While the store is known to be down it is not asked: the answer comes at once.
 *
 * - `'throw'`: the call rejects with the failure.
 * - `'allow'`: the call is allowed, and counted nowhere.
 * - `'refuse'`: it is refused, with a `retryAfterMs` of 1000: when to look again.
 * - `{ embedded: { share } }`: the embedded store decides, with a share of the policies' numbers (above 0, at most 1).
 *
 * `Decision.source` tells which: `'store'`; `'fallback'` for the embedded store; `'none'` for a decision that nobody
 * made, and that has no numbers.
 *
 * **Law:** a window that touches an outage admits at most what the store's law admits and, with an embedded share,
 * what the law of the share admits in each process. In N processes, shares of 1/N admit together no more than the
 * policies do. With `'allow'` there is no bound; with `'refuse'` nothing is added.
 *
 * **The embedded share.** Limits, capacities, bursts, `initial` and `debt` are multiplied and rounded down, exactly:
 * 0.07 of 100 is 7. So are the `refill.tokens` of a bucket that is refilled at intervals. Other rates are never
 * exceeded, and kept as nearly as whole units or whole microseconds can: with 0.25, a unit each 100 ms becomes one
 * each 400 ms. Windows, calendars, buckets, precision and modes stay. A share that leaves nothing of a number is
 * `INVALID_OPTION`, but for `initial` and `debt`.
 *
 * Its counts belong to the process: limiters of one prefix on one server share them, in all its threads, so that they
 * must have the same policies and the same share. They are kept between outages. The share knows nothing of what is in
 * the store: neither counts, nor blocks, nor overrides. A call whose fate in the store is unknown may be charged there,
 * too.
 *
 * **What is answered instead:** `take`, `takeMany` (each key by itself), `takeUpTo`, `peek`, `wait`, `reserve` and
 * `penalize`; the last is charged to the embedded share, and by `'allow'` and `'refuse'` to nobody. What was taken is
 * given back where it was taken: `refund`, `commit` and `cancel` reject with the store's failure if that was the store,
 * and of what nobody counted nothing comes back.
 *
 * **Changes of a key:** `block`, `unblock`, `reset`, `override` and `clearOverride` resolve with where the change was
 * made ({@link Applied}):
 *
 * - `'store'`: the store made it. An embedded share forgets what the store takes back by `unblock`, `reset` and
 *   `clearOverride`, too.
 * - `'fallback'`: the embedded share made it, for this process. The numbers of an override are shared as the policies are.
 *   The change is in force as long as the share decides: it ends with the outage. What then still lasts is in force
 *   again in the next one.
 * - `false`: nobody made it. So it is with `'allow'` and `'refuse'`; if nothing would be left of a share of an override's
 *   numbers; and if the share holds as many keys as it can.
 *
 * With `'throw'` they reject with the failure. A change that failed after it was sent (`STORE_TIMEOUT`) may have reached
 * the store all the same, or may reach it later.
 *
 * **What is not answered instead:** `ready` speaks of the store alone. Nor are failures that are the caller's, such as
 * `INVALID_KEY`, or `CLOSED`.
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

/** What a store needs to open a limiter's keys. */
interface Opening {
  readonly prefix: string | undefined
  readonly compound: Compound
  readonly tag: string | undefined
}

/**
 * Opens a limiter's keys on a store; where the store's failures are to be answered, behind a guard.
 *
 * @param given - The value of `onStoreFailure`.
 * @throws {TollgateError} As {@link Store.open}; `INVALID_OPTION`.
 */
export function openGuarded(store: Store, { prefix, compound, tag }: Opening, given: unknown): Ledger {
  const { address } = store
  const failure = onStoreFailureOf(given)
  const share = typeof failure === 'object' ? sharedBy(store, compound, failure.embedded.share) : undefined
  // The embedded store never fails. The option is still checked, so that tests can use it in place of Redis.
  if (failure === 'throw' || address === undefined || prefix === undefined) {
    return store.open(prefix, compound, tag)
  }
  const ledger = store.open(prefix, compound, tag)
  try {
    const fallback =
      share === undefined
        ? new FixedAnswers(failure === 'allow', compound, ledger.origin)
        : new EmbeddedShare(store.engine, address, prefix, share.compound, share.part, ledger.origin)
    return new GuardedLedger(ledger, fallback, store.engine)
  } catch (error) {
    void ledger.close()
    throw error
  }
}

function sharedBy({ engine }: Store, compound: Compound, part: number) {
  return { part, compound: shareOf(engine, compound, part) }
}

/** Takes a value as {@link OnStoreFailure}. */
function onStoreFailureOf(value: unknown): OnStoreFailure {
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
