/**
 * Known defects of the systems that tollgate's algorithms come from: one test for each shows that
 * tollgate does not have it. The tests use a real Redis, whose clock moves only when they advance it.
 */
import {
  calendarWindow,
  fixedWindow,
  gcra,
  MemoryStore,
  type Policy,
  RateLimiter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { SAMPLES } from '../policies/samples.js'
import { openedRedis } from '../redis/opened.js'

/** The time of the server, in microseconds. */
let nowUs = Date.UTC(2026, 5, 1) * 1_000

const redis = openedRedis({ timeUs: nowUs })
let prefixes = 0

beforeEach(() => redis.server.command('FLUSHALL'))

/** Advances the server's clock, which also expires keys. */
function advance(millis: number): void {
  nowUs += millis * 1_000
  redis.server.setTime(nowUs)
}

/** A limiter with a unique prefix. */
function over(policy: Policy): RateLimiter {
  return new RateLimiter(policy, { store: redis.store, prefix: `defects-${prefixes++}` }) as RateLimiter
}

/** Every algorithm and layout, ten units. */
const ALL = Object.entries<Policy>(SAMPLES)

/** All keys except the registered policies. */
async function keysOfRedis(): Promise<string[]> {
  return (await redis.server.command<string[]>('KEYS', '*')).filter((name) => !name.endsWith(':~policies'))
}

function number(...words: string[]): Promise<number> {
  return redis.server.command(...words)
}

test('deleting list entries by value can delete the running counter when values coincide', async () => {
  const limiter = over(slidingWindow({ limit: 10, window: 200, buckets: 2 }))
  // The bucket's count equals the running count: both are 5, and then both buckets are 5.
  await limiter.take('key', 5)
  advance(210)
  await limiter.take('key', 5)
  advance(350)
  expect(await limiter.take('key', 5)).toMatchObject({ status: 'allowed', remaining: 5 })
  expect(await limiter.take('key', 5)).toMatchObject({ status: 'allowed-last', remaining: 0 })
})

test('only one expired bucket is dropped per request', async () => {
  for (const layout of ['list', 'hash'] as const) {
    const limiter = over(slidingWindow({ limit: 100, window: 200, buckets: 10, layout }))
    for (let bucket = 0; bucket < 8; bucket++) {
      await limiter.take('key', 10)
      advance(21)
    }
    advance(300)
    expect((await limiter.take('key')).remaining).toBe(99)
    const [name] = await keysOfRedis()
    // A hash also has a field for its reset time.
    expect(await number(layout === 'list' ? 'LLEN' : 'HLEN', name as string)).toBe(layout === 'list' ? 1 : 2)
    await redis.server.command('FLUSHALL')
  }
})

test('bucketed windows admit twice the limit, because the (n + 1)th bucket is not counted', () => {
  const clock = new FakeClock()
  const policy = slidingWindow({ limit: 10, window: '10s', buckets: 2 })
  const limiter = new RateLimiter(policy, { store: new MemoryStore({ clock: clock.read }) })
  clock.advance(4_900)
  expect(limiter.takeSync('key', 10).allowed).toBe(true)
  // Two buckets of five seconds would reach back to 5.0 s.
  clock.advance(5_200)
  expect(limiter.takeSync('key').allowed).toBe(false)
  clock.advance(4_900)
  expect(limiter.takeSync('key', 10).allowed).toBe(true)
})

test('clocks of whole seconds', async () => {
  for (const policy of [
    gcra({ limit: 1, period: 400 }),
    fixedWindow({ limit: 1, window: 400 }),
    slidingWindow({ limit: 1, window: 400, buckets: 4 }),
    slidingLog({ limit: 1, window: 400 }),
    tokenBucket({ capacity: 1, refill: { tokens: 1, every: 400 }, refillMode: 'interval' }),
  ]) {
    const limiter = over(policy)
    expect((await limiter.take('key')).allowed).toBe(true)
    const { allowed, retryAfterMs } = await limiter.take('key')
    expect({ policy, allowed }).toEqual({ policy, allowed: false })
    // A sliding window lasts one bucket longer.
    expect(retryAfterMs).toBeLessThanOrEqual(500)
    advance((retryAfterMs ?? 0) - 1)
    expect((await limiter.take('key')).allowed).toBe(false)
    advance(1)
    expect((await limiter.take('key')).allowed).toBe(true)
  }
})

test('EXPIRE with a fractional or zero time', async () => {
  for (const policy of [
    gcra({ limit: 3, period: '0.7ms' }),
    fixedWindow({ limit: 3, window: '0.4ms' }),
    fixedWindow({ limit: 3, window: 1234.567 }),
    slidingWindow({ limit: 3, window: '0.4ms', buckets: 2 }),
    slidingLog({ limit: 3, window: '0.4ms' }),
    slidingLog({ limit: 3, window: 1234.567 }),
  ]) {
    const limiter = over(policy)
    for (let call = 0; call < 20; call++) {
      await limiter.take('key')
    }
  }
  for (const key of await keysOfRedis()) {
    // -2: the key is gone already. -1 would be a key without expiry.
    expect(await number('PTTL', key)).not.toBe(-1)
  }
})

test('a log keyed by time loses counts', async () => {
  // The calls of one batch have the same time.
  for (const policy of [
    slidingLog({ limit: 100, window: '1m' }),
    slidingLog({ limits: { minute: { limit: 100, window: '1m' } }, precision: '1s' }),
  ]) {
    const limiter = over(policy)
    const calls = await Promise.all(Array.from({ length: 120 }, () => limiter.take('key')))
    expect(calls.filter(({ allowed }) => allowed)).toHaveLength(100)
    expect((await limiter.peek('key')).remaining).toBe(0)
  }
})

test.each(ALL)('%s: state initialised, drained and charged in separate scripts', async (_, policy) => {
  const limiter = over(policy)
  await limiter.take('key')
  await redis.server.command('CONFIG', 'RESETSTAT')
  const calls = 10
  for (let call = 0; call < calls; call++) {
    await limiter.take('key')
  }
  const stats = await redis.server.command<string>('INFO', 'commandstats')
  expect(stats).toContain(`cmdstat_evalsha:calls=${calls},`)
  // The script that registers policies may have been sent, too: only that script runs this command.
  const ran = (command: string) => new RegExp(`cmdstat_${command}:calls=(\\d+),`).exec(stats)?.[1] ?? '0'
  expect(ran('eval')).toBe(ran('zremrangebyrank'))
})

test.each(ALL)('%s: quota compared before the cost is added', async (_, policy) => {
  const limiter = over(policy)
  await limiter.take('key', 9)
  expect(await limiter.take('key', 2)).toMatchObject({ status: 'refused', remaining: 1 })
  expect(await limiter.take('key', 1)).toMatchObject({ status: 'allowed-last', remaining: 0 })
})

test('a reset time in the wrong unit', async () => {
  const hour = 3_600_000
  for (const policy of [
    gcra({ limit: 1, period: '1h' }),
    tokenBucket({ capacity: 1, refill: { tokens: 1, every: '1h' }, refillMode: 'interval' }),
    fixedWindow({ limit: 1, window: '1h' }),
    slidingLog({ limit: 1, window: '1h' }),
  ]) {
    const limiter = over(policy)
    expect((await limiter.take('key')).resetAfterMs).toBe(hour)
    expect((await limiter.take('key')).retryAfterMs).toBe(hour)
  }
  const day = await over(calendarWindow({ limit: 1, every: 'day' })).take('key')
  const midnight = new Date(day.at).setUTCHours(24, 0, 0, 0)
  expect(day.at + day.resetAfterMs).toBe(midnight)
})

test.each(ALL)('%s: refused requests counted', (_, policy) => {
  const clock = new FakeClock()
  const limiter = new RateLimiter(policy, { store: new MemoryStore({ clock: clock.read }) })
  limiter.takeSync('key', 10)
  const { retryAfterMs } = limiter.takeSync('key')
  for (let call = 0; call < 1_000; call++) {
    limiter.takeSync('key')
  }
  expect(limiter.takeSync('key').retryAfterMs).toBe(retryAfterMs)
  clock.advance(retryAfterMs ?? 0)
  expect(limiter.takeSync('key').allowed).toBe(true)
})

test.each(ALL)('%s: keys without a TTL', async (_, policy) => {
  const limiter = over(policy)
  await limiter.take('once')
  await Promise.all(Array.from({ length: 20 }, (_, call) => limiter.take('often', 1 + (call % 3))))
  await limiter.take('impossible', 11)
  await limiter.peek('peeked')
  const keys = await keysOfRedis()
  expect(keys).toHaveLength(2)
  for (const key of keys) {
    expect(await number('PTTL', key)).toBeGreaterThan(0)
  }
})

test.each(ALL)('%s: "0 left after allowing" looks like "refused"', async (_, policy) => {
  const limiter = over(policy)
  const calls = await Promise.all(Array.from({ length: 12 }, () => limiter.take('key')))
  expect(calls.map(({ status }) => status)).toEqual([...Array(9).fill('allowed'), 'allowed-last', 'refused', 'refused'])
  expect(calls.map(({ remaining }) => remaining)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0])
})
