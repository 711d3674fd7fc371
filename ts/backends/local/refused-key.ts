import type { Decision, PolicyNumbers } from '../../api/decision.js'
import type { PolicySet } from '../../policies/policy-set.js'
import type { Block } from '../blocks.js'
import { decisionOf, numbersOf } from '../decision-of.js'
import { type Units, unitsUnder } from '../units.js'

export interface KeyBlock {
  /** Its end by the local clock, in milliseconds, or up to a call earlier. */
  readonly until: number
  /** The ban, if the block is one. */
  readonly ban: Block | undefined
}

/** A refusal of calls on a stored key under a meter. Times are in milliseconds of the local clock. */
export interface Refusal {
  /** The decision of the store. Other keys, or other meters, may have refused the call, too. */
  readonly decision: Decision
  readonly isImpossible: boolean
  readonly block: KeyBlock | undefined
  readonly receivedAt: number
  /** The cost under the meter from which calls are refused. */
  readonly minCost: number
  /** The largest cost by policy that is not impossible; `undefined` if the refusal is that of an impossible call. */
  readonly maxCosts: readonly number[] | undefined
}

/** The policies that count the same units by the same key. */
export interface RefusingPart {
  /** The key dimension. */
  readonly dimension: number
  /** The first of the policies. */
  readonly policy: number
  /** The names of their limits. */
  readonly limits: readonly string[]
}

/** The parts of a policy set, and the index of the part of each policy. */
export interface RefusingParts {
  readonly parts: readonly RefusingPart[]
  readonly ofPolicy: readonly number[]
}

export function refusingPartsOf({ policies, limits, meters }: PolicySet): RefusingParts {
  const meterOf = (policy: number) => meters?.ofPolicy[policy]
  const firsts = policies.map(({ dimension }, index) => {
    return policies.findIndex((other, policy) => other.dimension === dimension && meterOf(policy) === meterOf(index))
  })
  const own = [...new Set(firsts)]
  const parts = own.map((policy): RefusingPart => {
    const { dimension } = policies[policy] as PolicySet['policies'][number]
    const names = limits.filter((limit) => firsts[limit.policy] === policy).map(({ name }) => name)
    return { dimension, policy, limits: names }
  })
  return { parts, ofPolicy: firsts.map((policy) => own.indexOf(policy)) }
}

/** A call that waits for the answer to another call. */
export interface WaitingCall {
  run(): void
}

export class RefusedKey {
  /** `undefined` if the last answer was not a refusal. */
  refusal: Refusal | undefined
  /** The end of the refusal, or of the credit. */
  until = 0
  /** Whether the refusal lasts much longer than a call. */
  isLong = false
  /** The units by policy that calls may take without waiting for another call's answer. */
  credit: readonly number[] = []
  /** The calls that wait for the answer to another one; `undefined` if none is being asked for. */
  waiting: WaitingCall[] | undefined
  /** When that other call was made first, by `timers.now`. */
  since = 0

  /** Whether a call costs less here than those that are refused now. */
  isCheaper(cost: number, now: number): boolean {
    return this.refusal !== undefined && this.waiting === undefined && now < this.until && cost < this.refusal.minCost
  }

  /** The refusal of a call of this cost now. The call may be impossible: see {@link mayBeImpossible}. */
  refusalOf(cost: number, now: number): Refusal | undefined {
    const { refusal } = this
    const isRefused = refusal !== undefined && this.waiting === undefined && now < this.until && cost >= refusal.minCost
    return isRefused ? refusal : undefined
  }
}

/** Whether the store may find a call impossible that this part only refuses. */
export function mayBeImpossible({ maxCosts }: Refusal, cost: Units): boolean {
  return maxCosts?.some((most, policy) => unitsUnder(cost, policy) > most) === true
}

export function cachedSingleDecision(refusal: Refusal, now: number): Decision {
  const { decision, receivedAt } = refusal
  const numbers = numbersLater(decision, now - receivedAt)
  const times = { ...numbers, retryAt: decision.retryAt, resetAt: decision.resetAt }
  const time = timeAfter(decision.at, now - receivedAt)
  const policies = { [decision.policy]: numbers }
  const status = statusOf([refusal], now)
  const cached = decisionOf(status, decision.policy, numbers, times, policies, time, 'cache')
  return withBan(cached, [refusal], now)
}

/** The status of a call that these keys refuse, from the status of each key alone. */
function statusOf(refusals: readonly Refusal[], now: number): 'impossible' | 'blocked' | 'refused' {
  if (refusals.some(({ isImpossible }) => isImpossible)) {
    return 'impossible'
  }
  return refusals.some(({ block }) => block !== undefined && now < block.until) ? 'blocked' : 'refused'
}

/** Adds the last ban to end of those in force on the keys of a blocked decision. */
function withBan(cached: Decision, refusals: readonly Refusal[], now: number): Decision {
  let ban: Block | undefined
  for (const { block } of refusals) {
    if (block?.ban !== undefined && now < block.until && (ban === undefined || block.ban.until > ban.until)) {
      ban = block.ban
    }
  }
  return cached.status === 'blocked' && ban !== undefined ? Object.assign(cached, { ban }) : cached
}

/**
 * The decision on a call that some parts refuse. It reports the limit with the longest retry, or of an impossible call
 * the smallest one below its cost. Other limits of a key that refuses the call have the numbers of its refusal, without
 * a retry. Limits of other keys are shown as unused: nothing is known of them here, and a caller must not see the
 * numbers of another.
 *
 * @param refusals - By part; empty where a part does not refuse the call.
 */
export function cachedDecision(
  { limits, policies }: PolicySet,
  { parts, ofPolicy }: RefusingParts,
  refusals: readonly (Refusal | undefined)[],
  cost: Units,
  now: number,
): Decision {
  const known = refusals.find((refusal) => refusal !== undefined) as Refusal
  const numbers: Record<string, PolicyNumbers> = {}
  const refusing = refusals.filter((refusal) => refusal !== undefined)
  const status = statusOf(refusing, now)
  let [reported, reportedBy, least] = ['', known, Number.POSITIVE_INFINITY]
  for (const { name, policy } of limits) {
    const { dimension } = policies[policy] as (typeof policies)[number]
    const refusal = refusals[ofPolicy[policy] as number]
    const ofKey = refusal ?? refusals.find((one, part) => one !== undefined && parts[part]?.dimension === dimension)
    const { decision, receivedAt } = ofKey ?? known
    const theirs = decision.policies[name] as PolicyNumbers
    const { limit, capacity } = theirs
    const isTooMuch = unitsUnder(cost, policy) > capacity
    let own = ofKey ? numbersLater(theirs, now - receivedAt) : numbersOf(limit, capacity, capacity, 0, 0, 0)
    if (isTooMuch || refusal === undefined) {
      own = { ...own, retryAfterMs: isTooMuch ? null : 0 }
    }
    numbers[name] = own
    const order = status === 'impossible' ? capacity : -(own.retryAfterMs as number)
    if (order < least && (status === 'impossible' ? isTooMuch : refusal !== undefined)) {
      ;[reported, reportedBy, least] = [name, refusal ?? known, order]
    }
  }
  const { decision, receivedAt } = reportedBy
  const one = numbers[reported] as PolicyNumbers
  const all = Object.values(numbers)
  const times = {
    retryAfterMs: one.retryAfterMs,
    nextAfterMs: Math.max(...all.map(({ nextAfterMs }) => nextAfterMs)),
    resetAfterMs: Math.max(...all.map(({ resetAfterMs }) => resetAfterMs)),
  }
  const time = timeAfter(decision.at, now - receivedAt)
  const cached = decisionOf(status, reported, one, times, numbers, time, 'cache')
  return withBan(cached, refusing, now)
}

function numbersLater(numbers: PolicyNumbers, ms: number): PolicyNumbers {
  const { limit, capacity, remaining, retryAfterMs, nextAfterMs, resetAfterMs } = numbers
  const retry = retryAfterMs === null ? null : later(retryAfterMs, ms)
  return numbersOf(limit, capacity, remaining, retry, later(nextAfterMs, ms), later(resetAfterMs, ms))
}

/** The rest of a duration after some time, in whole milliseconds, rounded up. */
function later(durationMs: number, ms: number): number {
  return durationMs === 0 ? 0 : Math.max(1, Math.ceil(durationMs - ms))
}

function timeAfter(at: number, ms: number): number {
  return Math.round((at + ms) * 1_000) / 1_000
}
