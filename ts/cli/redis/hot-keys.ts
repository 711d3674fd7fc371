import { largestCostOf } from '../../policies/window.js'
import type { Connection } from './connect/connection.js'
import type { LimiterConfig } from './policies.js'
import { type KeyState, keyStateOf, layoutOf, limitOfOverride } from './state.js'

/** The bounds of a sample. */
export interface SampleBounds {
  readonly prefix: string
  /** The number of keys to return. */
  readonly most: number
  /** The maximum duration, in milliseconds. */
  readonly forMs: number
  /** The maximum number of the prefix's keys to read. */
  readonly sample: number
  /** The number of keys that a server examines for one page, approximately. */
  readonly count: number
}

/** A key with its share of the limit. */
export interface HotKey extends KeyState {
  /** The maximum number of units in use, if it is known. */
  readonly limit?: number
  /** The used share of the limit. */
  readonly share?: number
}

/** The result of a sample. */
export interface HotKeySample {
  readonly byShare: readonly HotKey[]
  readonly byUsed: readonly HotKey[]
  /** The number of the prefix's keys that were read. */
  readonly read: number
  /** The number of those keys that are in use. */
  readonly inUse: number
  readonly blocked: number
  readonly overridden: number
  /** Whether the share is known for all keys in use. */
  readonly hasShares: boolean
  /**
   * The scanned share of all keys of the servers, from 0 to 1; unknown if the servers do not report
   * their sizes.
   */
  readonly gone: number | undefined
  readonly isComplete: boolean
  readonly ms: number
}

/** Orders keys by their rank, the hottest first. */
export function hottestFirst(rank: (hot: HotKey) => number): (one: HotKey, other: HotKey) => number {
  return (one, other) => rank(other) - rank(one) || other.used - one.used || (one.key < other.key ? -1 : 1)
}

/** Keeps the keys with the highest rank, without keeping all. */
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

/**
 * Reads the keys of a prefix with SCAN, one page of each master in turn, until all are read or a
 * bound is reached. A partial scan is a fair sample: the order in which Redis stores keys does not
 * depend on their use.
 */
export async function hottest(
  { reader, masters }: Connection,
  config: LimiterConfig | undefined,
  { prefix, most, forMs, sample, count }: SampleBounds,
): Promise<HotKeySample> {
  const start = performance.now()
  const limits = limitsOf(config)
  const byShare = new TopKeys(most, ({ share = 0 }) => share)
  const byUsed = new TopKeys(most, ({ used }) => used)
  const totals = { read: 0, inUse: 0, blocked: 0, overridden: 0, hasShares: true }
  const cursors = masters.names.map((_, master) => ({ master, cursor: '0', pages: 0 }))
  let unfinished = cursors
  // Reads at least one page, however short the time: without one, it would seem that there are no
  // keys.
  do {
    for (const one of unfinished) {
      const read = await reader.page({ prefix, master: one.master, cursor: one.cursor, pattern: `${prefix}:*`, count })
      Object.assign(one, { cursor: read.cursor, pages: one.pages + 1 })
      for (const stored of read.found) {
        totals.read++
        const state = keyStateOf(stored, read.nowUs)
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
    }
    unfinished = unfinished.filter(({ cursor }) => cursor !== '0')
  } while (unfinished.length > 0 && totals.read < sample && performance.now() - start < forMs)
  const isComplete = unfinished.length === 0
  return {
    ...totals,
    byShare: byShare.all(),
    byUsed: byUsed.all(),
    gone: isComplete ? 1 : scannedShare(cursors, masters.sizes, count),
    isComplete,
    ms: Math.round(performance.now() - start),
  }
}

/** An estimate: a page examines about `count` keys. */
function scannedShare(
  cursors: readonly { readonly cursor: string; readonly pages: number }[],
  sizes: readonly number[],
  count: number,
): number | undefined {
  if (sizes.some((size) => size < 0)) {
    return undefined
  }
  const all = sizes.reduce((sum, size) => sum + size, 0)
  const gone = cursors.map(({ cursor, pages }, master) =>
    cursor === '0' && pages > 0 ? (sizes[master] as number) : Math.min(pages * count, sizes[master] as number),
  )
  return all === 0 ? 1 : gone.reduce((sum, keys) => sum + keys, 0) / all
}

function hotKeyOf(state: KeyState, limits: LimitLookup): HotKey {
  const own = state.override === undefined ? undefined : limitOfOverride(state.override)
  const limit = own ?? limits(state) ?? state.most
  return limit === undefined ? state : { ...state, limit, share: state.used / limit }
}

type LimitLookup = (state: KeyState) => number | undefined

/** The limits of the given policies, by the states that they write. */
function limitsOf(config: LimiterConfig | undefined): LimitLookup {
  const limits = new Map<string, number>()
  for (const { name, policy } of config?.policySet.policies ?? []) {
    limits.set(`${name}:${policy.algorithm}:${layoutOf(policy)}`, largestCostOf(policy))
  }
  return ({ policy, algorithm, layout }) => limits.get(`${policy}:${algorithm}:${layout}`)
}
