import * as glue from '../../../generated/wasm/engine.js'
import type { Engine } from '../../backends/engine.js'
import { buildPolicySet, EncodedPolicy, EncodedPolicySet } from './builder.js'
import { isTimeZone } from './host.js'
import { scratch } from './start.js'

/** See `native.d.ts`. */
export const Policy: Engine['Policy'] = {
  fromNumbers(kind, numbers, timeZone) {
    if (timeZone !== undefined && !isTimeZone(timeZone)) {
      throw new Error('timeZone must name an IANA time zone')
    }
    const policy = new EncodedPolicy(kind, numbers, timeZone)
    return scratch.made(glue.checkPolicy(policy.kind, policy.writeTo(scratch), policy.zone) ? policy : undefined)
  },
  isTimeZone,
}

/** See `native.d.ts`. */
export const PolicySet: Engine['PolicySet'] = {
  single: (policy) => new EncodedPolicySet(true, [policy], [''], [0]),
  multi(names, policies, dimensions) {
    const policySet = new EncodedPolicySet(false, policies, names, dimensions)
    buildPolicySet(glue, scratch, policySet)
    return scratch.made(glue.checkPolicySet() ? policySet : undefined)
  },
}
