import type { PolicySet } from '../../policies/policy-set.js'
import type { LimiterBackend, Store } from '../limiter-backend.js'
import { LocalBackend } from './local-backend.js'
import { localOptionsOf } from './local-options.js'

/**
 * Opens a limiter's backend, with local decisions if the option `local` asks for them.
 *
 * @param local - The value of the option. The embedded store needs no local decisions. The option is
 * still checked, so that tests can replace Redis with it.
 * @throws {TollgateError} `INVALID_OPTION`
 */
export function openLocalBackend(
  store: Store,
  policySet: PolicySet,
  local: unknown,
  open: () => LimiterBackend,
): LimiterBackend {
  const options = localOptionsOf(local, policySet)
  return options === undefined || store.address === undefined
    ? open()
    : new LocalBackend(open(), policySet, options, store.engine.elapsedMs)
}
