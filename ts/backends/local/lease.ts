import type { Decision, PolicyNumbers } from '../../api/decision.js'
import { Keys } from '../../input/keys.js'
import { algorithmOf } from '../../policies/policy.js'
import type { PolicyEntry, PolicySet } from '../../policies/policy-set.js'
import { decisionOf, numbersOf } from '../decision-of.js'
import type { RefundOperation } from '../operation.js'

/**
 * The part of a time by which it ends early here. The store's clock may run up to this much faster
 * than the clock of this process: twice as much as NTP corrects (500 ppm).
 */
const CLOCK_MARGIN = 0.001

/** The keys of a call that was decided by a lease. */
export class LeasedKeys extends Keys {
  constructor(
    { keys, tag }: Keys,
    readonly lease: Lease,
  ) {
    super(keys, tag)
  }
}

/** Units that the store has charged, and that this process may use until a local time in milliseconds. */
export class Lease {
  /** The units that are not used. */
  left: number
  /** From then on no unit is used. */
  readonly until: number
  readonly keys: LeasedKeys
  readonly #decision: Decision
  readonly #receivedAt: number
  readonly #policySet: PolicySet
  /** The units that the store charged. */
  readonly #units: number
  /** The units that have gone back to the store, or that may have. */
  #returned = 0

  /** @param sentAt - The local time before the call was sent that took the units. */
  constructor(
    policySet: PolicySet,
    keys: Keys,
    decision: Decision,
    units: number,
    sentAt: number,
    receivedAt: number,
    leaseMs: number,
    /** The version of the hot key when the units were requested. */
    readonly version: number,
  ) {
    this.#policySet = policySet
    this.#decision = decision
    this.#receivedAt = receivedAt
    this.#units = units
    this.left = units
    this.keys = new LeasedKeys(keys, this)
    let lastsMs = leaseMs
    for (const { name, policy } of policySet.limits) {
      // The store decided after `sentAt`, and rounds durations up.
      if (isWindow(policySet.policies[policy])) {
        lastsMs = Math.min(lastsMs, (decision.policies[name] as PolicyNumbers).resetAfterMs - 1)
      }
    }
    this.until = sentAt + lastsMs * (1 - CLOCK_MARGIN)
  }

  use(units: number, now: number): boolean {
    if (this.left < units || now >= this.until) {
      return false
    }
    this.left -= units
    return true
  }

  /** The decision on a call that has just used units. */
  decisionAt(now: number): Decision {
    const { at, policy, policies, resetAfterMs, resetAt } = this.#decision
    const [ms, { left }] = [now - this.#receivedAt, this]
    const nextMs = ({ remaining, nextAfterMs }: PolicyNumbers) => (remaining + left > 0 ? 0 : laterMs(nextAfterMs, ms))
    const numbersNow = (numbers: PolicyNumbers): PolicyNumbers => {
      const { limit, capacity, remaining, resetAfterMs } = numbers
      return numbersOf(limit, capacity, remaining + left, 0, nextMs(numbers), laterMs(resetAfterMs, ms))
    }
    let all: Record<string, PolicyNumbers>
    if (this.#policySet.isSingle) {
      // A literal name takes a fraction of the time of a computed one.
      all = { default: numbersNow(this.#decision) }
    } else {
      all = {}
      for (const name in policies) {
        all[name] = numbersNow(policies[name] as PolicyNumbers)
      }
    }
    const reported = numbersNow(this.#decision)
    const status = reported.remaining > 0 ? 'allowed' : 'allowed-last'
    const time = Math.round((at + ms) * 1_000) / 1_000
    const times = {
      retryAfterMs: 0,
      nextAfterMs: nextMs(this.#decision),
      resetAfterMs: laterMs(resetAfterMs, ms),
      resetAt: Math.max(resetAt, Math.ceil(time)),
    }
    return decisionOf(status, policy, reported, times, all, time, 'lease')
  }

  /** Whether the store would give nothing back: all units have drained. */
  isDrained(now: number): boolean {
    // The store decided at least this long ago.
    const ageMs = now - this.#receivedAt
    return this.#policySet.limits.every(({ name, policy }) => this.#drainsAfterMs(name, policy) <= ageMs)
  }

  /** The operation that gives units back to the store, which gives back only what has not drained. */
  refundOf(units: number): RefundOperation {
    const atUs = Math.round(this.#decision.at * 1_000)
    const resetAtUs = this.#policySet.policies.map(() => atUs)
    const marks = resetAtUs.map(() => 0)
    for (const { name, policy } of this.#policySet.limits) {
      // The engine takes the reset time of a rate as rounded up to a millisecond, and this one is not.
      const roundedUs = isWindow(this.#policySet.policies[policy]) ? 0 : 1_000
      const drainedAtUs = atUs + Math.floor(this.#drainsAfterMs(name, policy) * 1_000) + roundedUs
      resetAtUs[policy] = Math.max(resetAtUs[policy] as number, drainedAtUs)
      marks[policy] = this.#decision.marks?.[name] ?? 0
    }
    this.#returned += units
    const kept = this.#units - this.#returned
    const used = marks.map(() => 0)
    return { kind: 'refund', source: 'store', units, atUs, resetAtUs, marks, used, cost: 0, kept }
  }

  /**
   * The time after the decision at which all units that have not gone back have drained, under one
   * limit.
   *
   * Units of a rate drain in the order in which they were charged. They drain earlier than by the
   * decision if other units go back meanwhile, which this process does not see. So they count as if
   * they drained before all others. With the time of one unit from the decision, not from the
   * policy, because the key may have other numbers. tests/engine/laws/leases.rs has the proof. Nothing
   * goes back after a call of another tier.
   */
  #drainsAfterMs(name: string, policy: number): number {
    const { used, resetAfterMs } = this.#decision.policies[name] as PolicyNumbers
    const entry = this.#policySet.policies[policy]
    return isWindow(entry) ? resetAfterMs : ((resetAfterMs - 1) * (this.#units - this.#returned)) / used
  }
}

export function sameRefusal(decision: Decision, { isSingle }: PolicySet): Decision {
  const { status, policy, policies, at, source } = decision
  // A literal name takes a fraction of the time of a computed one.
  const own = isSingle ? { default: copyOf(decision) } : copiesOf(policies)
  return decisionOf(status, policy, decision, decision, own, at, source)
}

function copyOf(numbers: PolicyNumbers): PolicyNumbers {
  const { limit, capacity, remaining, retryAfterMs, nextAfterMs, resetAfterMs } = numbers
  return numbersOf(limit, capacity, remaining, retryAfterMs, nextAfterMs, resetAfterMs)
}

function copiesOf(policies: Decision['policies']): Decision['policies'] {
  return Object.fromEntries(Object.entries(policies).map(([name, numbers]) => [name, copyOf(numbers)]))
}

/** Whether the units of a policy all come back at the end of a window. */
function isWindow(entry: PolicyEntry | undefined): boolean {
  return entry !== undefined && algorithmOf(entry.policy).rate === undefined
}

/** The rest of a duration after some time, in whole milliseconds, rounded up. */
function laterMs(durationMs: number, ms: number): number {
  return Math.max(1, Math.ceil(durationMs - ms))
}
