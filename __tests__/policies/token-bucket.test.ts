import { MemoryStore, RateLimiter, type TokenBucketOptions, tokenBucket } from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { drivenRedis } from '../driven-redis.js'
import { anything, failureOf } from '../failure.js'

function limiterOf(options: TokenBucketOptions, clock = new FakeClock()) {
  return { limiter: new RateLimiter(tokenBucket(options), { store: new MemoryStore({ clock: clock.read }) }), clock }
}

const redis = drivenRedis()

async function overRedis<T>(options: TokenBucketOptions, prefix: string, run: (limiter: RateLimiter) => Promise<T>) {
  const limiter = new RateLimiter(tokenBucket(options), { store: redis.store, prefix })
  try {
    return await run(limiter)
  } finally {
    await limiter.close()
  }
}

const REFILL = { tokens: 1, every: '1h' } as const
const MODES = ['continuous', 'interval'] as const

describe('options', () => {
  test('the policy includes its defaults, and its factory accepts it', () => {
    const policy = tokenBucket({ capacity: 20, refill: { tokens: 5, every: '1s' } })
    expect(policy).toEqual({
      algorithm: 'tokenBucket',
      capacity: 20,
      refill: { tokens: 5, every: 1_000 },
      refillMode: 'continuous',
      initial: undefined,
      debt: 0,
    })
    expect(Object.isFrozen(policy) && Object.isFrozen(policy.refill)).toBe(true)
    const { algorithm: _, ...options } = JSON.parse(JSON.stringify(policy))
    expect(tokenBucket(options)).toEqual(policy)
    expect(new RateLimiter(policy).takeSync('a').limit).toBe(20)
  })

  test('a policy without the newer options gets their defaults', () => {
    const old = { algorithm: 'tokenBucket', capacity: 2, refill: { tokens: 1, every: 1_000 } }
    expect(new RateLimiter(anything(old)).takeSync('a')).toMatchObject({ limit: 2, remaining: 1 })
  })

  test.each([-1, 0.5, 21, NaN, '10', null, 1n])(
    'the error for an initial level of %p has the name and the rule',
    (initial) => {
      const error = failureOf(() => tokenBucket({ capacity: 20, refill: REFILL, initial: anything(initial) }))
      expect(error.code).toBe('INVALID_POLICY')
      expect(error.message).toMatch('tokenBucket: initial must be a whole number from 0 to 20, got ')
    },
  )

  test.each([-1, 0.5, 2 ** 53, NaN, '10', null, 1n])('the error for a debt of %p has the name and the rule', (debt) => {
    const error = failureOf(() => tokenBucket({ capacity: 20, refill: REFILL, debt: anything(debt) }))
    expect(error.message).toMatch('tokenBucket: debt must be a whole number from 0 to 2^53 - 1, got ')
  })

  test.each(['Interval', '', null, 1, true])(
    'the error for a refill mode of %p has the name and the rule',
    (refillMode) => {
      const error = failureOf(() => tokenBucket({ capacity: 20, refill: REFILL, refillMode: anything(refillMode) }))
      expect(error.message).toMatch('tokenBucket: refillMode must be "continuous" or "interval", got ')
    },
  )

  test.each(MODES)('numbers too large for exact counting are refused when the limiter is made: %s', (refillMode) => {
    const of = (options: object) => {
      const policy = tokenBucket({ capacity: 1, refill: { tokens: 1, every: '1d' }, refillMode, ...options })
      return failureOf(() => new RateLimiter(policy)).message
    }
    expect(of({ debt: 2 ** 53 - 1 })).toBe('tokenBucket: debt must be so small that capacity + debt is below 2^53')
    expect(of({ capacity: 60_000 })).toMatch(/^tokenBucket: capacity must refill from empty within 2\^52/)
    expect(of({ debt: 60_000 })).toMatch(/^tokenBucket: debt must refill from empty within 2\^52/)
    expect(of({ capacity: 52_124, initial: 7 })).toMatch(/^tokenBucket: initial can be below the capacity only if/)
  })
})

describe('refill at intervals', () => {
  test('tokens arrive together at the end of each interval, counted from the first token of a full bucket', () => {
    const { limiter, clock } = limiterOf({
      capacity: 5,
      refill: { tokens: 2, every: '1s' },
      refillMode: 'interval',
    })
    limiter.takeSync('a', 1)
    clock.advance(600)
    expect(limiter.takeSync('a', 4)).toMatchObject({ status: 'allowed-last', resetAfterMs: 2_400 })
    expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', retryAfterMs: 400 })
    expect(limiter.takeSync('a', 3)).toMatchObject({ status: 'refused', retryAfterMs: 1_400 })
    clock.advance(399)
    expect(limiter.takeSync('a').allowed).toBe(false)
    clock.advance(1)
    expect(limiter.takeSync('a', 2).status).toBe('allowed-last')
  })

  /**
   * Other implementations use clocks of whole seconds: there half a second is zero, or a second.
   */
  test('whole-second clocks: ten per 500 ms arrive every 500 ms, to the millisecond', () => {
    const { limiter, clock } = limiterOf({
      capacity: 10,
      refill: { tokens: 10, every: '500ms' },
      refillMode: 'interval',
    })
    clock.advance(999)
    for (let interval = 0; interval < 5; interval++) {
      expect(limiter.takeSync('a', 10).status).toBe('allowed-last')
      clock.advance(499)
      expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', retryAfterMs: 1 })
      clock.advance(1)
    }
  })

  test('over Redis it has the same results', async () => {
    const options: TokenBucketOptions = { capacity: 3, refill: { tokens: 2, every: '1s' }, refillMode: 'interval' }
    await overRedis(options, 'interval', async (limiter) => {
      const many = await limiter.takeMany(['a', 'a', 'a', 'a', 'a'], [1, 4, 1, 2, 1])
      expect(many.map(({ status }) => status)).toEqual(['allowed', 'impossible', 'allowed', 'refused', 'allowed-last'])
      const refused = await limiter.take('a', 2)
      expect(refused.status).toBe('refused')
      expect(refused.resetAfterMs).toBeGreaterThan(refused.retryAfterMs as number)
      await redis.time.pass((refused.retryAfterMs as number) - 1)
      expect(await limiter.take('a', 2)).toMatchObject({ status: 'refused', retryAfterMs: 1 })
      await redis.time.pass(1)
      expect((await limiter.take('a', 2)).status).toBe('allowed-last')
      await limiter.reset('a')
      expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 3, resetAfterMs: 0 })
    })
  })
})

describe.each(MODES)('%s refill', (refillMode) => {
  /** Pre-consumption. */
  test('with a debt a large call is admitted, and later calls wait for a whole token', () => {
    const refill = { tokens: 1, every: '1s' } as const
    const { limiter, clock } = limiterOf({ capacity: 2, refill, refillMode, debt: 5 })
    expect(limiter.takeSync('a')).toMatchObject({ status: 'allowed', capacity: 7, remaining: 6 })
    expect(limiter.takeSync('a', 6).status).toBe('allowed-last')
    expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', retryAfterMs: 6_000, resetAfterMs: 7_000 })
    expect(limiter.takeSync('a', 7)).toMatchObject({ status: 'refused', retryAfterMs: 7_000 })
    expect(limiter.takeSync('a', 8).status).toBe('impossible')
    clock.advance(5_999)
    expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', remaining: 0 })
    clock.advance(1)
    expect(limiter.takeSync('a')).toMatchObject({ status: 'allowed-last', remaining: 0 })
  })

  test('with an initial level a key starts on first use, and again a day after it was full', async () => {
    const { limiter, clock } = limiterOf({ capacity: 3, refill: { tokens: 1, every: '1s' }, refillMode, initial: 1 })
    const day = 24 * 3_600_000
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 1, resetAfterMs: 0 })
    clock.advance(10_000)
    expect(await limiter.peek('a', 2)).toMatchObject({ status: 'refused', retryAfterMs: 1_000, resetAfterMs: 0 })
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 1 })
    const refused = limiter.takeSync('a', 2)
    expect(refused).toMatchObject({ status: 'refused', retryAfterMs: 1_000, resetAfterMs: 2_000 + day })
    clock.advance(1_000)
    expect(limiter.takeSync('a', 2).status).toBe('allowed-last')
    clock.advance(3_000 + day - 1)
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 3, resetAfterMs: 1 })
    clock.advance(1)
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 1, resetAfterMs: 0 })
  })

  test('a peek at a key that has not begun tells when a call now would leave a unit for the next one', async () => {
    const { limiter } = limiterOf({ capacity: 3, refill: { tokens: 1, every: '1s' }, refillMode, initial: 0 })
    for (const cost of [0, 1]) {
      expect(await limiter.peek('a', cost)).toMatchObject({ remaining: 0, nextAfterMs: 1_000 })
    }
    expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', nextAfterMs: 1_000 })
  })

  test('an impossible call is a first use, too, and a reset key starts again', async () => {
    const { limiter, clock } = limiterOf({ capacity: 3, refill: { tokens: 1, every: '1s' }, refillMode, initial: 0 })
    expect(limiter.takeSync('a', 4)).toMatchObject({ status: 'impossible', remaining: 0 })
    clock.advance(2_000)
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 2 })
    await limiter.reset('a')
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 0, resetAfterMs: 0 })
  })

  test('over Redis a key starts on first use, is stored with a TTL, and may be overdrawn', async () => {
    const options = { capacity: 5, refill: REFILL, refillMode, initial: 2, debt: 3 }
    const tag = refillMode === 'interval' ? 'tbi' : 'tb'
    await overRedis(options, `low-${tag}`, async (limiter) => {
      const name = `low-${tag}:default:${tag}:{a}`
      expect(await limiter.peek('a', 0)).toMatchObject({ capacity: 8, remaining: 5, resetAfterMs: 0 })
      expect(await redis.server.command('EXISTS', name)).toBe(0)
      expect((await limiter.take('a', 6)).status).toBe('refused')
      const ttl = await redis.server.command('PTTL', name)
      expect(ttl).toBeGreaterThanOrEqual(27 * 3_600_000)
      expect((await limiter.take('a', 5)).status).toBe('allowed-last')
      const refused = await limiter.take('a')
      expect(Math.ceil((refused.retryAfterMs as number) / 3_600_000)).toBe(4)
    })
  })

  /** Other implementations read the remaining quota first, and subtract the cost later. */
  test('quota compared before cost is added: a cost above the remaining quota is refused', async () => {
    const options = { capacity: 10, refill: REFILL, refillMode }
    const { limiter } = limiterOf(options)
    const statuses = [9, 2, 1, 1].map((cost) => limiter.takeSync('a', cost).status)
    expect(statuses).toEqual(['allowed', 'refused', 'allowed-last', 'refused'])
    await overRedis(options, `compared-${refillMode}`, async (redis) => {
      const calls = await Promise.all([9, 2, 1, 1].map((cost) => redis.take('a', cost)))
      expect(calls.map(({ status }) => status)).toEqual(statuses)
    })
  })

  test('state initialised, drained and charged in separate scripts: here one EVALSHA for each decision', async () => {
    await overRedis({ capacity: 10, refill: REFILL, refillMode, initial: 4 }, `once-${refillMode}`, async (limiter) => {
      await limiter.take('warm')
      await redis.server.command('CONFIG', 'RESETSTAT')
      for (let call = 0; call < 10; call++) {
        await limiter.take('a')
      }
      const stats = await redis.server.command<string>('INFO', 'commandstats')
      const calls = (name: string) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
      expect(calls('evalsha')).toBe(10)
      expect([calls('eval'), calls('script\\|load'), calls('fcall')]).toEqual([0, 0, 0])
      // Four calls were admitted, each with one write; refused calls write nothing. The general
      // path decides the first call on the key and the refusals, and reads the key again.
      expect([calls('get'), calls('set') + calls('setrange')]).toEqual([10, 4])
      // At some times of the day, one admitted call extends the TTL, on the general path.
      expect([7, 8]).toContain(calls('mget'))
    })
  })
})
