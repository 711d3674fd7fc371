import * as glue from '../../../wasm/engine.js'
import type { Engine, EnginePolicy } from '../../backends/engine.js'
import { draft, Enforced, Numbers } from './builder.js'
import { isTimeZone, zoneOf } from './host.js'
import { desk } from './start.js'

/** The kinds of policies in `src/wasm/policy.rs`. */
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

/** The windows of a calendar that have a name, in the order of their numbers. */
const UNITS: readonly (string | number)[] = ['hour', 'day', 'week', 'month']

function made(kind: keyof typeof KINDS, numbers: readonly number[], timeZone = ''): EnginePolicy {
  const policy = new Numbers(KINDS[kind], numbers, timeZone)
  if (!glue.checkPolicy(policy.kind, policy.lay(desk))) {
    throw desk.reason()
  }
  return policy
}

/** See `native.d.ts`. */
export const Policy: Engine['Policy'] = {
  fixedWindow: (limit, windowUs, countRefused) => made('fixedWindow', [limit, windowUs, Number(countRefused)]),
  slidingCounter: (...numbers) => made('slidingCounter', numbers),
  tokenBucket: (...numbers) => made('tokenBucket', numbers),
  tokenBucketInterval: (...numbers) => made('tokenBucketInterval', numbers),
  leakyBucket: (...numbers) => made('leakyBucket', numbers),
  gcra: (...numbers) => made('gcra', numbers),
  slidingWindow: (limit, windowUs, buckets, hash) => made('slidingWindow', [limit, windowUs, buckets, Number(hash)]),
  calendarWindow(limit, every, timeZone) {
    if (!isTimeZone(timeZone)) {
      throw new Error('timeZone must name an IANA time zone')
    }
    const window = UNITS.indexOf(every)
    return made('calendarWindow', [limit, window < 0 ? Number(every) : window, zoneOf(timeZone)], timeZone)
  },
  isTimeZone,
  slidingLog: (limit, windowUs, countRefused) => made('slidingLog', [limit, windowUs, Number(countRefused)]),
  slidingLogs: (limits, windowsUs, precisionUs) => made('slidingLogs', [precisionUs ?? -1, ...limits, ...windowsUs]),
}

/** See `native.d.ts`. */
export const Policies: Engine['Policies'] = {
  one: (policy) => new Enforced(true, [policy], [''], [0]),
  several(names, policies, subjects) {
    const enforced = new Enforced(false, policies, names, subjects)
    draft(glue, desk, enforced)
    if (!glue.checkDraft()) {
      throw desk.reason()
    }
    return enforced
  },
}
