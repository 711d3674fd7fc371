import type { Decision } from '../../api/decision.js'
import { type DecisionOrigin, withMetadata, withUnits } from '../../api/decision-metadata.js'
import type { TollgateError } from '../../api/error.js'
import { checkKey, type Keys } from '../../input/keys.js'
import type { PolicyEntry, PolicySet } from '../../policies/policy-set.js'
import { largestCostOf, mainNumberOf } from '../../policies/window.js'
import { decisionOf } from '../decision-of.js'
import type { TakeManyResults } from '../limiter-backend.js'
import type { KnownHold, Operation, OperationResult, ScheduledReservation } from '../operation.js'
import { HOLD_TIMES } from '../protocol.js'
import { sumOf, totalOf, type Units } from '../units.js'
import type { FallbackResponder } from './fallback-backend.js'

/** The `retryAfterMs` of a refusal: the store may be up again by then. */
const RETRY_AFTER_MS = 1_000

interface LimitNumbers {
  readonly name: string
  readonly limit: number
  readonly capacity: number
}

/** The numbers of each limit of a policy set, in order. */
export function limitNumbersOf({ limits, policies, isSingle }: PolicySet): readonly LimitNumbers[] {
  return limits.map(({ name, policy: index }) => {
    const { name: policyName, policy } = policies[index] as PolicyEntry
    // Among several policies a limit of a slidingLog is named `policy.limit`.
    const own = isSingle ? name : name.slice(policyName.length + 1)
    return { name, limit: mainNumberOf(policy, own), capacity: largestCostOf(policy, own) }
  })
}

/**
 * Allows or refuses every call, and keeps no state. A decision reports the first limit. Each limit has its number
 * and nothing remaining, so that a program that reads `policies` does not fail when the store does.
 */
export class FixedResponses implements FallbackResponder {
  readonly #isAllowed: boolean
  readonly #origin: DecisionOrigin
  readonly #limits: readonly LimitNumbers[]

  constructor(isAllowed: boolean, policySet: PolicySet, origin: DecisionOrigin) {
    this.#isAllowed = isAllowed
    this.#origin = origin
    this.#limits = limitNumbersOf(policySet)
  }

  take(key: string, cost: number): Decision {
    checkKey(key)
    return withMetadata(this.#decision(), this.#origin, key, cost)
  }

  takeBy(keys: Keys, cost: Units): Decision {
    return withUnits(this.#decisionFor(keys), this.#origin, keys, cost)
  }

  takeMany(keys: readonly string[], costs: readonly number[]): TakeManyResults {
    return keys.map((key, index) => {
      try {
        return this.take(key, costs[index] as number)
      } catch (error) {
        return error as TollgateError
      }
    })
  }

  execute(keys: Keys, operation: Operation): OperationResult {
    const decision = this.#decisionFor(keys)
    switch (operation.kind) {
      case 'takeUpTo':
      case 'reserve':
        return { decision, units: this.#isAllowed ? totalOf(operation.units) : 0 }
      // In time or not. There are no units to move.
      case 'renew':
        return { decision, units: isOpen(operation, decision) ? 1 : 0 }
      case 'settle':
        return {
          decision,
          units: 0,
          held: isOpen(operation, decision, HOLD_TIMES.late) ? operation.heldUnits : 0,
          isLate: !isOpen(operation, decision),
        }
      case 'extend': {
        if (!isOpen(operation, decision)) {
          return { decision, units: 0, held: 0 }
        }
        const { units, heldUnits } = operation
        return this.#isAllowed
          ? { decision, units: totalOf(units), held: sumOf(heldUnits, units) }
          : { decision, units: 0, held: heldUnits }
      }
      default:
        return { decision, units: 0 }
    }
  }

  schedule(keys: Keys): ScheduledReservation {
    return { decision: this.#decisionFor(keys), waitUs: 0, charges: undefined }
  }

  openVariant(policySet: PolicySet): FixedResponses {
    return new FixedResponses(this.#isAllowed, policySet, this.#origin.ofTier(policySet.tier))
  }

  close(): void {}

  #decisionFor({ keys }: Keys): Decision {
    for (const key of keys) {
      // A change may omit parts.
      if (key !== undefined || keys.length === 1) {
        checkKey(key)
      }
    }
    return this.#decision()
  }

  #decision(): Decision {
    const retryAfterMs = this.#isAllowed ? 0 : RETRY_AFTER_MS
    const times = { retryAfterMs, nextAfterMs: retryAfterMs, resetAfterMs: 0 }
    const numbers = this.#limits.map(({ name, limit, capacity }) => {
      return [name, { limit, capacity, used: 0, remaining: 0, ...times }] as const
    })
    const [policy, reported] = numbers[0] as (typeof numbers)[number]
    const status = this.#isAllowed ? 'allowed' : 'refused'
    return decisionOf(status, policy, reported, times, Object.fromEntries(numbers), Date.now(), 'none')
  }
}

function isOpen({ expiresAtUs }: KnownHold, { at }: Decision, lateUs = 0): boolean {
  return at * 1_000 < expiresAtUs + lateUs
}
