/**
 * The bounds of policies: the most units that a policy admits in any time span of a given length,
 * next to the units that its numbers ask for.
 */
import type { Policy } from 'tollgate/wasm'

/** The bound of a policy for one length of time. */
export interface Law {
  /** The name of the limit, for a policy with several. */
  readonly name?: string
  /** The length of the time span in whole microseconds. */
  readonly spanUs: number
  /** The most units admitted in the span. */
  readonly most: number
  /** The units per span that the policy's numbers say: its limit, or its rate over the span. */
  readonly asked: number
  /**
   * Whether both ends belong to the span. A rate's bound holds for a span including its ends. The
   * end of a window belongs to the next window.
   */
  readonly closed: boolean
}

const HOUR_US = 3_600_000_000
const DAY_US = 24 * HOUR_US

/** The bounds of a policy: one, or one for each of its limits. */
export function lawsOf(policy: Policy): readonly Law[] {
  switch (policy.algorithm) {
    // It bounds units at a time, and none in a span.
    case 'concurrency':
      return []
    case 'gcra': {
      const { limit, period, burst = limit } = policy
      return [{ spanUs: micros(period), most: burst + limit, asked: limit, closed: true }]
    }
    case 'leakyBucket':
      return [rate(policy.capacity, policy.leak.units, policy.leak.every, 0)]
    case 'tokenBucket': {
      const { capacity, refill, refillMode, debt } = policy
      // With interval refill, the span may also contain the refill at its start.
      const extra = refillMode === 'interval' ? refill.tokens + debt : debt
      return [rate(capacity, refill.tokens, refill.every, extra, refillMode === 'interval')]
    }
    case 'fixedWindow':
    case 'slidingCounter':
      return [window(policy.window, policy.limit, 2 * policy.limit - 1)]
    case 'slidingWindow':
      return [window(policy.window, policy.limit)]
    case 'slidingLog':
      return 'limits' in policy
        ? Object.entries(policy.limits).map(([name, one]) => ({ name, ...window(one.window, one.limit) }))
        : [window(policy.window, policy.limit)]
    case 'calendarWindow':
      return [
        {
          spanUs: calendarSpanUs(policy.every, policy.timeZone),
          most: 2 * policy.limit,
          asked: policy.limit,
          closed: false,
        },
      ]
  }
}

function window(windowMs: number, asked: number, most = asked): Law {
  return { spanUs: micros(windowMs), most, asked, closed: false }
}

/**
 * The bound for the time in which a bucket becomes full. With interval refill, it is rounded up to
 * whole intervals.
 */
function rate(capacity: number, units: number, everyMs: number, extra: number, inSteps = false): Law {
  const every = BigInt(micros(everyMs))
  const [held, each] = [BigInt(capacity), BigInt(units)]
  const up = (size: bigint, by: bigint) => (size + by - 1n) / by
  const span = inSteps ? up(held, each) * every : up(held * every, each)
  const gained = inSteps ? (span / every) * each : (span * each) / every
  return { spanUs: Number(span), most: capacity + extra + Number(gained), asked: Number(gained), closed: true }
}

/** The shortest window of a calendar. A day on which clocks are changed may have 23 hours. */
function calendarSpanUs(every: 'hour' | 'day' | 'week' | 'month' | number, timeZone: string): number {
  if (typeof every === 'number') {
    return micros(every)
  }
  const lost = timeZone === 'UTC' || every === 'hour' ? 0 : HOUR_US
  return { hour: HOUR_US, day: DAY_US, week: 7 * DAY_US, month: 28 * DAY_US }[every] - lost
}

function micros(millis: number): number {
  return Math.round(millis * 1_000)
}
