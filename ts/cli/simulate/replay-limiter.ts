import type { Decision } from '../../api/decision.js'
import { RateLimiter } from '../../api/rate-limiter.js'
import { MemoryStore } from '../../backends/memory/memory-store.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import { compoundOf } from '../../policies/policy-set.js'
import type { NamedPolicy } from '../policies.js'
import { type KeyTable, NO_KEY } from './log/key-table.js'
import type { Tally } from './tally.js'

/** As many keys as a store can have: no two may share a count, as they may in a process that serves. */
const MOST_KEYS = 2 ** 32

/** Where a policy finds its keys. */
export interface Kinds {
  /** The key tables, by the number of their kind. */
  readonly tables: readonly KeyTable[]
  /** The kind of key that a subject (a policy's `per`) counts by; of the key itself if it is `undefined`. */
  kindOf(subject: string | undefined): number
}

/** One limiter, asked about all requests in the order of their times. */
export class Judge {
  /** Judges a request: its time in epoch milliseconds. Answers whether it was refused. */
  readonly take: (time: number, cost: number, keys: Uint32Array, start: number) => boolean
  readonly #limiter: { close(): Promise<void> }

  constructor(
    { policy }: NamedPolicy,
    { tables, kindOf }: Kinds,
    readonly tally: Tally,
  ) {
    const compound = compoundOf(policy)
    let now = 0
    const store = new MemoryStore({ maxKeys: MOST_KEYS, clock: () => now })
    const limiter = new RateLimiter(policy as never, { store }) as unknown as AnyLimiter
    this.#limiter = limiter
    const { subjects } = compound
    if (subjects === undefined) {
      const kind = kindOf(undefined)
      const names = (tables[kind] as KeyTable).keys
      this.take = (time, cost, keys, start) => {
        const key = keys[start + kind] as number
        if (key === NO_KEY) {
          return false
        }
        now = time
        tally.judged++
        const decision = limiter.takeSync(names[key] as string, cost)
        if (!decision.allowed) {
          tally.refuse(time, decision.policy, kind, key, decision.status === 'impossible')
        }
        return !decision.allowed
      }
      return
    }
    const parts = subjects
      .filter((subject) => subject !== GLOBAL)
      .map((subject) => ({ subject, kind: kindOf(subject) }))
    const kindsByLimit = new Map(
      compound.limits.map(({ name, policy: index }) => {
        const { subject } = compound.policies[index] as { subject: number }
        return [name, parts.find((part) => part.subject === subjects[subject])?.kind ?? -1]
      }),
    )
    this.take = (time, cost, keys, start) => {
      const key: Record<string, string> = {}
      for (const { subject, kind } of parts) {
        const number = keys[start + kind] as number
        if (number === NO_KEY) {
          return false
        }
        key[subject] = (tables[kind] as KeyTable).keys[number] as string
      }
      now = time
      tally.judged++
      const decision = limiter.takeSync(key, cost)
      if (!decision.allowed) {
        const kind = kindsByLimit.get(decision.policy) ?? -1
        const number = kind < 0 ? NO_KEY : (keys[start + kind] as number)
        tally.refuse(time, decision.policy, kind, number, decision.status === 'impossible')
      }
      return !decision.allowed
    }
  }

  /** Frees the counts. */
  async close(): Promise<void> {
    await this.#limiter.close()
  }
}

interface AnyLimiter {
  takeSync(key: string | object, cost: number): Decision
  close(): Promise<void>
}
