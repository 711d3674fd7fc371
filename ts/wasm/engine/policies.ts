import * as glue from '../../../wasm/engine.js'
import type { Engine, EnginePolicy } from '../../backends/engine.js'
import { buildPolicySet, EncodedPolicy, EncodedPolicySet } from './builder.js'
import { isTimeZone, zoneOf } from './host.js'
import { scratch } from './start.js'

/** The policy kinds of `src/wasm/policy.rs`. */
const KINDS = {
  fixedWindow: 0,
  slidingCounter: 1,
  tokenBucket: 2,
  tokenBucketInterval: 3,
  leakyBucket: 4,
  gcra: 5,
  slidingWindow: 6,
  calendarWindow: 7,
  slidingLog: 8,
  slidingLogs: 9,
} as const

/** The named calendar windows, in the order of their numbers. */
const UNITS: readonly (string | number)[] = ['hour', 'day', 'week', 'month']

function encodedPolicy(kind: keyof typeof KINDS, numbers: readonly number[], timeZone = ''): EnginePolicy {
  const policy = new EncodedPolicy(KINDS[kind], numbers, timeZone)
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
