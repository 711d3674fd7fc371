import * as glue from '../../wasm/engine.js'
import type { Engine, EnginePolicies, EnginePolicy } from '../engine.js'
import { layNumbers, layText, reason } from './desk.js'
import { isTimeZone, zoneOf } from './host.js'

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

/** A policy as numbers: the engine has its own only in a limiter. */
class Numbers {
  constructor(
    readonly kind: number,
    readonly numbers: readonly number[],
    readonly timeZone: string,
  ) {}

  /** Lays it on the desk, and tells how many numbers it has. */
  lay(): number {
    layText(this.timeZone, 1)
    return layNumbers(this.numbers)
  }
}

function made(kind: keyof typeof KINDS, numbers: readonly number[], timeZone = ''): EnginePolicy {
  const policy = new Numbers(KINDS[kind], numbers, timeZone)
  if (!glue.checkPolicy(policy.kind, policy.lay())) {
    throw reason()
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

/** What a limiter enforces, until it is drafted. */
class Enforced {
  constructor(
    readonly isSingle: boolean,
    readonly policies: readonly EnginePolicy[],
    readonly names: readonly string[],
    readonly subjects: readonly number[],
  ) {}

  draft(): void {
    glue.startDraft()
    this.policies.forEach((policy, index) => {
      draftPolicy(policy, this.names[index] as string, this.subjects[index] as number)
    })
  }
}

function draftPolicy(policy: EnginePolicy, name: string, subject: number): void {
  const numbers = policy as Numbers
  layText(name, 0)
  glue.draftPolicy(numbers.kind, numbers.lay(), subject)
}

/** See `native.d.ts`. */
export const Policies: Engine['Policies'] = {
  one: (policy) => new Enforced(true, [policy], [''], [0]),
  several(names, policies, subjects) {
    const enforced = new Enforced(false, policies, names, subjects)
    enforced.draft()
    if (!glue.checkDraft()) {
      throw reason()
    }
    return enforced
  },
}

/** Drafts policies for a limiter that is to be opened next, and tells whether it is a single one without a name. */
export function draft(policies: EnginePolicies): boolean {
  const enforced = policies as Enforced
  enforced.draft()
  return enforced.isSingle
}

/** Drafts the numbers of a key's own. */
export function draftNumbers(policies: readonly (EnginePolicy | undefined)[]): void {
  glue.startDraft()
  for (const policy of policies) {
    const numbers = policy as Numbers | undefined
    // No policy has no numbers.
    glue.draftNumbers(numbers?.kind ?? 0, numbers?.lay() ?? 0)
  }
}
