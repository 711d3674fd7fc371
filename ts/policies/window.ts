// Programs for edge platforms bundle this file, so it must not import the addon: it imports only
// types of policies.
import { checkCount } from '../input/options.js'
import type { CalendarUnit } from './calendar-window.js'
import type { Policy } from './policy.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The length of calendar windows when no clock changes; a month counts as 30 days. */
const NOMINAL_MS: { readonly [Unit in CalendarUnit]: number } = {
  hour: HOUR_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
}

/**
 * The duration in which a policy admits its limit, in milliseconds. It is the `w` of the
 * `RateLimit-Policy` header, which is in seconds.
 *
 * - `fixedWindow`, `slidingWindow`, `slidingCounter`, `slidingLog`: the window.
 * - `slidingLogs`: the window of one of its limits; without a name the longest.
 * - `calendarWindow`: the nominal length; an hour has 60 minutes, a day 24 hours and a month 30
 *   days.
 * - `gcra`, `leakyBucket`, `tokenBucket`: the time until all units that a call can take have come
 *   back, rounded up to a microsecond.
 *
 * @param policy - One of a limiter's `policies`, or the result of `gcra`, `fixedWindow` or another
 * policy function.
 * @param limit - The name of a limit of `slidingLogs`, as declared in its policy.
 *
 * @throws {TollgateError} `INVALID_OPTION` for more than two arguments
 *
 * @example
 * windowMsOf(gcra({ limit: 10, period: '1s', burst: 20 })) // 2000
 */
export function windowMsOf(policy: Policy, limit?: string): number {
  checkCount(arguments.length, 2, 'windowMsOf takes a policy and the name of a limit')
  switch (policy.algorithm) {
    case 'calendarWindow':
      return typeof policy.every === 'number' ? policy.every : NOMINAL_MS[policy.every]
    case 'slidingLogs': {
      const one = limit === undefined ? undefined : policy.limits[limit]
      return one?.window ?? Math.max(...Object.values(policy.limits).map(({ window }) => window))
    }
    case 'gcra':
      return refillMs(policy.burst, policy.limit, policy.period)
    case 'leakyBucket':
      return refillMs(policy.capacity, policy.leak.units, policy.leak.every)
    case 'tokenBucket': {
      const { tokens, every } = policy.refill
      const units = policy.capacity + policy.debt
      return policy.refillMode === 'interval' ? Math.ceil(units / tokens) * every : refillMs(units, tokens, every)
    }
    default:
      return policy.window
  }
}

/**
 * The time until `units` units have come back. Exact arithmetic: rounding must not turn a whole
 * second into the next one.
 */
function refillMs(units: number, each: number, everyMs: number): number {
  const everyUs = BigInt(Math.round(everyMs * 1_000))
  return Number((BigInt(units) * everyUs + BigInt(each) - 1n) / BigInt(each)) / 1_000
}

/**
 * The largest cost that a call can have under a policy, in units.
 *
 * @param limit - The name of a limit of `slidingLogs`. Default: its first limit.
 */
export function largestCostOf(policy: Policy, limit?: string): number {
  switch (policy.algorithm) {
    case 'gcra':
      return policy.burst
    case 'leakyBucket':
      return policy.capacity
    case 'tokenBucket':
      return policy.capacity + policy.debt
    case 'slidingLogs': {
      const one = limit === undefined ? Object.values(policy.limits)[0] : policy.limits[limit]
      return one?.limit as number
    }
    default:
      return policy.limit
  }
}
