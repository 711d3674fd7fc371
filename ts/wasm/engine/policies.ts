import * as glue from '../../../wasm/engine.js'
import type { Engine, EnginePolicy } from '../../backends/engine.js'
import { POLICY_KINDS } from '../../backends/protocol.js'
import { buildPolicySet, EncodedPolicy, EncodedPolicySet } from './builder.js'
import { isTimeZone, zoneOf } from './host.js'
import { scratch } from './start.js'

/** The named calendar windows, in the order of their numbers. */
const UNITS: readonly (string | number)[] = ['hour', 'day', 'week', 'month']

function encodedPolicy(kind: keyof typeof POLICY_KINDS, numbers: readonly number[], timeZone = ''): EnginePolicy {
  const policy = new EncodedPolicy(POLICY_KINDS[kind], numbers, timeZone)
  if (!glue.checkPolicy(policy.kind, policy.writeTo(scratch))) {
    throw scratch.engineError()
  }
  return policy
}

/** See `native.d.ts`. */
export const Policy: Engine['Policy'] = {
  fixedWindow: (limit, windowUs, countRefused) => encodedPolicy('fixedWindow', [limit, windowUs, Number(countRefused)]),
  slidingCounter: (...numbers) => encodedPolicy('slidingCounter', numbers),
  tokenBucket: (...numbers) => encodedPolicy('tokenBucket', numbers),
  tokenBucketInterval: (...numbers) => encodedPolicy('tokenBucketInterval', numbers),
  leakyBucket: (...numbers) => encodedPolicy('leakyBucket', numbers),
  gcra: (...numbers) => encodedPolicy('gcra', numbers),
  slidingWindow: (limit, windowUs, buckets, hash) =>
    encodedPolicy('slidingWindow', [limit, windowUs, buckets, Number(hash)]),
  calendarWindow(limit, every, timeZone) {
    if (!isTimeZone(timeZone)) {
      throw new Error('timeZone must name an IANA time zone')
    }
    const window = UNITS.indexOf(every)
    return encodedPolicy('calendarWindow', [limit, window < 0 ? Number(every) : window, zoneOf(timeZone)], timeZone)
  },
  isTimeZone,
  slidingLog: (limit, windowUs, countRefused) => encodedPolicy('slidingLog', [limit, windowUs, Number(countRefused)]),
  slidingLogs: (limits, windowsUs, precisionUs) =>
    encodedPolicy('slidingLogs', [precisionUs ?? -1, ...limits, ...windowsUs]),
}

/** See `native.d.ts`. */
export const PolicySet: Engine['PolicySet'] = {
  single: (policy) => new EncodedPolicySet(true, [policy], [''], [0]),
  multi(names, policies, dimensions) {
    const policySet = new EncodedPolicySet(false, policies, names, dimensions)
    buildPolicySet(glue, scratch, policySet)
    if (!glue.checkPolicySet()) {
      throw scratch.engineError()
    }
    return policySet
  },
}
