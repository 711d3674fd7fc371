import type * as native from '../../../native.js'
import type { Policy } from '../../policies/policy.js'
import { type OverrideNumbers, overrideNumbers } from './override-numbers.js'

/** The state of a key, as `--format json` prints it. Times are in milliseconds. */
export interface KeyState {
  /** The policy's name. */
  readonly policy: string
  readonly algorithm: Policy['algorithm']
  /** The layout of the state, for algorithms with several layouts. */
  readonly layout?: 'interval' | 'list' | 'hash'
  readonly key: string
  /** The call's own hash tag. */
  readonly tag?: string
  /** Whether a limiter wrote it. */
  readonly isReadable: boolean
  /** The charged units. For logs it includes entries that may have expired. */
  readonly used: number
  readonly isUsedExact: boolean
  /** The maximum of charged units, if the state contains it. */
  readonly most?: number
  /** The rate of draining or refilling, if the state contains it. */
  readonly rate?: { readonly units: number; readonly periodMs: number }
  readonly windowMs?: number
  /** The time until the open window ends. */
  readonly windowEndsInMs?: number
  /** The time until the key is fresh. */
  readonly resetInMs?: number
  readonly entries?: number
  readonly oldestAgoMs?: number
  readonly newestAgoMs?: number
  /** The time until the last scheduled reservation. Later calls wait behind it. */
  readonly bookedForMs?: number
  readonly blockedForMs?: number
  readonly override?: OverrideNumbers & { readonly forMs: number }
}

/** The tags of algorithms and layouts in key names. */
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

/** Decodes a stored key, at the server's time. */
export function keyStateOf(stored: native.NativeStoredKey, nowUs: number): KeyState {
  const [algorithm, layout] = TAGS[stored.tag] as (typeof TAGS)[string]
  const { used, most, units, perUs, windowUs, entries, ownTag } = stored
  const until = (name: string, us: number | undefined) =>
    us === undefined || us <= nowUs ? {} : { [name]: Math.ceil((us - nowUs) / 1_000) }
  const ago = (name: string, us: number | undefined) =>
    us === undefined ? {} : { [name]: Math.max(0, Math.floor((nowUs - us) / 1_000)) }
  const own = stored.overrideUntilUs > nowUs ? overrideNumbers(stored.tag, stored.overrideNumbers) : undefined
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
    ...until('resetInMs', stored.resetAtUs),
    ...(entries === undefined ? {} : { entries }),
    ...ago('oldestAgoMs', stored.oldestAtUs),
    ...ago('newestAgoMs', stored.newestAtUs),
    ...until('bookedForMs', stored.scheduledUntilUs),
    ...until('blockedForMs', stored.blockedUntilUs),
    ...(own === undefined ? {} : { override: { ...own, forMs: Math.ceil((stored.overrideUntilUs - nowUs) / 1_000) } }),
  }
}

/** Whether a key has any state that matters. Otherwise it is fresh. */
export function hasState({ isReadable, used, resetInMs, blockedForMs, override }: KeyState): boolean {
  return !isReadable || used > 0 || resetInMs !== undefined || blockedForMs !== undefined || override !== undefined
}
