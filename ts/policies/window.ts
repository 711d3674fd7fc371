import { checkCount } from '../input/options.js'
import { algorithmOf, type Policy } from './policy.js'

/**
 * The duration in which a policy admits its limit, in milliseconds: the `w` of the `RateLimit-Policy` header, which is
 * in seconds.
 *
 * - `fixedWindow`, `slidingWindow`, `slidingCounter`, `slidingLog`: the window.
 * - `slidingLogs`: the window of one of its limits; without a name the longest.
 * - `calendarWindow`: the nominal length; an hour has 60 minutes, a day 24 hours and a month 30 days.
 * - `concurrency`: `ttl`, the life of a permit without a renewal.
 * - `gcra`, `leakyBucket`, `tokenBucket`: the time until all units that a call can take have come back, rounded up to a
 *   microsecond.
 *
 * @param policy - One of a limiter's `policies`, or the result of a policy function such as `gcra`.
 * @param limit - The name of a limit of `slidingLogs`.
 * @throws {TollgateError} `INVALID_OPTION` for more than two arguments
 *
 * @example
 * windowMsOf(gcra({ limit: 10, period: '1s', burst: 20 })) // 2000
 */
export function windowMsOf(policy: Policy, limit?: string): number {
  checkCount(arguments.length, 2, 'windowMsOf takes a policy and the name of a limit')
  return algorithmOf(policy).windowMs(policy, limit)
}

/** The limit of a policy as written, or its capacity. `limit` names one of `slidingLogs`; default: the smallest. */
export function mainNumberOf(policy: Policy, limit?: string): number {
  const { mainOption } = algorithmOf(policy)
  return mainOption === undefined ? largestCostOf(policy, limit) : (Reflect.get(policy, mainOption) as number)
}

/** The largest cost of a call under a policy, in units. `limit` names one of `slidingLogs`; default: the smallest. */
export function largestCostOf(policy: Policy, limit?: string): number {
  return algorithmOf(policy).largestCost(policy, limit)
}

/** The milliseconds in which one unit comes back; `undefined` unless a policy refills or drains continuously. */
export function unitMsOf(policy: Policy): number | undefined {
  const rate = isContinuous(policy) ? algorithmOf(policy).rate?.(policy) : undefined
  return rate === undefined ? undefined : rate.periodMs / rate.units
}

/** Whether units come back continuously, and so at a time that is known for each call. */
export function isRate(policy: Policy): boolean {
  return isContinuous(policy) && algorithmOf(policy).rate !== undefined
}

function isContinuous(policy: Policy): boolean {
  return policy.algorithm !== 'tokenBucket' || policy.refillMode === 'continuous'
}
