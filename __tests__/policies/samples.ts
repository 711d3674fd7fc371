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

/**
 * A policy of each algorithm and layout, by name. Each admits 10 units at once, and no more for
 * minutes.
 */
export const SAMPLES = {
  gcra: gcra({ limit: 10, period: '1h' }),
  tokenBucket: tokenBucket({ capacity: 10, refill: { tokens: 10, every: '1h' } }),
  'tokenBucket, interval': tokenBucket({
    capacity: 10,
    refill: { tokens: 10, every: '1h' },
    refillMode: 'interval',
  }),
  leakyBucket: leakyBucket({ capacity: 10, leak: { units: 10, every: '1h' } }),
  fixedWindow: fixedWindow({ limit: 10, window: '1h' }),
  calendarWindow: calendarWindow({ limit: 10, every: 'month' }),
  'slidingWindow, list': slidingWindow({ limit: 10, window: '1h' }),
  'slidingWindow, hash': slidingWindow({ limit: 10, window: '1h', layout: 'hash' }),
  slidingCounter: slidingCounter({ limit: 10, window: '1d' }),
  slidingLog: slidingLog({ limit: 10, window: '1h' }),
  'slidingLog, limits': slidingLog({ limits: { all: { limit: 10, window: '1h' } } }),
} satisfies Record<string, Policy>
