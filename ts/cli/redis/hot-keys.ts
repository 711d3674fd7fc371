import { largestCostOf } from '../../policies/window.js'
import type { Connection } from './connect/connection.js'
import { type LimiterConfig, policySetOfTier } from './policies.js'
import { type SampleBounds, type ScanExtent, scan } from './scan.js'
import { type KeyState, keyStateOf, layoutOf, limitOfOverride } from './state.js'

/** The bounds of a sample, and the number of keys to return. */
export interface HotKeysQuery extends SampleBounds {
  /** The tier whose limits are meant, if the limiter has tiers. */
  readonly tier?: string
  readonly most: number
}

/** A key in use. */
export interface HotKey extends KeyState {
  /** The used share of the limit, if the limit is known. */
  readonly share?: number
}

export interface HotKeySample extends ScanExtent {
  readonly byShare: readonly HotKey[]
  readonly byUsed: readonly HotKey[]
  readonly read: number
  readonly inUse: number
  readonly blocked: number
  readonly overridden: number
  /** Whether the share is known for all keys in use. */
  readonly hasShares: boolean
}

export function hottestFirst(rank: (hot: HotKey) => number): (one: HotKey, other: HotKey) => number {
  return (one, other) => rank(other) - rank(one) || other.used - one.used || (one.key < other.key ? -1 : 1)
}

/** The keys with the highest rank. It does not keep all keys. */
class TopKeys {
  #kept: HotKey[] = []

  constructor(
    private readonly most: number,
    private readonly rank: (hot: HotKey) => number,
  ) {}

  add(hot: HotKey): void {
    this.#kept.push(hot)
    if (this.#kept.length >= 4 * this.most + 1_000) {
      this.#kept = this.all()
    }
  }

  all(): HotKey[] {
    const sorted = this.#kept.sort(hottestFirst(this.rank))
    // SCAN may return a key twice while a server's table grows.
    const names = new Set<string>()
    const once = sorted.filter((hot) => {
      const name = JSON.stringify([hot.policy, hot.algorithm, hot.layout, hot.tag, hot.key])
      return !names.has(name) && names.add(name)
    })
    return once.slice(0, this.most)
  }
}

/** Finds the hottest keys of a prefix. Redis does not order keys by use, so a partial scan is a fair sample. */
export async function hottest(
  connection: Connection,
  config: LimiterConfig | undefined,
  { prefix, tier, most, forMs, sample, count }: HotKeysQuery,
): Promise<HotKeySample> {
  const limits = limitsOf(config, tier)
  const byShare = new TopKeys(most, ({ share = 0 }) => share)
  const byUsed = new TopKeys(most, ({ used }) => used)
  const totals = { read: 0, inUse: 0, blocked: 0, overridden: 0, hasShares: true }
  const extent = await scan(connection, { prefix, pattern: `${prefix}:*`, forMs, count }, (page) => {
    for (const stored of page.found) {
      totals.read++
      const state = keyStateOf(stored, page.nowUs)
      totals.blocked += state.blockedForMs === undefined ? 0 : 1
      totals.overridden += state.override === undefined ? 0 : 1
      if (state.used > 0) {
        totals.inUse++
        const hot = hotKeyOf(state, limits)
        totals.hasShares &&= hot.share !== undefined
        byShare.add(hot)
        byUsed.add(hot)
      }
    }
    return totals.read >= sample
  })
  return { ...totals, ...extent, byShare: byShare.all(), byUsed: byUsed.all() }
}

function hotKeyOf(state: KeyState, limits: LimitLookup): HotKey {
  const own = state.override === undefined ? undefined : limitOfOverride(state.override)
  const limit = own ?? limits(state) ?? state.limit
  return limit === undefined ? state : { ...state, limit, share: state.used / limit }
}

type LimitLookup = (state: KeyState) => number | undefined

/** The limits of policies, by the states that they write. States that contain the numbers of their tier keep these. */
function limitsOf(config: LimiterConfig | undefined, tier: string | undefined): LimitLookup {
  const limits = new Map<string, number>()
  const policySet = config === undefined ? undefined : policySetOfTier(config, tier)
  for (const { name, policy } of policySet?.policies ?? []) {
    limits.set(`${name}:${policy.algorithm}:${layoutOf(policy)}`, largestCostOf(policy))
  }
  return ({ policy, algorithm, layout, limit }) =>
    tier === undefined || limit === undefined ? limits.get(`${policy}:${algorithm}:${layout}`) : limit
}
