/** Repeated keys within a flush: deduplication keeps their call order. */
import {
  calendarWindow,
  fixedWindow,
  gcra,
  type Policies,
  type Policy,
  RateLimiter,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../../ts/index.js'
import { openedRedis } from '../opened.js'

const opened = openedRedis()

const LIMIT = 5_000

/** None refills during the test. */
const POLICIES: Record<string, Policy | Policies> = {
  gcra: gcra({ limit: LIMIT, period: '52w' }),
  leaky: tokenBucket({ capacity: LIMIT, refill: { tokens: 1, every: '1h' } }),
  interval: tokenBucket({ capacity: LIMIT, refill: { tokens: 1, every: '1h' }, refillMode: 'interval' }),
  fixedWindow: fixedWindow({ limit: LIMIT, window: '1d' }),
  calendarWindow: calendarWindow({ limit: LIMIT, every: 'month', timeZone: 'UTC' }),
  slidingCounter: slidingCounter({ limit: LIMIT, window: '4w' }),
  slidingWindow: slidingWindow({ limit: LIMIT, window: '1d', buckets: 10 }),
  slidingLog: slidingLog({ limit: LIMIT, window: '1d' }),
  several: { rate: gcra({ limit: LIMIT, period: '52w' }), window: fixedWindow({ limit: 2 * LIMIT, window: '1d' }) },
}

describe.each(Object.entries(POLICIES))('%s', (name, policy) => {
  it.each([1, 2, 3])(
    'calls on one key are decided in order, and each gets its own result (cost %i at times)',
    async (cost) => {
      const limiter = new RateLimiter(policy as Policy, { store: opened.store, prefix: `${name}-${cost}` })
      const remaining = new Map<string, number>()
      for (let turn = 0; turn < 20; turn++) {
        // From two keys for all calls to almost no repeats.
        const keys = Array.from({ length: 200 }, (_, call) => `${(call * call + turn) % (4 ** (turn % 5) + 1)}`)
        const costs = keys.map((_, call) => (call % 50 === 49 ? cost : 1))
        const calls = keys.map((key, call) => limiter.take(key, costs[call]))
        const expected = keys.map((key, call) => {
          remaining.set(key, (remaining.get(key) ?? LIMIT) - (costs[call] ?? 0))
          return remaining.get(key)
        })
        expect((await Promise.all(calls)).map(({ remaining }) => remaining)).toEqual(expected)
      }
      await limiter.close()
    },
  )
})
