import type { PolicySet } from '../../policies/policy-set.js'
import type { LimiterBackend, Store } from '../limiter-backend.js'
import { leasedPolicySet } from './leased-policies.js'
import { LocalBackend } from './local-backend.js'
import { localOptionsOf } from './local-options.js'

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
): LimiterBackend {
  const options = localOptionsOf(local, policySet)
  const leased = options?.leaseMs === undefined ? policySet : leasedPolicySet(policySet, options.leaseMs)
  return options === undefined || store.address === undefined
    ? open(policySet)
    : new LocalBackend(open(leased), options, store.engine.elapsedMs, store.leases)
}
