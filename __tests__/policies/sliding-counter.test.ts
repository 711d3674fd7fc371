import { RateLimiter, slidingCounter } from '../../ts/index.js'
import { limiterOf } from '../clock.js'
import { drivenRedis } from '../driven-redis.js'
import { anything, failureOf } from '../failure.js'

describe('embedded', () => {
  test('the previous window fades, rounded against the caller', async () => {
    const { limiter, clock } = limiterOf(slidingCounter({ limit: 10, window: '1s' }))
    expect(limiter.takeSync('a', 10)).toMatchObject({ status: 'allowed-last', limit: 10, resetAfterMs: 2_000 })
    expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', remaining: 0, retryAfterMs: 1_100 })
    clock.advance(1_099)
    expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', retryAfterMs: 1 })
    clock.advance(1)
    expect(limiter.takeSync('a')).toMatchObject({ status: 'allowed-last', resetAfterMs: 1_900 })
    expect(await limiter.peek('a', 5)).toMatchObject({ status: 'refused', retryAfterMs: 500 })
    expect(limiter.takeSync('a', 11)).toMatchObject({ status: 'impossible', retryAfterMs: null })
    clock.advance(1_900)
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 10, resetAfterMs: 0 })
  })

  test('just less than twice the limit in a rolling window, and no more', () => {
    const { limiter, clock } = limiterOf(slidingCounter({ limit: 10, window: '1s' }))
    clock.advance(999.999)
    expect(limiter.takeSync('a', 10).allowed).toBe(true)
    clock.advance(999.999)
    expect(limiter.takeSync('a', 10).allowed).toBe(false)
    expect(limiter.takeSync('a', 9).allowed).toBe(true)
  })

  test('a clock that is set back refills nothing, and locks a key for at most three windows', () => {
    const { limiter, clock } = limiterOf(slidingCounter({ limit: 10, window: '1s' }))
    limiter.takeSync('a', 9)
    clock.advance(-1)
    expect(limiter.takeSync('a', 2)).toMatchObject({ status: 'refused', remaining: 1 })
    clock.advance(-86_400_000)
    expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', remaining: 0 })
    clock.advance(1_001)
    expect(limiter.takeSync('a', 10).allowed).toBe(true)
  })
})

describe('over Redis', () => {
  const redis = drivenRedis()

  test('two stores share the counts, and every operation works', async () => {
    const policy = slidingCounter({ limit: 3, window: '30d' })
    const stores = [redis.time.store(), redis.time.store()]
    const [one, other] = stores.map((store): RateLimiter => new RateLimiter(policy, { store, prefix: 'api' })) as [
      RateLimiter,
      RateLimiter,
    ]
    try {
      expect(await one.take('a', 2)).toMatchObject({ status: 'allowed', limit: 3, remaining: 1, source: 'store' })
      expect(await other.peek('a')).toMatchObject({ status: 'allowed-last', remaining: 1 })
      const many = await other.takeMany(['a', 'b', 'a', 'b'], [1, 3, 1, 4])
      expect(many.map(({ status }) => status)).toEqual(['allowed-last', 'allowed-last', 'refused', 'impossible'])
      const refused = await one.take('a')
      expect(refused.retryAfterMs).toBeGreaterThan(0)
      expect(refused.retryAfterMs).toBeLessThanOrEqual(refused.resetAfterMs)
      await one.reset('a')
      expect(await other.peek('a', 0)).toMatchObject({ remaining: 3, resetAfterMs: 0 })
    } finally {
      await Promise.all(stores.map((store) => store.close()))
    }
  })

  test('a changed limit or window keeps the used units', async () => {
    const store = redis.time.store()
    const taken = async (limit: number, window: number, cost: number) => {
      const limiter = new RateLimiter(slidingCounter({ limit, window }), { store, prefix: 'changed' })
      const { allowed, remaining } = await limiter.take('a', cost)
      await limiter.close()
      return { allowed, remaining }
    }
    try {
      expect(await taken(100, 86_400_000, 60)).toEqual({ allowed: true, remaining: 40 })
      expect(await taken(50, 86_400_000, 1)).toEqual({ allowed: false, remaining: 0 })
      expect(await taken(70, 604_800_000, 11)).toEqual({ allowed: false, remaining: 10 })
      expect(await taken(70, 604_800_000, 10)).toEqual({ allowed: true, remaining: 0 })
      expect(await taken(100, 86_400_000, 31)).toEqual({ allowed: false, remaining: 30 })
    } finally {
      await store.close()
    }
  })
})

describe('its options', () => {
  test.each([NaN, Infinity, -1, 0, 0.5, 2 ** 53, '10', null, undefined, {}, [], 10n, true])(
    'a limit of %p',
    (limit) => {
      const error = failureOf(() => slidingCounter({ limit: anything(limit), window: '1s' }))
      expect(error.code).toBe('INVALID_POLICY')
      expect(error.message).toMatch(/^slidingCounter: limit must be a whole number from 1 to 2\^53 - 1, got /)
    },
  )

  test.each([NaN, Infinity, -1, 0, '', '10', '1y', null, undefined, {}])('a window of %p', (window) => {
    const error = failureOf(() => slidingCounter({ limit: 1, window: anything(window) }))
    expect(error.code).toBe('INVALID_POLICY')
    expect(error.message).toMatch(/^slidingCounter: window must be a duration above 0 .*, got /)
  })

  test('a window with a fraction of a millisecond', () => {
    const error = failureOf(() => slidingCounter({ limit: 1, window: 1.5 }))
    expect(error).toMatchObject({ code: 'INVALID_POLICY', charged: false })
    expect(error.message).toBe('slidingCounter: window must be in whole milliseconds, got 1.5')
    expect(slidingCounter({ limit: 1, window: '1.5s' }).window).toBe(1_500)
  })

  test('numbers too large for exact counting', () => {
    const max = Math.floor((2 ** 53 - 1) / 1_000)
    expect(new RateLimiter(slidingCounter({ limit: max, window: '1s' })).takeSync('a').remaining).toBe(max - 1)
    const error = failureOf(() => new RateLimiter(slidingCounter({ limit: max + 1, window: '1s' })))
    expect(error.code).toBe('INVALID_POLICY')
    expect(error.message).toMatch(/^slidingCounter: limit is too large .* limit x window .* must be below 2\^53/)
    const long = failureOf(() => new RateLimiter(slidingCounter({ limit: 1, window: `${1e6}d` })))
    expect(long.message).toMatch(/^slidingCounter: window must be .* at most 2\^52 µs \(142 years\)/)
  })

  test('unknown and missing options, and a hand-written policy', () => {
    expect(failureOf(() => slidingCounter(anything({ limit: 1, window: 1, buckets: 2 }))).message).toBe(
      'slidingCounter has no option "buckets"; it takes limit, window, per, meter, defaultCost, maxOwed',
    )
    expect(failureOf(() => slidingCounter(anything(undefined))).message).toMatch(/takes an object of options/)
    const made = slidingCounter({ limit: 5, window: '1m' })
    expect(Object.isFrozen(made)).toBe(true)
    expect(made).toEqual({ algorithm: 'slidingCounter', limit: 5, window: 60_000 })
    expect(new RateLimiter(JSON.parse(JSON.stringify(made))).takeSync('a').remaining).toBe(4)
  })
})
