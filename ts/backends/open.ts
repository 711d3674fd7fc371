import type { PolicySet } from '../policies/policy-set.js'
import { EmbeddedShare } from './fallback/embedded-share.js'
import { FallbackBackend } from './fallback/fallback-backend.js'
import { FixedResponses } from './fallback/fixed-responses.js'
import { onStoreFailureOf } from './fallback/on-store-failure.js'
import { shareOf } from './fallback/share.js'
import type { LimiterBackend, Store } from './limiter-backend.js'
import { leasedPolicySet } from './local/leased-policies.js'
import { LocalBackend } from './local/local-backend.js'
import { localOptionsOf } from './local/local-options.js'

/** The options of a limiter that choose its backends. The last two are unchecked. */
interface BackendOptions {
  readonly prefix: string | undefined
  readonly tag: string | undefined
  readonly onStoreFailure?: unknown
  readonly local?: unknown
}

/**
 * Opens a limiter's backends: see {@link LimiterBackend}. The embedded store needs only its own. The
 * options of the others are still checked, so that tests can replace Redis with it.
 *
 * @throws {TollgateError} As {@link Store.open}; `INVALID_OPTION`.
 */
export function openBackend(store: Store, written: PolicySet, options: BackendOptions): LimiterBackend {
  const { address, engine } = store
  const { prefix, tag } = options
  const local = localOptionsOf(options.local, written)
  const leased = local?.leaseMs === undefined ? written : leasedPolicySet(written, local.leaseMs)
  const policySet = address === undefined ? written : leased
  const failure = onStoreFailureOf(options.onStoreFailure)
  if (typeof failure === 'object') {
    shareOf(engine, policySet, failure.embedded.share)
  }
  let backend = store.open(prefix, policySet, tag)
  if (address === undefined) {
    return backend
  }
  if (failure !== 'throw') {
    try {
      const fallback =
        typeof failure === 'object'
          ? EmbeddedShare.open(engine, address, prefix as string, policySet, failure.embedded.share, backend.origin)
          : new FixedResponses(failure === 'allow', policySet, backend.origin)
      backend = new FallbackBackend(backend, fallback, engine)
    } catch (error) {
      void backend.close()
      throw error
    }
  }
  return local === undefined ? backend : new LocalBackend(backend, local, engine.elapsedMs, store.leases)
}
