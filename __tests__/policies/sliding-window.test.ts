import { MemoryStore, RateLimiter, slidingWindow } from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { drivenRedis } from '../driven-redis.js'
import { failureOf } from '../failure.js'

type Options = Parameters<typeof slidingWindow>[0]

describe('options', () => {
  test('the policy has defaults, and is plain, frozen data that its factory accepts', () => {
    const policy = slidingWindow({ limit: 5, window: '1m' })
    expect(policy).toEqual({ algorithm: 'slidingWindow', limit: 5, window: 60_000, buckets: 10, layout: 'list' })
    expect(Object.isFrozen(policy)).toBe(true)
    const limiter = new RateLimiter(JSON.parse(JSON.stringify(policy)))
    expect(limiter.policies).toEqual({ default: policy })
  })

  test.each([
    ['limit', 0, 'slidingWindow: limit must be a whole number from 1 to 2^53 - 1, got 0'],
    ['limit', '5', 'slidingWindow: limit must be a whole number from 1 to 2^53 - 1, got "5"'],
    ['window', 0, 'slidingWindow: window must be a duration above 0 in whole microseconds'],
    ['window', '1y', 'slidingWindow: window must be a duration above 0 in whole microseconds'],
    ['buckets', 0, 'slidingWindow: buckets must be a whole number from 1 to 1000, got 0'],
    ['buckets', 1_001, 'slidingWindow: buckets must be a whole number from 1 to 1000, got 1001'],
    ['buckets', 2.5, 'slidingWindow: buckets must be a whole number from 1 to 1000, got 2.5'],
    ['buckets', null, 'slidingWindow: buckets must be a whole number from 1 to 1000, got null'],
    ['layout', 'zset', "slidingWindow: layout must be 'list' or 'hash', got \"zset\""],
    ['layout', null, "slidingWindow: layout must be 'list' or 'hash', got null"],
    [
      'bucket',
      5,
      'slidingWindow has no option "bucket"; did you mean "buckets"? It takes limit, window, buckets, layout',
    ],
  ])('%s: the error for %p has the name, the value and the rule', (name, value, message) => {
    const options = { limit: 5, window: '1m', [name]: value } as Options
    const error = failureOf(() => slidingWindow(options))
    expect(error).toMatchObject({ code: 'INVALID_POLICY', charged: false })
    expect(error.message.startsWith(message)).toBe(true)
  })

  test('a window too long for exact counting is refused when the limiter is made', () => {
    const policy = slidingWindow({ limit: 1, window: '25000d', buckets: 1 })
    expect(failureOf(() => new RateLimiter(policy)).message).toBe(
      'slidingWindow: window and one bucket more must be at most 2^51 µs (71 years)',
    )
  })
})

describe('embedded', () => {
  const clock = new FakeClock()
  const limiterOf = (options: Options) =>
    new RateLimiter(slidingWindow(options), { store: new MemoryStore({ clock: clock.read }) })

  test('at most the limit in any rolling window', () => {
    const limiter = limiterOf({ limit: 10, window: '1s' })
    expect(limiter.takeSync('a', 4)).toMatchObject({ status: 'allowed', limit: 10, remaining: 6, resetAfterMs: 1_100 })
    clock.advance(950)
    expect(limiter.takeSync('a', 6)).toMatchObject({ status: 'allowed-last', remaining: 0 })
    clock.advance(149)
    expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', retryAfterMs: 1 })
    expect(limiter.takeSync('a', 5)).toMatchObject({ status: 'refused', retryAfterMs: 901 })
    expect(limiter.takeSync('a', 11)).toMatchObject({ status: 'impossible', retryAfterMs: null })
    clock.advance(1)
    expect(limiter.takeSync('a', 4)).toMatchObject({ status: 'allowed-last', remaining: 0 })
  })

  test('a steady caller gets the limit in each window plus one bucket', () => {
    const limiter = limiterOf({ limit: 3, window: '1s', buckets: 4 })
    clock.advance(1_000 - (clock.read() % 1_000))
    for (let round = 0; round < 5; round++) {
      expect(limiter.takeSync('a', 3).status).toBe('allowed-last')
      clock.advance(1_249)
      expect(limiter.takeSync('a').allowed).toBe(false)
      clock.advance(1)
    }
  })

  test('a peek reports and charges nothing; a reset forgets', async () => {
    const limiter = limiterOf({ limit: 3, window: '1h' })
    await limiter.take('a', 2)
    expect(await limiter.peek('a')).toMatchObject({ status: 'allowed-last', remaining: 1 })
    expect(await limiter.peek('a', 2)).toMatchObject({ status: 'refused', remaining: 1 })
    await limiter.reset('a')
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 3, resetAfterMs: 0 })
  })
})

describe('over Redis', () => {
  const redis = drivenRedis()

  describe.each(['list', 'hash'] as const)('in a %s', (layout) => {
    const policy = slidingWindow({ limit: 3, window: '1h', layout })

    test('take, takeMany, peek and reset', async () => {
      const limiter = new RateLimiter(policy, { store: redis.store, prefix: layout })
      expect(await limiter.take('a', 2)).toMatchObject({ status: 'allowed', limit: 3, remaining: 1, source: 'store' })
      expect(await limiter.peek('a')).toMatchObject({ status: 'allowed-last', remaining: 1 })
      const refused = await limiter.peek('a', 2)
      expect(refused).toMatchObject({ status: 'refused', remaining: 1 })
      expect(refused.retryAfterMs).toBeGreaterThanOrEqual(3_600_000)
      expect(await limiter.peek('a', 4)).toMatchObject({ status: 'impossible', retryAfterMs: null })
      const many = await limiter.takeMany(['a', 'b', 'a', 'b'], [1, 3, 1, 4])
      expect(many.map(({ status }) => status)).toEqual(['allowed-last', 'allowed-last', 'refused', 'impossible'])
      await limiter.reset('a')
      expect(await limiter.peek('a', 0)).toMatchObject({ status: 'allowed', remaining: 3, resetAfterMs: 0 })
    })

    test('64 calls of one tick on one key admit the limit, and one more after the time that a refusal names', async () => {
      const short = slidingWindow({ limit: 3, window: '200ms', buckets: 4, layout })
      const limiter = new RateLimiter(short, { store: redis.store, prefix: `${layout}-hot` })
      const decisions = await Promise.all(Array.from({ length: 64 }, () => limiter.take('hot')))
      expect(decisions.map(({ status }) => status).slice(0, 4)).toEqual([
        'allowed',
        'allowed',
        'allowed-last',
        'refused',
      ])
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(3)
      const retryAfterMs = decisions[63]?.retryAfterMs as number
      await redis.time.pass(retryAfterMs - 1)
      expect(await limiter.take('hot')).toMatchObject({ status: 'refused', retryAfterMs: 1 })
      await redis.time.pass(1)
      expect((await limiter.take('hot')).allowed).toBe(true)
    })
  })
})
