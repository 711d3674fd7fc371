import type { Decision } from '../../api/decision.js'
import { RateLimiter } from '../../api/rate-limiter.js'
import { MemoryStore } from '../../backends/memory/memory-store.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import { policySetOf } from '../../policies/policy-set.js'
import type { LimiterPolicies } from '../policies.js'
import { type KeyTable, NO_KEY } from './log/key-table.js'
import type { RefusalTally } from './tally.js'

/** The maximum of a store, so that no two keys share a count, as they may in a serving process. */
const MAX_KEYS = 2 ** 32

export interface KeyKinds {
  readonly tables: readonly KeyTable[]
  /** The kind of key for a policy's key dimension (its `per`); `undefined`: for a policy without one. */
  kindOf(dimension: string | undefined): number
}

/** A limiter that decides on all requests in the order of their times. */
export class ReplayLimiter {
  /** Decides on a request at a time in epoch milliseconds. Returns whether it was refused. */
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
    // Without dimensions a key is one string: the part of no dimension.
    const parts = (dimensions ?? [undefined])
      .filter((dimension) => dimension !== GLOBAL)
      .map((dimension) => ({ dimension, kind: kindOf(dimension) }))
    const kindsByLimit = new Map(
      policySet.limits.map(({ name, policy: index }) => {
        const { dimension: position } = policySet.policies[index] as { dimension: number }
        return [name, parts.find((part) => part.dimension === dimensions?.[position])?.kind ?? -1]
      }),
    )
    this.take = (time, cost, keys, start) => {
      let key: string | Record<string, string> = dimensions === undefined ? '' : {}
      for (const { dimension, kind } of parts) {
        const number = keys[start + kind] as number
        if (number === NO_KEY) {
          return false
        }
        const text = (tables[kind] as KeyTable).keys[number] as string
        if (dimension === undefined) {
          key = text
        } else {
          ;(key as Record<string, string>)[dimension] = text
        }
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

  async close(): Promise<void> {
    await this.#limiter.close()
  }
}

interface SyncLimiter {
  takeSync(key: string | object, cost: number): Decision
  close(): Promise<void>
}
