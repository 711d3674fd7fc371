import type { Compound } from '../compound.js'
import type { Decision } from '../decision.js'
import type { TollgateError } from '../error.js'
import { checkKey, type Keys } from '../keys.js'
import type { Booking, Performed } from '../operation.js'
import type { Policy } from '../policy.js'
import { stamped } from '../receipt.js'
import type { Answers } from '../store.js'
import { largestCostOf } from '../window.js'
import type { Answerable, Fallback } from './guarded-ledger.js'

/** When a call that nobody decided may look again, in milliseconds: the store may be back by then. */
const LOOK_AGAIN_MS = 1_000

/**
 * Allows or refuses every call, and remembers nothing.
 *
 * A decision speaks of the first limit, and has no numbers; keys are checked, as on any store.
 */
export class FixedAnswers implements Fallback {
  readonly #isAllowed: boolean
  readonly #origin: object
  readonly #policy: string
  readonly #limit: number

  /** @param origin - What decisions are stamped with. */
  constructor(isAllowed: boolean, { limits, policies }: Compound, origin: object) {
    this.#isAllowed = isAllowed
    this.#origin = origin
    const [first] = limits as [Compound['limits'][number]]
    this.#policy = first.name
    this.#limit = largestCostOf(policies[first.policy]?.policy as Policy)
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

  perform(keys: Keys, operation: Answerable): Performed {
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
      checkKey(key)
    }
    return this.#decision()
  }

  #decision(): Decision {
    return {
      allowed: this.#isAllowed,
      status: this.#isAllowed ? 'allowed' : 'refused',
      policy: this.#policy,
      limit: this.#limit,
      remaining: 0,
      retryAfterMs: this.#isAllowed ? 0 : LOOK_AGAIN_MS,
      resetAfterMs: 0,
      policies: {},
      at: Date.now(),
      source: 'none',
    } as Decision
  }
}
