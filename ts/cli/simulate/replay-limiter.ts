import type { Decision } from '../../api/decision.js'
import { RateLimiter } from '../../api/rate-limiter.js'
import { MemoryStore } from '../../backends/memory/memory-store.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import { policySetOf } from '../../policies/policy-set.js'
import type { LimiterPolicies } from '../policies.js'
import { type KeyTable, NO_KEY } from './log/key-table.js'
import type { RefusalTally } from './tally.js'

/**
 * The maximum of a store, so that no two keys share a count, which they may do in a serving
 * process.
 */
const MAX_KEYS = 2 ** 32

/** The kinds of keys of a replay. */
export interface KeyKinds {
  /** The key tables, one for each kind. */
  readonly tables: readonly KeyTable[]
  /**
   * The kind of key for a policy's key dimension (its `per`); for a policy without one if it is
   * `undefined`.
   */
  kindOf(dimension: string | undefined): number
}

/** A limiter that decides on all requests in the order of their times. */
export class ReplayLimiter {
  /**
   * Decides on a request; the time is in epoch milliseconds. Returns whether the request was
   * refused.
   */
  readonly take: (time: number, cost: number, keys: Uint32Array, start: number) => boolean
  readonly #limiter: { close(): Promise<void> }

  constructor(
    { policy }: LimiterPolicies,
    { tables, kindOf }: KeyKinds,
    readonly tally: RefusalTally,
  ) {
    const policySet = policySetOf(policy)
    let now = 0
    const store = new MemoryStore({ maxKeys: MAX_KEYS, clock: () => now })
    const limiter = new RateLimiter(policy as never, { store }) as unknown as SyncLimiter
    this.#limiter = limiter
    const { dimensions } = policySet
    if (dimensions === undefined) {
      const kind = kindOf(undefined)
      const names = (tables[kind] as KeyTable).keys
      this.take = (time, cost, keys, start) => {
        const key = keys[start + kind] as number
        if (key === NO_KEY) {
          return false
        }
        now = time
        tally.decided++
        const decision = limiter.takeSync(names[key] as string, cost)
        if (!decision.allowed) {
          tally.refuse(time, decision.policy, kind, key, decision.status === 'impossible')
        }
        return !decision.allowed
      }
      return
    }
    const parts = dimensions
      .filter((dimension) => dimension !== GLOBAL)
      .map((dimension) => ({ dimension, kind: kindOf(dimension) }))
    const kindsByLimit = new Map(
      policySet.limits.map(({ name, policy: index }) => {
        const { dimension: position } = policySet.policies[index] as { dimension: number }
        return [name, parts.find((part) => part.dimension === dimensions[position])?.kind ?? -1]
      }),
    )
    this.take = (time, cost, keys, start) => {
      const key: Record<string, string> = {}
      for (const { dimension, kind } of parts) {
        const number = keys[start + kind] as number
        if (number === NO_KEY) {
          return false
        }
        key[dimension] = (tables[kind] as KeyTable).keys[number] as string
      }
      now = time
      tally.decided++
      const decision = limiter.takeSync(key, cost)
      if (!decision.allowed) {
        const kind = kindsByLimit.get(decision.policy) ?? -1
        const number = kind < 0 ? NO_KEY : (keys[start + kind] as number)
        tally.refuse(time, decision.policy, kind, number, decision.status === 'impossible')
      }
      return !decision.allowed
    }
  }

  /** Frees the limiter. */
  async close(): Promise<void> {
    await this.#limiter.close()
  }
}

interface SyncLimiter {
  takeSync(key: string | object, cost: number): Decision
  close(): Promise<void>
}
