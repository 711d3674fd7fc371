/** The times of decisions are exact, also between two milliseconds. */
import {
  calendarWindow,
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  slidingCounter,
  slidingLog,
  slidingLogs,
  slidingWindow,
  tokenBucket,
} from '../../ts/index.js'
import { BACKENDS } from './stores.js'

const refill = { tokens: 1, every: '1h' } as const
const hour = { limit: 2, window: '1h' } as const

/** Policies that admit 2 units at once. */
const TWO: readonly Policy[] = [
  gcra({ limit: 2, period: '1h' }),
  gcra({ limit: 7, period: '1s', burst: 2 }),
  leakyBucket({ capacity: 2, leak: { units: 3, every: '1s' } }),
  tokenBucket({ capacity: 2, refill }),
  tokenBucket({ capacity: 2, refill, refillMode: 'interval' }),
  fixedWindow(hour),
  calendarWindow({ limit: 2, every: 'day', timeZone: 'Asia/Kathmandu' }),
  slidingWindow({ ...hour, buckets: 7 }),
  slidingWindow({ ...hour, buckets: 7, layout: 'hash' }),
  slidingCounter(hour),
  slidingLog(hour),
  slidingLogs({ limits: { short: { limit: 2, window: '1m' }, long: { limit: 5, window: '1h' } } }),
]

describe.each(BACKENDS)('times: $name', (backend) => {
  test.each(TWO)('$algorithm: the call that takes the last unit tells when the next one comes', async (policy) => {
    await backend.pass(0.375)
    const limiter = backend.limiter(policy)
    expect(await limiter.take('a')).toMatchObject({ remaining: 1, nextAfterMs: 0 })
    await backend.pass(0.25)
    const last = await limiter.take('a')
    expect(last.status).toBe('allowed-last')
    expect(last.nextAfterMs).toBeGreaterThan(0)
    const refused = await limiter.take('a')
    expect(refused).toMatchObject({ status: 'refused', nextAfterMs: last.nextAfterMs })
    expect(refused.nextAfterMs).toBe(refused.retryAfterMs)
    expect((await limiter.peek('a', 2)).nextAfterMs).toBe(last.nextAfterMs)
    await backend.pass(last.nextAfterMs - 1)
    expect((await limiter.peek('a')).status).toBe('refused')
    await backend.pass(1)
    const next = await limiter.peek('a')
    expect(next).toMatchObject({ nextAfterMs: 0 })
    expect(next.allowed).toBe(true)
  })

  test.each(TWO)('$algorithm: resetAt and retryAt are rounded up once', async (policy) => {
    await backend.pass(0.125)
    const limiter = backend.limiter(policy)
    await limiter.take('a', 2)
    await backend.pass(10.5)
    const { at, retryAfterMs, resetAfterMs, retryAt, resetAt } = await limiter.take('a')
    for (const [time, afterMs] of [
      [retryAt, retryAfterMs],
      [resetAt, resetAfterMs],
    ] as const) {
      expect(Number.isInteger(time)).toBe(true)
      // The exact time is after `at + afterMs - 1` and at most `at + afterMs`.
      expect(time).toBeGreaterThan(at + (afterMs as number) - 1)
      expect(time).toBeLessThanOrEqual(Math.ceil(at + (afterMs as number)))
    }
    await backend.pass(resetAt - backend.now())
    expect((await limiter.peek('a')).remaining).toBe(2)
  })

  test('a window ends on a whole millisecond, and is reported exactly', async () => {
    await backend.pass(0.625)
    const limiter = backend.limiter(fixedWindow({ limit: 2, window: '10m' }))
    const first = await limiter.take('a')
    expect(first).toMatchObject({ resetAfterMs: 600_001, nextAfterMs: 0 })
    expect(first.resetAt).toBe(Math.ceil(backend.now()) + 600_000)
    expect(await limiter.take('a')).toMatchObject({ resetAfterMs: 600_001, nextAfterMs: 600_001 })
    expect(await limiter.take('a')).toMatchObject({ retryAfterMs: 600_001, retryAt: first.resetAt })
    await backend.pass(600_000)
    expect((await limiter.take('a')).status).toBe('refused')
    await backend.pass(1)
    expect((await limiter.take('a')).status).toBe('allowed')
  })

  test.each(['hour', 'day', 'week', 'month', '15m'] as const)(
    'a %s of the calendar ends on a whole second',
    async (every) => {
      await backend.pass(0.375)
      const limiter = backend.limiter(calendarWindow({ limit: 1, every, timeZone: 'Europe/Berlin' }))
      const fresh = await limiter.peek('a')
      expect(fresh.resetAt % 1_000).toBe(0)
      expect(fresh.resetAfterMs).toBe(Math.ceil(fresh.resetAt - backend.now()))
      const impossible = await limiter.take('a', 2)
      const last = await limiter.take('a')
      const refused = await limiter.take('a')
      for (const decision of [impossible, last, refused]) {
        expect(decision).toMatchObject({ resetAt: fresh.resetAt, resetAfterMs: fresh.resetAfterMs })
      }
      expect(refused.retryAt).toBe(fresh.resetAt)
    },
  )

  test('among several policies the times are the longest, and an unused calendar tells its renewal', async () => {
    await backend.pass(0.375)
    const limiter = backend.limiter({
      rate: gcra({ limit: 1, period: '10s' }),
      day: calendarWindow({ limit: 5, every: 'day' }),
    })
    const fresh = await limiter.peek('a')
    expect(fresh.policies.rate.resetAfterMs).toBe(0)
    expect(fresh.resetAfterMs).toBe(fresh.policies.day.resetAfterMs)
    expect(fresh.resetAt % 86_400_000).toBe(0)
    const taken = await limiter.take('a')
    expect(taken).toMatchObject({ nextAfterMs: 10_000, resetAt: fresh.resetAt })
    expect([taken.policies.rate.nextAfterMs, taken.policies.day.nextAfterMs]).toEqual([10_000, 0])
    await limiter.block('a', '1m')
    expect((await limiter.take('a')).nextAfterMs).toBe(60_000)
  })

  test('an override that ends earlier, and permits', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 9, window: '1h' }))
    await limiter.override('a', { limit: 1 }, { ttl: '5m' })
    expect((await limiter.take('a')).nextAfterMs).toBe(300_000)
    const permits = backend.limiter(concurrency({ limit: 2, ttl: '30s' }))
    const [first, second] = [await permits.acquire('a'), await permits.acquire('a')]
    expect([first.decision.nextAfterMs, second.decision.nextAfterMs]).toEqual([0, 30_000])
    if (first.allowed) await first.release()
    if (second.allowed) await second.release()
  })
})
