import type * as native from '../../../generated/native.js'
import { POLICY_KINDS } from '../../backends/protocol.js'
import type { OverrideNumbers } from '../../policies/definition.js'
import { ALGORITHMS, algorithmOf, type Policy } from '../../policies/policy.js'

export interface KeyOverride {
  readonly numbers: OverrideNumbers
  readonly forMs: number
}

/** The maximum units of a call under an override, if it is one number. */
export function limitOfOverride({ numbers }: KeyOverride): number | undefined {
  const { burst, capacity, debt = 0, limit } = numbers
  if (typeof burst === 'number') {
    return burst
  }
  return typeof capacity === 'number' ? capacity + (debt as number) : (limit as number | undefined)
}

/** The state of a key, as `--format json` prints it. Times are in milliseconds. */
export interface KeyState {
  readonly policy: string
  readonly algorithm: Policy['algorithm']
  /** The layout of the state, for algorithms with several layouts. */
  readonly layout?: 'interval' | 'list' | 'hash' | 'limits'
  readonly key: string
  /** The key dimension that the policy counts by, if it is known. */
  readonly dimension?: string
  /** The tier whose numbers the state has, if the limiter has tiers and only one of them fits. */
  readonly tier?: string
  readonly tag?: string
  /** Present if its hash tag is one of the store's shared tags. */
  readonly sharesTag?: true
  /** Whether a limiter wrote it. */
  readonly isReadable: boolean
  /** The charged units. For logs it includes entries that may have expired. */
  readonly used: number
  readonly isUsedExact: boolean
  /** The maximum of charged units, if the state contains it. */
  readonly limit?: number
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
  readonly override?: KeyOverride
  /** The units that it owes. Idle time pays them until then, and calls pay them earlier. */
  readonly owed?: { readonly units: number; readonly paidInMs: number }
  /** The strikes in a window that has not ended. */
  readonly strikes?: { readonly count: number; readonly windowEndsInMs: number }
  /** The latest ban, until it no longer counts. */
  readonly ban?: {
    /** The number of its length. */
    readonly step: number
    readonly isInForce: boolean
    readonly forgottenInMs: number
  }
}

type PolicyKindNumbers = { readonly algorithm: Policy['algorithm']; readonly layout?: KeyState['layout'] }

/** The kinds of policies by their tag in the names of keys. */
const KINDS = new Map<string, PolicyKindNumbers>(Object.values(POLICY_KINDS).map((kind) => [kind.tag, kind]))

export function kindOf(tag: string): Pick<KeyState, 'algorithm' | 'layout'> {
  const { algorithm, layout } = KINDS.get(tag) as PolicyKindNumbers
  return layout === undefined ? { algorithm } : { algorithm, layout }
}

export function layoutOf(policy: Policy): KeyState['layout'] {
  const [kind] = algorithmOf(policy).encode(policy)
  return (POLICY_KINDS[kind] as PolicyKindNumbers).layout
}

/** Decodes a stored key, at the server's time. */
export function keyStateOf(stored: native.NativeStoredKey, nowUs: number): KeyState {
  const { algorithm, layout } = kindOf(stored.tag)
  const { used, limit, units, perUs, windowUs, entries, ownTag, sharesTag } = stored
  const until = (name: string, us: number | undefined) =>
    us === undefined || us <= nowUs ? {} : { [name]: Math.ceil((us - nowUs) / 1_000) }
  const ago = (name: string, us: number | undefined) =>
    us === undefined ? {} : { [name]: Math.max(0, Math.floor((nowUs - us) / 1_000)) }
  const isOverridden = stored.overrideUntilUs > nowUs
  const numbers = isOverridden ? ALGORITHMS[algorithm].decodeOverride(stored.overrideNumbers) : undefined
  return {
    policy: stored.policy,
    algorithm,
    ...(layout === undefined ? {} : { layout }),
    key: stored.key,
    ...(ownTag === undefined ? {} : { tag: ownTag }),
    ...(sharesTag ? { sharesTag } : {}),
    isReadable: stored.isReadable,
    used,
    isUsedExact: !['sl', 'sls'].includes(stored.tag),
    ...(limit === undefined ? {} : { limit }),
    ...(units === undefined || perUs === undefined ? {} : { rate: { units, periodMs: perUs / 1_000 } }),
    ...(windowUs === undefined ? {} : { windowMs: windowUs / 1_000 }),
    ...until('windowEndsInMs', stored.endsAtUs),
    ...until('resetInMs', stored.resetAtUs),
    ...(entries === undefined ? {} : { entries }),
    ...ago('oldestAgoMs', stored.oldestAtUs),
    ...ago('newestAgoMs', stored.newestAtUs),
    ...until('bookedForMs', stored.scheduledUntilUs),
    ...until('blockedForMs', stored.blockedUntilUs),
    ...(numbers === undefined
      ? {}
      : { override: { numbers, forMs: Math.ceil((stored.overrideUntilUs - nowUs) / 1_000) } }),
    ...(stored.owedUntilUs > nowUs
      ? { owed: { units: stored.owed, paidInMs: Math.ceil((stored.owedUntilUs - nowUs) / 1_000) } }
      : {}),
    ...bansOf(stored, nowUs),
  }
}

function bansOf(stored: native.NativeStoredKey, nowUs: number): Pick<KeyState, 'strikes' | 'ban'> {
  const { strikes, strikesEndAtUs, banStep, bannedUntilUs, banForgottenAtUs, blockedUntilUs } = stored
  const untilMs = (us: number) => Math.ceil((us - nowUs) / 1_000)
  const isInForce = blockedUntilUs > nowUs && blockedUntilUs === bannedUntilUs
  return {
    ...(strikesEndAtUs > nowUs ? { strikes: { count: strikes, windowEndsInMs: untilMs(strikesEndAtUs) } } : {}),
    ...(banStep > 0 && (isInForce || banForgottenAtUs > nowUs)
      ? { ban: { step: banStep, isInForce, forgottenInMs: untilMs(banForgottenAtUs) } }
      : {}),
  }
}

/** Whether a key has any state that matters. Otherwise it is fresh. */
export function hasState({
  isReadable,
  used,
  resetInMs,
  blockedForMs,
  override,
  owed,
  strikes,
  ban,
}: KeyState): boolean {
  const metadata = [blockedForMs, override, owed, strikes, ban]
  return !isReadable || used > 0 || resetInMs !== undefined || metadata.some((one) => one !== undefined)
}
