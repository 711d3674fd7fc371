import type { Decision } from '../../api/decision.js'
import { stamped } from '../../api/decision-metadata.js'
import type { TollgateError } from '../../api/error.js'
import { checkKey, type Keys } from '../../input/keys.js'
import type { Compound, NamedPolicy } from '../../policies/policy-set.js'
import { largestCostOf } from '../../policies/window.js'
import type { Answers } from '../limiter-backend.js'
import type { Booking, Operation, Performed } from '../operation.js'
import type { Fallback } from './fallback-backend.js'

/** When a call that nobody decided may look again, in milliseconds: the store may be back by then. */
const LOOK_AGAIN_MS = 1_000

/**
 * Allows or refuses every call, and remembers nothing.
 *
 * A decision reports the first limit. Each limit has its number and nothing remaining, so that a program that reads
 * `policies` does not fail when the store does. Keys are checked, as on any store.
 */
export class FixedAnswers implements Fallback {
  readonly #isAllowed: boolean
  readonly #origin: object
  /** Each limit's name and number, in their order. */
  readonly #limits: readonly (readonly [name: string, limit: number])[]

  /** @param origin - What decisions are stamped with. */
  constructor(isAllowed: boolean, { limits, policies, isSingle }: Compound, origin: object) {
    this.#isAllowed = isAllowed
    this.#origin = origin
    this.#limits = limits.map(({ name, policy: index }) => {
      const { name: policyName, policy } = policies[index] as NamedPolicy
      // Among several policies a limit of slidingLogs is `policy.limit`.
      const own = isSingle ? name : name.slice(policyName.length + 1)
      return [name, largestCostOf(policy, own)]
    })
  }

  take(key: string, cost: number): Decision {
    checkKey(key)
    return stamped(this.#decision(), this.#origin, key, cost)
  }

  takeBy(keys: Keys, cost: number): Decision {
    return stamped(this.#decisionFor(keys), this.#origin, keys, cost)
  }

  takeMany(keys: readonly string[], costs: readonly number[]): Answers {
    return keys.map((key, index) => {
      try {
        return this.take(key, costs[index] as number)
      } catch (error) {
        return error as TollgateError
      }
    })
  }

  perform(keys: Keys, operation: Operation): Performed {
    const decision = this.#decisionFor(keys)
    switch (operation.kind) {
      case 'takeUpTo':
      case 'reserve':
        return { decision, units: this.#isAllowed ? operation.units : 0 }
      case 'settle':
        // It is settled, in time, without anything that moves.
        return { decision, units: decision.at * 1_000 < operation.expiresAtUs ? 1 : 0 }
      default:
        return { decision, units: 0 }
    }
  }

  book(keys: Keys): Booking {
    return { decision: this.#decisionFor(keys), waitUs: 0, booked: undefined }
  }

  close(): void {}

  #decisionFor({ keys }: Keys): Decision {
    for (const key of keys) {
      // A change may leave parts out.
      if (key !== undefined || keys.length === 1) {
        checkKey(key)
      }
    }
    return this.#decision()
  }

  #decision(): Decision {
    const retryAfterMs = this.#isAllowed ? 0 : LOOK_AGAIN_MS
    const numbersOf = (limit: number) => ({ limit, remaining: 0, retryAfterMs, resetAfterMs: 0 })
    const [policy, limit] = this.#limits[0] as [string, number]
    return {
      allowed: this.#isAllowed,
      status: this.#isAllowed ? 'allowed' : 'refused',
      policy,
      ...numbersOf(limit),
      policies: Object.fromEntries(this.#limits.map(([name, limit]) => [name, numbersOf(limit)])),
      at: Date.now(),
      source: 'none',
    } as Decision
  }
}
