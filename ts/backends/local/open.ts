import type { PolicySet } from '../../policies/policy-set.js'
import type { LimiterBackend, Store } from '../limiter-backend.js'
import { leasedPolicySet } from './leased-policies.js'
import { LocalBackend } from './local-backend.js'
import { localOptionsOf } from './local-options.js'

/** A limiter's backend, and the policies under which the store charges units. */
export interface OpenedBackend {
  readonly backend: LimiterBackend
  readonly policySet: PolicySet
}

/**
 * Opens a limiter's backend, with local decisions if the option `local` asks for them.
 *
 * @param local - The value of the option. The embedded store needs no local decisions. The option is
 * still checked, so that tests can replace Redis with it.
 * @param open - Opens the backend of the store.
 * @throws {TollgateError} `INVALID_OPTION`
 */
export function openLocalBackend(
  store: Store,
  policySet: PolicySet,
  local: unknown,
  open: (policySet: PolicySet) => LimiterBackend,
): OpenedBackend {
  const options = localOptionsOf(local, policySet)
  const leased = options?.leaseMs === undefined ? policySet : leasedPolicySet(policySet, options.leaseMs)
  if (options === undefined || store.address === undefined) {
    return { backend: open(policySet), policySet }
  }
  const backend = new LocalBackend(open(leased), leased, options, store.engine.elapsedMs, store.leases)
  return { backend, policySet: leased }
}
