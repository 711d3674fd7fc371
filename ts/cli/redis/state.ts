import type * as native from '../../../native.js'
import type { Policy } from '../../policies/policy.js'
import { type OwnNumbers, ownNumbers } from './override-numbers.js'

/** What is known of a key without its policy, as `--format json` shows it. Times are in milliseconds. */
export interface KeyState {
  /** The policy's name. */
  readonly policy: string
  readonly algorithm: Policy['algorithm']
  /** How the state lies, where there are several ways. */
  readonly layout?: 'interval' | 'list' | 'hash'
  readonly key: string
  /** The call's own hash tag. */
  readonly tag?: string
  /** Whether it is what limiters write. */
  readonly isReadable: boolean
  /** The units on the books. Under logs all that is kept: what has expired may still be among them. */
  readonly used: number
  readonly isUsedExact: boolean
  /** The most units that may be on the books, where the state tells. */
  readonly most?: number
  /** What drains or is refilled, where the state tells. */
  readonly rate?: { readonly units: number; readonly periodMs: number }
  readonly windowMs?: number
  /** When the window ends that is open. */
  readonly windowEndsInMs?: number
  /** When the key is as if never used. */
  readonly resetInMs?: number
  readonly entries?: number
  readonly oldestAgoMs?: number
  readonly newestAgoMs?: number
  /** How long those wait who have a slot: nobody overtakes them. */
  readonly bookedForMs?: number
  readonly blockedForMs?: number
  readonly override?: OwnNumbers & { readonly forMs: number }
}

/** The tags of algorithms and layouts in keys' names. */
const TAGS: { readonly [tag: string]: readonly [Policy['algorithm'], NonNullable<KeyState['layout']>?] } = {
  gcra: ['gcra'],
  tb: ['tokenBucket'],
  tbi: ['tokenBucket', 'interval'],
  lb: ['leakyBucket'],
  fw: ['fixedWindow'],
  cw: ['calendarWindow'],
  sc: ['slidingCounter'],
  swl: ['slidingWindow', 'list'],
  swh: ['slidingWindow', 'hash'],
  sl: ['slidingLog'],
  sls: ['slidingLogs'],
}

/** The layout of a policy's states. */
export function layoutOf(policy: Policy): KeyState['layout'] {
  if (policy.algorithm === 'slidingWindow') {
    return policy.layout
  }
  return policy.algorithm === 'tokenBucket' && policy.refillMode === 'interval' ? 'interval' : undefined
}

/** What was read of a key, at the server's time. */
export function keyStateOf(stored: native.RedisStored, nowUs: number): KeyState {
  const [algorithm, layout] = TAGS[stored.tag] as (typeof TAGS)[string]
  const { used, most, units, perUs, windowUs, entries, ownTag } = stored
  const until = (name: string, us: number | undefined) =>
    us === undefined || us <= nowUs ? {} : { [name]: Math.ceil((us - nowUs) / 1_000) }
  const ago = (name: string, us: number | undefined) =>
    us === undefined ? {} : { [name]: Math.max(0, Math.floor((nowUs - us) / 1_000)) }
  const own = stored.ownUntilUs > nowUs ? ownNumbers(stored.tag, stored.ownNumbers) : undefined
  return {
    policy: stored.policy,
    algorithm,
    ...(layout === undefined ? {} : { layout }),
    key: stored.key,
    ...(ownTag === undefined ? {} : { tag: ownTag }),
    isReadable: stored.isReadable,
    used,
    isUsedExact: !['sl', 'sls'].includes(stored.tag),
    ...(most === undefined ? {} : { most }),
    ...(units === undefined || perUs === undefined ? {} : { rate: { units, periodMs: perUs / 1_000 } }),
    ...(windowUs === undefined ? {} : { windowMs: windowUs / 1_000 }),
    ...until('windowEndsInMs', stored.endsAtUs),
    ...until('resetInMs', stored.settlesAtUs),
    ...(entries === undefined ? {} : { entries }),
    ...ago('oldestAgoMs', stored.oldestAtUs),
    ...ago('newestAgoMs', stored.newestAtUs),
    ...until('bookedForMs', stored.bookedUntilUs),
    ...until('blockedForMs', stored.blockedUntilUs),
    ...(own === undefined ? {} : { override: { ...own, forMs: Math.ceil((stored.ownUntilUs - nowUs) / 1_000) } }),
  }
}

/** Whether anything is kept of a key that makes a difference: otherwise it is as if never used. */
export function counts({ isReadable, used, resetInMs, blockedForMs, override }: KeyState): boolean {
  return !isReadable || used > 0 || resetInMs !== undefined || blockedForMs !== undefined || override !== undefined
}
