import type { Connection } from './connect/connection.js'
import { limitOf } from './override-numbers.js'
import type { Enforced } from './policies.js'
import { type KeyState, keyStateOf, layoutOf } from './state.js'

/** How long and how far keys are gone through. */
export interface Bounds {
  readonly prefix: string
  /** How many of the hottest are wanted. */
  readonly most: number
  /** For how many milliseconds. */
  readonly forMs: number
  /** How many keys of the prefix are read at most. */
  readonly sample: number
  /** About how many keys a server looks at for one page. */
  readonly count: number
}

/** A key, and how hot it is. */
export interface Hot extends KeyState {
  /** The largest number of units that may be used, where it is known. */
  readonly limit?: number
  /** The used share of it. */
  readonly share?: number
}

/** What was found. */
export interface Sample {
  readonly byShare: readonly Hot[]
  readonly byUsed: readonly Hot[]
  /** How many keys of the prefix were read. */
  readonly read: number
  /** How many of them count. */
  readonly inUse: number
  readonly blocked: number
  readonly overridden: number
  /** Whether a share is known of all that count. */
  readonly hasShares: boolean
  /** The share of all keys of the servers that was gone through, from 0 to 1; unknown if they do not tell. */
  readonly gone: number | undefined
  readonly isComplete: boolean
  readonly ms: number
}

/** The order of the hottest. */
export function byHeat(rank: (hot: Hot) => number): (one: Hot, other: Hot) => number {
  return (one, other) => rank(other) - rank(one) || other.used - one.used || (one.key < other.key ? -1 : 1)
}

/** Keeps the best of what it is given, without keeping all. */
class Best {
  #kept: Hot[] = []

  constructor(
    private readonly most: number,
    private readonly rank: (hot: Hot) => number,
  ) {}

  add(hot: Hot): void {
    this.#kept.push(hot)
    if (this.#kept.length >= 4 * this.most + 1_000) {
      this.#kept = this.all()
    }
  }

  all(): Hot[] {
    const sorted = this.#kept.sort(byHeat(this.rank))
    // A key may be met twice while a server's table grows.
    const names = new Set<string>()
    const once = sorted.filter((hot) => {
      const name = JSON.stringify([hot.policy, hot.algorithm, hot.layout, hot.tag, hot.key])
      return !names.has(name) && names.add(name)
    })
    return once.slice(0, this.most)
  }
}

/**
 * Goes through the keys of a prefix by SCAN, a page of each master in turn, until all are read or a bound is met. What
 * ends early is a sample: Redis keeps keys in an order of its own, which has nothing to do with how they are used.
 */
export async function hottest(
  { reader, masters }: Connection,
  enforced: Enforced | undefined,
  { prefix, most, forMs, sample, count }: Bounds,
): Promise<Sample> {
  const start = performance.now()
  const limits = limitsOf(enforced)
  const byShare = new Best(most, ({ share = 0 }) => share)
  const byUsed = new Best(most, ({ used }) => used)
  const told = { read: 0, inUse: 0, blocked: 0, overridden: 0, hasShares: true }
  const cursors = masters.names.map((_, master) => ({ master, cursor: '0', pages: 0 }))
  let open = cursors
  // At least one page, however short the time: nothing at all would look like no keys.
  do {
    for (const one of open) {
      const read = await reader.page({ prefix, master: one.master, cursor: one.cursor, pattern: `${prefix}:*`, count })
      Object.assign(one, { cursor: read.cursor, pages: one.pages + 1 })
      for (const stored of read.found) {
        told.read++
        const state = keyStateOf(stored, read.nowUs)
        told.blocked += state.blockedForMs === undefined ? 0 : 1
        told.overridden += state.override === undefined ? 0 : 1
        if (state.used > 0) {
          told.inUse++
          const hot = hotOf(state, limits)
          told.hasShares &&= hot.share !== undefined
          byShare.add(hot)
          byUsed.add(hot)
        }
      }
    }
    open = open.filter(({ cursor }) => cursor !== '0')
  } while (open.length > 0 && told.read < sample && performance.now() - start < forMs)
  const isComplete = open.length === 0
  return {
    ...told,
    byShare: byShare.all(),
    byUsed: byUsed.all(),
    gone: isComplete ? 1 : goneOf(cursors, masters.sizes, count),
    isComplete,
    ms: Math.round(performance.now() - start),
  }
}

/** A page looks at about as many keys as it is asked to. */
function goneOf(
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

function hotOf(state: KeyState, limits: Limits): Hot {
  const own = state.override === undefined ? undefined : limitOf(state.override)
  const limit = own ?? limits(state) ?? state.most
  return limit === undefined ? state : { ...state, limit, share: state.used / limit }
}

type Limits = (state: KeyState) => number | undefined

/** The limits of the policies given, for the states that they decide by. */
function limitsOf(enforced: Enforced | undefined): Limits {
  const limits = new Map<string, number>()
  for (const { name, policy } of enforced?.compound.policies ?? []) {
    limits.set(`${name}:${policy.algorithm}:${layoutOf(policy)}`, limitOfPolicy(policy))
  }
  return ({ policy, algorithm, layout }) => limits.get(`${policy}:${algorithm}:${layout}`)
}

function limitOfPolicy(policy: Enforced['compound']['policies'][number]['policy']): number {
  switch (policy.algorithm) {
    case 'gcra':
      return policy.burst
    case 'tokenBucket':
      return policy.capacity + policy.debt
    case 'leakyBucket':
      return policy.capacity
    case 'slidingLogs':
      return Math.min(...Object.values(policy.limits).map(({ limit }) => limit))
    default:
      return policy.limit
  }
}
