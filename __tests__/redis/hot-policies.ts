/** The policies that several processes share in processes.test.ts: a few lines each. */
import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../ts/index.js'
import { atRate, inAnySpan, inEachGridWindow, inEachOpenedWindow, inIntervals, type Law } from './laws.js'

/** A policy with its laws and rates. */
export interface HotPolicy {
  /** The prefix of its limiter. */
  readonly name: string
  readonly policy: Policy
  /** The laws that it never exceeds. */
  readonly laws: readonly Law[]
  /** The units a second that callers who never stop get. */
  readonly perSecond: number
}

// A thousand units a second: fewer than the processes request, even on a slow machine.
const [LIMIT, WINDOW] = [250, 250]

export const HOT: readonly HotPolicy[] = [
  {
    name: 'fixedWindow',
    policy: fixedWindow({ limit: LIMIT, window: WINDOW }),
    laws: [inEachOpenedWindow(LIMIT, WINDOW), inAnySpan(2 * LIMIT - 1, WINDOW)],
    perSecond: 1_000,
  },
  {
    name: 'fixedWindow-countRefused',
    policy: fixedWindow({ limit: LIMIT, window: WINDOW, countRefused: true }),
    laws: [inEachOpenedWindow(LIMIT, WINDOW), inAnySpan(2 * LIMIT - 1, WINDOW)],
    perSecond: 1_000,
  },
  {
    name: 'calendarWindow',
    policy: calendarWindow({ limit: 1_000, every: '1s', timeZone: 'Asia/Kathmandu' }),
    laws: [inEachGridWindow(1_000, 1_000), inAnySpan(2_000, 1_000)],
    perSecond: 1_000,
  },
  {
    name: 'slidingWindow-list',
    policy: slidingWindow({ limit: LIMIT, window: WINDOW, buckets: 10 }),
    laws: [inAnySpan(LIMIT, WINDOW)],
    perSecond: (1_000 * LIMIT) / (WINDOW * 1.1),
  },
  {
    name: 'slidingWindow-hash',
    policy: slidingWindow({ limit: LIMIT, window: WINDOW, buckets: 5, layout: 'hash' }),
    laws: [inAnySpan(LIMIT, WINDOW)],
    perSecond: (1_000 * LIMIT) / (WINDOW * 1.2),
  },
  {
    name: 'slidingLog',
    policy: slidingLog({ limit: LIMIT, window: WINDOW }),
    laws: [inAnySpan(LIMIT, WINDOW)],
    perSecond: 1_000,
  },
  {
    name: 'slidingLog-limits',
    policy: slidingLog({ limits: { short: { limit: 120, window: 100 }, long: { limit: 500, window: 500 } } }),
    laws: [inAnySpan(120, 100), inAnySpan(500, 500)],
    perSecond: 1_000,
  },
  {
    name: 'slidingLog-limits-precision',
    policy: slidingLog({ limits: { all: { limit: LIMIT, window: WINDOW } }, precision: 10 }),
    laws: [inAnySpan(LIMIT, WINDOW)],
    perSecond: (1_000 * LIMIT) / (WINDOW + 10),
  },
  {
    name: 'slidingCounter',
    policy: slidingCounter({ limit: LIMIT, window: WINDOW }),
    laws: [inEachGridWindow(LIMIT, WINDOW), inAnySpan(2 * LIMIT - 1, WINDOW), atRate(LIMIT, LIMIT, WINDOW)],
    // In a window's last millisecond one unit of the previous window still counts.
    perSecond: (1_000 * (LIMIT - 1)) / WINDOW,
  },
  {
    name: 'tokenBucket',
    policy: tokenBucket({ capacity: 100, refill: { tokens: 1_001, every: '1s' } }),
    laws: [atRate(100, 1_001, 1_000)],
    perSecond: 1_001,
  },
  {
    name: 'tokenBucket-debt',
    policy: tokenBucket({ capacity: 100, refill: { tokens: 1_000, every: '1s' }, initial: 10, debt: 50 }),
    laws: [atRate(150, 1_000, 1_000)],
    perSecond: 1_000,
  },
  {
    name: 'tokenBucket-interval',
    policy: tokenBucket({ capacity: 300, refill: { tokens: 100, every: 100 }, refillMode: 'interval' }),
    laws: [inIntervals(300, 100, 100)],
    perSecond: 1_000,
  },
  {
    name: 'leakyBucket',
    policy: leakyBucket({ capacity: 100, leak: { units: 7, every: 7 } }),
    laws: [atRate(100, 7, 7)],
    perSecond: 1_000,
  },
  {
    name: 'gcra',
    policy: gcra({ limit: 1_000, period: '1s', burst: 200 }),
    laws: [atRate(200, 1_000, 1_000)],
    perSecond: 1_000,
  },
]
