import { type Policy, RateLimiter, slidingLog } from '../../ts/index.js'
import { limiterOf } from '../clock.js'
import { drivenRedis } from '../driven-redis.js'
import { anything, failureOf, rejectionOf } from '../failure.js'

function messageOf(run: () => unknown): string {
  const { code, message } = failureOf(run)
  expect(code).toBe('INVALID_POLICY')
  return message
}

const LIMITS = { perSecond: { limit: 2, window: '1s' }, perMinute: { limit: 3, window: '1m' } } as const

describe('slidingLog', () => {
  test('keeps its limit exactly in every rolling window', () => {
    const { limiter, clock } = limiterOf(slidingLog({ limit: 2, window: '1s' }))
    expect(limiter.takeSync('a').status).toBe('allowed')
    clock.advance(600)
    expect(limiter.takeSync('a').status).toBe('allowed-last')
    clock.advance(399)
    expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', policy: 'default', retryAfterMs: 1 })
    expect(limiter.takeSync('a', 2)).toMatchObject({ retryAfterMs: 601, resetAfterMs: 601 })
    clock.advance(1)
    expect(limiter.takeSync('a').allowed).toBe(true)
    expect(limiter.takeSync('a').allowed).toBe(false)
  })

  test('refused attempts count only with countRefused', () => {
    for (const countRefused of [false, true]) {
      const { limiter, clock } = limiterOf(slidingLog({ limit: 1, window: 100, countRefused }))
      limiter.takeSync('a')
      clock.advance(99)
      expect(limiter.takeSync('a')).toMatchObject({ allowed: false, retryAfterMs: countRefused ? 100 : 1 })
      expect(limiter.takeSync('a', 2).status).toBe('impossible')
      clock.advance(1)
      expect(limiter.takeSync('a').allowed).toBe(!countRefused)
    }
  })

  test('the policy is plain data, accepted by its factory', () => {
    const policy = slidingLog({ limit: 5, window: '1m' })
    expect(policy).toEqual({ algorithm: 'slidingLog', limit: 5, window: 60_000, countRefused: false })
    expect(Object.isFrozen(policy)).toBe(true)
    expect(limiterOf(JSON.parse(JSON.stringify(policy)) as Policy).limiter.policies).toEqual({ default: policy })
  })

  test("errors have the option's name, value and rule", () => {
    const of = (options: unknown) => messageOf(() => slidingLog(anything(options)))
    for (const limit of [0, -1, 1.5, 100_001, '5', NaN, undefined, null]) {
      expect(of({ limit, window: 1 })).toMatch(/^slidingLog: limit must be a whole number from 1 to 100000, got /)
    }
    expect(of({ limit: 1, window: 0 })).toMatch(/^slidingLog: window must be a duration .* got 0$/)
    expect(of({ limit: 1, window: 1, countRefused: 1 })).toBe('slidingLog: countRefused must be true or false, got 1')
    expect(of({ limit: 1, windw: 1 })).toMatch(
      /has no option "windw"; did you mean "window"\? It takes limit, window, countRefused/,
    )
    const long = slidingLog({ limit: 1, window: `${1e6}d` })
    expect(messageOf(() => new RateLimiter(long))).toMatch(/^slidingLog: window must be .* 2\^52/)
  })
})

describe('with several limits', () => {
  test('a decision names the limit that it reports, and includes all limits', () => {
    const { limiter, clock } = limiterOf(slidingLog({ limits: LIMITS }))
    expect(limiter.takeSync('a')).toEqual({
      allowed: true,
      status: 'allowed',
      policy: 'perSecond',
      limit: 2,
      capacity: 2,
      used: 1,
      remaining: 1,
      retryAfterMs: 0,
      nextAfterMs: 0,
      resetAfterMs: 60_000,
      policies: {
        perSecond: {
          limit: 2,
          capacity: 2,
          used: 1,
          remaining: 1,
          retryAfterMs: 0,
          nextAfterMs: 0,
          resetAfterMs: 1_000,
        },
        perMinute: {
          limit: 3,
          capacity: 3,
          used: 1,
          remaining: 2,
          retryAfterMs: 0,
          nextAfterMs: 0,
          resetAfterMs: 60_000,
        },
      },
      at: clock.read(),
      retryAt: clock.read(),
      resetAt: clock.read() + 60_000,
      source: 'store',
    })
    expect(limiter.takeSync('a')).toMatchObject({ status: 'allowed-last', policy: 'perSecond' })
    const second = limiter.takeSync('a')
    expect(second).toMatchObject({ status: 'refused', policy: 'perSecond', retryAfterMs: 1_000, resetAfterMs: 60_000 })
    expect(second.policies.perMinute).toMatchObject({ remaining: 1, retryAfterMs: 0 })
    clock.advance(1_000)
    expect(limiter.takeSync('a')).toMatchObject({ status: 'allowed-last', policy: 'perMinute', remaining: 0 })
    expect(limiter.takeSync('a')).toMatchObject({ policy: 'perMinute', limit: 3, retryAfterMs: 59_000 })
    expect(limiter.takeSync('b', 3)).toMatchObject({
      status: 'impossible',
      policy: 'perSecond',
      retryAfterMs: null,
      policies: { perSecond: { retryAfterMs: null }, perMinute: { retryAfterMs: 0 } },
    })
  })

  test('among equal limits the first declared is reported', () => {
    const { limiter } = limiterOf(
      slidingLog({ limits: { a: { limit: 2, window: 1_000 }, z: { limit: 1, window: 1 } } }),
    )
    expect(limiter.takeSync('k').policy).toBe('z')
    const both = slidingLog({ limits: { z: { limit: 2, window: 1_000 }, a: { limit: 1, window: 1 } } })
    const { limiter: other, clock } = limiterOf(both)
    other.takeSync('k')
    clock.advance(1)
    expect(other.takeSync('k')).toMatchObject({ policy: 'z', remaining: 0 })
  })

  test('take, takeMany and peek include the names, too', async () => {
    const { limiter } = limiterOf(slidingLog({ limits: LIMITS, precision: '100ms' }))
    expect(await limiter.peek('a', 2)).toMatchObject({ status: 'allowed-last', policy: 'perSecond', remaining: 2 })
    expect(await limiter.take('a')).toMatchObject({ policy: 'perSecond', policies: { perMinute: { remaining: 2 } } })
    const many = await limiter.takeMany(['a', 'b', 'a'])
    expect(many.map(({ policy, status }) => [policy, status])).toEqual([
      ['perSecond', 'allowed-last'],
      ['perSecond', 'allowed'],
      ['perSecond', 'refused'],
    ])
    const failed = await rejectionOf(limiter.takeMany(['a', '', 'c']))
    expect(failed).toMatchObject({
      code: 'INVALID_KEY',
      results: [{ policy: 'perSecond' }, { code: 'INVALID_KEY' }, { allowed: true }],
    })
    expect(() => limiter.takeSync('')).toThrow(expect.objectContaining({ code: 'INVALID_KEY' }))
    await limiter.reset('a')
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 2, resetAfterMs: 0 })
  })

  test('the limiter exposes the policy under the names in decisions', () => {
    const policy = slidingLog({ limits: LIMITS, precision: '100ms' })
    expect(policy).toEqual({
      algorithm: 'slidingLog',
      limits: { perSecond: { limit: 2, window: 1_000 }, perMinute: { limit: 3, window: 60_000 } },
      precision: 100,
    })
    expect([policy, policy.limits, policy.limits.perSecond].every(Object.isFrozen)).toBe(true)
    const again = JSON.parse(JSON.stringify(policy)) as typeof policy
    const { limiter } = limiterOf(again)
    expect(limiter.policies).toEqual({ perSecond: policy, perMinute: policy })
    expect(Object.isFrozen(limiter.policies)).toBe(true)
  })

  test("errors have the option's name, value and rule", () => {
    const of = (options: unknown) => messageOf(() => slidingLog(anything(options)))
    const limits = (limits: unknown, precision?: unknown) => of({ limits, precision })
    expect(limits(undefined)).toBe('slidingLog: limits must be an object of 1 to 8 limits by name, got undefined')
    expect(limits([])).toMatch(/got an array$/)
    expect(limits({})).toMatch(/got 0$/)
    const one = { limit: 1, window: 1 }
    const nine = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`n${index}`, one]))
    expect(limits(nine)).toMatch(/got 9$/)
    for (const name of ['', '1a', 'a b', 'a:b', 'x'.repeat(33), 'é']) {
      expect(limits({ [name]: one })).toMatch(/^slidingLog: limits: the name of a limit must match /)
    }
    expect(limits({ a: { limit: 100_001, window: 1 } })).toMatch(/^slidingLog: limits.a.limit must be a whole number/)
    expect(limits({ a: { limit: 1, window: '1y' } })).toMatch(/^slidingLog: limits.a.window must be a duration/)
    expect(limits({ a: { limit: 1, window: 1, burst: 5 } })).toMatch(/^slidingLog: limits.a has no option "burst"/)
    expect(limits({ a: 5 })).toMatch(/^slidingLog: limits.a takes an object of options/)
    expect(limits({ hour: { limit: 5, window: '1h' }, second: { limit: 5, window: '1s' } })).toBe(
      'slidingLog: limits.second: limit must be smaller than that of "hour", whose window is longer, got 5 and 5',
    )
    expect(limits({ a: { limit: 5, window: '1h' }, b: { limit: 6, window: '60m' } })).toBe(
      'slidingLog: limits.a: window must differ from that of "b", got 3600000 ms for both',
    )
    expect(limits({ a: one }, 0)).toMatch(/^slidingLog: precision must be a duration/)
    expect(limits(LIMITS, '2s')).toBe(
      'slidingLog: precision must be at most the smallest window, and that of "perSecond" is 1000 ms, got "2s"',
    )
    for (const name of ['limit', 'window']) {
      expect(of({ limits: LIMITS, [name]: 5 })).toBe(
        `slidingLog: ${name} and limits cannot be used together: write limits: { name: { limit, window }, … }, or limit and window alone`,
      )
    }
    expect(of({ limits: LIMITS, countRefused: true })).toBe(
      'slidingLog has no option "countRefused"; it takes limits, precision, per, meter, defaultCost, maxOwed',
    )
    expect(of({ limit: 5, window: '1h', precision: '1s' })).toBe(
      'slidingLog has no option "precision"; it takes limit, window, countRefused, per, meter, defaultCost, maxOwed',
    )
    expect(of({})).toMatch(/^slidingLog: limit must be a whole number/)
  })
})

describe('over Redis', () => {
  const redis = drivenRedis()

  test('slidingLog: take, takeMany, peek and reset; all calls of one tick count', async () => {
    const limiter = new RateLimiter(slidingLog({ limit: 3, window: '1h' }), { store: redis.store, prefix: 'log' })
    await limiter.ready()
    expect(await limiter.take('a', 2)).toMatchObject({ status: 'allowed', policy: 'default', limit: 3, remaining: 1 })
    expect(await limiter.peek('a')).toMatchObject({ status: 'allowed-last', remaining: 1 })
    expect(await limiter.peek('a', 2)).toMatchObject({ status: 'refused', remaining: 1 })
    const many = await limiter.takeMany(['a', 'b', 'a', 'b'], [1, 3, 1, 4])
    expect(many.map(({ status }) => status)).toEqual(['allowed-last', 'allowed-last', 'refused', 'impossible'])
    await limiter.reset('a')
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 3, resetAfterMs: 0 })
    const statuses = await Promise.all(Array.from({ length: 64 }, () => limiter.take('hot')))
    expect(statuses.filter(({ allowed }) => allowed)).toHaveLength(3)
  })

  test('a log whose only entry is refunded in part keeps its TTL', async () => {
    const limiter = new RateLimiter(slidingLog({ limit: 9, window: '1h' }), {
      store: redis.store,
      prefix: 'refunded-log',
    })
    const decision = await limiter.take('a', 5)
    expect(await limiter.refund(decision, 2)).toBe(2)
    expect((await limiter.peek('a')).remaining).toBe(6)
    const [name = ''] = await redis.server.command<string[]>('KEYS', 'refunded-log*{*')
    expect(await redis.server.command('PTTL', name)).toBeGreaterThan(0)
  })

  test('countRefused: a caller that keeps trying stays refused', async () => {
    const policy = slidingLog({ limit: 1, window: '1s', countRefused: true })
    const limiter = new RateLimiter(policy, { store: redis.store, prefix: 'counting' })
    expect((await limiter.take('a')).allowed).toBe(true)
    for (let call = 0; call < 30; call++) {
      await redis.time.pass(50)
      expect((await limiter.take('a')).allowed).toBe(false)
    }
    await redis.time.pass(999)
    expect((await limiter.take('a')).allowed).toBe(false)
    await redis.time.pass(1_000)
    expect((await limiter.take('a')).allowed).toBe(true)
  })

  test('several limits: every kind of call reports each limit by name', async () => {
    const limits = { perHour: { limit: 2, window: '1h' }, perDay: { limit: 3, window: '1d' } } as const
    const limiter = new RateLimiter(slidingLog({ limits, precision: '1m' }), { store: redis.store, prefix: 'logs' })
    await limiter.ready()
    expect(await limiter.take('a')).toMatchObject({
      status: 'allowed',
      policy: 'perHour',
      limit: 2,
      remaining: 1,
      policies: { perHour: { limit: 2, remaining: 1 }, perDay: { limit: 3, remaining: 2, retryAfterMs: 0 } },
    })
    expect(await limiter.peek('a', 2)).toMatchObject({
      status: 'refused',
      policy: 'perHour',
      remaining: 1,
      policies: { perDay: { remaining: 2, retryAfterMs: 0 } },
    })
    const many = await limiter.takeMany(['a', 'b', 'a'], [1, 1, 3])
    expect(many).toMatchObject([
      { status: 'allowed-last', policy: 'perHour' },
      { status: 'allowed', policy: 'perHour' },
      { status: 'impossible', policy: 'perHour', retryAfterMs: null, policies: { perDay: { retryAfterMs: 0 } } },
    ])
    const refused = await limiter.take('a')
    expect(refused).toMatchObject({ status: 'refused', policy: 'perHour' })
    // A unit counts for up to a minute longer.
    for (const [millis, windowMs] of [
      [refused.retryAfterMs as number, 3_600_000],
      [refused.policies.perHour.resetAfterMs, 3_600_000],
      [refused.resetAfterMs, 86_400_000],
    ] as const) {
      expect(millis).toBeGreaterThanOrEqual(windowMs)
      expect(millis).toBeLessThanOrEqual(windowMs + 60_000)
    }
  })

  test('limiters of one limit and of several share a flush, and each gets its own result', async () => {
    const several = new RateLimiter(slidingLog({ limits: LIMITS }), { store: redis.store, prefix: 'mixed-logs' })
    const single = new RateLimiter(slidingLog({ limit: 9, window: '1h' }), { store: redis.store, prefix: 'mixed-log' })
    const keys = Array.from({ length: 10 }, (_, index) => `key ${index}`)
    const calls = keys.flatMap((key) => [several.take(key), single.take(key), several.take('hot')])
    const decisions = await Promise.all(calls)
    decisions.forEach(({ policy, limit, remaining, policies }, index) => {
      if (index % 3 === 1) {
        expect([policy, limit, remaining, Object.keys(policies)]).toEqual(['default', 9, 8, ['default']])
      } else {
        expect([policy, limit, Object.keys(policies)]).toEqual(['perSecond', 2, ['perSecond', 'perMinute']])
      }
    })
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(22)
    await redis.server.command('SET', 'mixed-logs:default:sls:{bad}', 'x')
    const error = await rejectionOf(several.takeMany(['good', 'bad']))
    expect(error).toMatchObject({ code: 'STORE_ERROR', results: [{ policy: 'perSecond' }, { code: 'STORE_ERROR' }] })
  })

  test('two limiters of one policy and prefix count together in one flush', async () => {
    const policies = [
      slidingLog({ limit: 3, window: '1h' }),
      slidingLog({ limits: { hourly: { limit: 3, window: '1h' } } }),
    ]
    for (const policy of policies) {
      const of = () => new RateLimiter(policy, { store: redis.store, prefix: 'same' })
      const [one, other] = [of(), of()]
      const decisions = await Promise.all([one, other, one, other, one].map((limiter) => limiter.take('a')))
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(3)
      await Promise.all([one.close(), other.close()])
    }
  })
})
