/** The policies that are drawn: the same size for each, twenty units and twenty per ten seconds. */
import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from 'tollgate'

/** @type {{ file: string, title: string, policy: import('tollgate').Policy }[]} */
export const POLICIES = [
  { file: 'gcra', title: 'gcra: 20 per 10 s, bursts of 20', policy: gcra({ limit: 20, period: '10s' }) },
  {
    file: 'token-bucket',
    title: 'tokenBucket: capacity 20, 2 tokens per second',
    policy: tokenBucket({ capacity: 20, refill: { tokens: 2, every: '1s' } }),
  },
  {
    file: 'token-bucket-interval',
    title: 'tokenBucket, interval: 20, and 10 tokens every 5 s',
    policy: tokenBucket({ capacity: 20, refill: { tokens: 10, every: '5s' }, refillMode: 'interval' }),
  },
  {
    file: 'leaky-bucket',
    title: 'leakyBucket: capacity 20, 2 units per second',
    policy: leakyBucket({ capacity: 20, leak: { units: 2, every: '1s' } }),
  },
  { file: 'fixed-window', title: 'fixedWindow: 20 per 10 s', policy: fixedWindow({ limit: 20, window: '10s' }) },
  {
    file: 'calendar-window',
    title: 'calendarWindow: 20 in each 10 s of the clock',
    policy: calendarWindow({ limit: 20, every: '10s' }),
  },
  {
    file: 'sliding-window',
    title: 'slidingWindow: 20 per 10 s, 10 buckets',
    policy: slidingWindow({ limit: 20, window: '10s', buckets: 10 }),
  },
  {
    file: 'sliding-counter',
    title: 'slidingCounter: 20 per 10 s',
    policy: slidingCounter({ limit: 20, window: '10s' }),
  },
  { file: 'sliding-log', title: 'slidingLog: 20 per 10 s', policy: slidingLog({ limit: 20, window: '10s' }) },
  {
    file: 'sliding-log-limits',
    title: 'slidingLog: 5 per second and 20 per 10 s',
    policy: slidingLog({ limits: { second: { limit: 5, window: '1s' }, ten: { limit: 20, window: '10s' } } }),
  },
]

/** Those that are compared at a window's edge, by file. */
export const AT_THE_EDGE = ['fixed-window', 'sliding-window', 'gcra']
