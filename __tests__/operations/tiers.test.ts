/** `tiers({ … })`: numbers that depend on the caller's tier. */
import {
  calendarWindow,
  fixedWindow,
  type GcraPolicy,
  gcra,
  leakyBucket,
  type Policy,
  RateLimiter,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tiers,
  tokenBucket,
} from '../../ts/index.js'
import { anything, rejectionOf } from '../failure.js'
import { BACKENDS, embedded } from './stores.js'

const refill = { tokens: 1, every: '1h' } as const
const logs = (limit: number) =>
  slidingLog({ limits: { short: { limit, window: '1h' }, long: { limit: 90, window: '1d' } } })

/** Policies that admit 3 units at once, and the same with 7. */
const THREE_AND_SEVEN: readonly (readonly [string, Policy, Policy])[] = [
  ['gcra', gcra({ limit: 3, period: '1h' }), gcra({ limit: 7, period: '1h' })],
  ['tokenBucket', tokenBucket({ capacity: 3, refill }), tokenBucket({ capacity: 7, refill })],
  [
    'an interval bucket',
    tokenBucket({ capacity: 3, refill, refillMode: 'interval' }),
    tokenBucket({ capacity: 7, refill, refillMode: 'interval' }),
  ],
  [
    'leakyBucket',
    leakyBucket({ capacity: 3, leak: { units: 1, every: '1h' } }),
    leakyBucket({ capacity: 7, leak: { units: 1, every: '1h' } }),
  ],
  ['fixedWindow', fixedWindow({ limit: 3, window: '1h' }), fixedWindow({ limit: 7, window: '1h' })],
  ['calendarWindow', calendarWindow({ limit: 3, every: 'month' }), calendarWindow({ limit: 7, every: 'month' })],
  ['slidingWindow', slidingWindow({ limit: 3, window: '1h' }), slidingWindow({ limit: 7, window: '1h' })],
  [
    'slidingWindow in a hash',
    slidingWindow({ limit: 3, window: '1h', layout: 'hash' }),
    slidingWindow({ limit: 7, window: '1h', layout: 'hash' }),
  ],
  ['slidingCounter', slidingCounter({ limit: 3, window: '1d' }), slidingCounter({ limit: 7, window: '1d' })],
  ['slidingLog', slidingLog({ limit: 3, window: '1h' }), slidingLog({ limit: 7, window: '1h' })],
  ['slidingLog, limits', logs(3), logs(7)],
]

const plans = tiers({ free: gcra({ limit: 3, period: '1h' }), pro: gcra({ limit: 7, period: '1h' }) })

describe.each(BACKENDS)('tiers: $name', (backend) => {
  test.each(THREE_AND_SEVEN)('%s: each tier has its numbers, on one state', async (_, free, pro) => {
    const limiter = backend.limiter(tiers({ free, pro }))
    expect((await limiter.take('a', { tier: 'free', cost: 3 })).status).toBe('allowed-last')
    expect((await limiter.take('a', { tier: 'free' })).status).toBe('refused')
    expect(await limiter.peek('a', { tier: 'pro' })).toMatchObject({ limit: 7, remaining: 4 })
    expect((await limiter.take('a', { tier: 'pro', cost: 4 })).status).toBe('allowed-last')
    expect((await limiter.take('a', { tier: 'pro' })).status).toBe('refused')
    expect((await limiter.take('a', { tier: 'free' })).status).toBe('refused')
    expect((await limiter.take('b', { tier: 'free', cost: 4 })).status).toBe('impossible')
  })

  test('calls of one tick take effect in call order, whatever their tiers', async () => {
    const limiter = backend.limiter(plans)
    const calls = [
      limiter.take('a', { tier: 'free', cost: 3 }),
      limiter.take('b', { tier: 'pro', cost: 7 }),
      limiter.take('a', { tier: 'free' }),
      limiter.take('a', { tier: 'pro', cost: 3 }),
      limiter.take('b', { tier: 'free' }),
      limiter.take('a', { tier: 'pro' }),
      limiter.reset('a'),
      limiter.take('a', { tier: 'free', cost: 3 }),
      limiter.take('a', { tier: 'pro', cost: 5 }),
    ]
    const results = await Promise.all(calls)
    expect(results.map((result) => (typeof result === 'object' ? result.status : result))).toEqual([
      'allowed-last',
      'allowed-last',
      'refused',
      'allowed',
      'refused',
      'allowed-last',
      'store',
      'allowed-last',
      'refused',
    ])
  })

  test('every operation that decides has a tier', async () => {
    const limiter = backend.limiter(plans)
    const [free, pro] = [{ tier: 'free' }, { tier: 'pro' }] as const
    const many = await limiter.takeMany(['a', 'a', 'b'], { ...pro, cost: 4 })
    expect(many.map(({ status }) => status)).toEqual(['allowed', 'refused', 'allowed'])
    expect(await limiter.takeUpTo('a', 9, free)).toMatchObject({ granted: 0 })
    expect(await limiter.takeUpTo('a', 9, pro)).toMatchObject({ granted: 3 })
    expect(await limiter.penalize('c', 9, free)).toBe(3)
    expect(await limiter.penalize('c', 9, pro)).toBe(4)
    expect(await limiter.wait('d', { ...pro, cost: 7 })).toMatchObject({ status: 'allowed-last', waitedMs: 0 })
    expect((await rejectionOf(limiter.wait('d', { ...free, maxWait: 0 }))).code).toBe('WAIT_TOO_LONG')
    const reservation = await limiter.reserve('e', 5, pro)
    expect(reservation.allowed && (await reservation.commit(2))).toMatchObject({ settled: true, refunded: 3 })
    expect(await limiter.peek('e', free)).toMatchObject({ remaining: 1 })
  })

  test('units go back whatever the tier that took them', async () => {
    const limiter = backend.limiter(plans)
    const decision = await limiter.take('a', { tier: 'pro', cost: 5 })
    expect((await limiter.take('a', { tier: 'free' })).allowed).toBe(false)
    expect(await limiter.refund(decision)).toBe(5)
    expect((await limiter.take('a', { tier: 'free', cost: 3 })).status).toBe('allowed-last')
  })

  test('a block and an override concern all tiers', async () => {
    const limiter = backend.limiter(plans)
    await limiter.block('a', '1h')
    expect((await limiter.take('a', { tier: 'free' })).status).toBe('blocked')
    expect((await limiter.take('a', { tier: 'pro' })).status).toBe('blocked')
    await limiter.override('b', { burst: 5 }, { ttl: '1h', tier: 'pro' })
    expect(await limiter.peek('b', { tier: 'free' })).toMatchObject({ capacity: 5 })
    expect(await limiter.peek('b', { tier: 'pro' })).toMatchObject({ capacity: 5 })
    await limiter.clearOverride('b')
    expect(await limiter.peek('b', { tier: 'free' })).toMatchObject({ capacity: 3 })
  })

  test('several policies, of which some have tiers', async () => {
    const limiter = backend.limiter({
      user: tiers({
        free: gcra({ limit: 3, period: '1h', per: 'user' }),
        pro: gcra({ limit: 7, period: '1h', per: 'user' }),
      }),
      day: tiers({
        free: fixedWindow({ limit: 4, window: '1d', per: 'user' }),
        pro: fixedWindow({ limit: 40, window: '1d', per: 'user' }),
      }),
      all: gcra({ limit: 9, period: '1h', per: 'global' }),
    })
    const refused = await limiter.take({ user: 'a' }, { tier: 'free', cost: 4 })
    expect(refused).toMatchObject({ status: 'impossible', policy: 'user' })
    const taken = await limiter.take({ user: 'a' }, { tier: 'pro', cost: 7 })
    expect(taken.policies).toMatchObject({
      user: { limit: 7 },
      day: { limit: 40, remaining: 33 },
      all: { remaining: 2 },
    })
    const other = await limiter.take({ user: 'b' }, { tier: 'free', cost: 3 })
    expect(other).toMatchObject({ allowed: false, policy: 'all' })
  })

  test('a hundred tiers', async () => {
    const names = Array.from({ length: 100 }, (_, index) => `tier-${index}`)
    const all = names.map((name, index) => [name, fixedWindow({ limit: index + 1, window: '1h' })] as const)
    const limiter = backend.limiter(tiers(Object.fromEntries(all)))
    const calls = Array.from({ length: 2_000 }, async (_, call) => {
      const tier = call % 100
      return { tier, ...(await limiter.take(`key-${tier}`, { tier: `tier-${tier}`, cost: 5 })) }
    })
    for (const { tier, limit } of await Promise.all(calls)) {
      expect(limit).toBe(tier + 1)
    }
    for (const [index, name] of names.entries()) {
      expect((await limiter.peek(`key-${index}`, { tier: name, cost: 0 })).remaining).toBe((index + 1) % 5)
    }
  })
})

describe('mistakes', () => {
  const limiter = embedded().limiter(plans)
  const untiered = embedded().limiter(gcra({ limit: 1, period: '1s' }))

  test('a call without a tier', async () => {
    const untyped = limiter as unknown as RateLimiter<GcraPolicy>
    const rule = 'take: tier must be one of "free", "pro", got undefined'
    await expect(untyped.take('a')).rejects.toThrow(rule)
    await expect(untyped.take('a', 2)).rejects.toThrow(rule)
    await expect(untyped.takeMany(['a'])).rejects.toThrow('takeMany: tier must be')
    await expect(untyped.takeMany(['a'], [1])).rejects.toThrow('takeMany: tier must be')
    await expect(untyped.peek('a')).rejects.toThrow('peek: tier must be')
    await expect(untyped.takeUpTo('a', 1)).rejects.toThrow('takeUpTo: tier must be')
    await expect(untyped.penalize('a', 1)).rejects.toThrow('penalize: tier must be')
    await expect(untyped.wait('a')).rejects.toThrow('wait: tier must be')
    await expect(untyped.reserve('a', 1)).rejects.toThrow('reserve: tier must be')
    await expect(untyped.override('a', { limit: 1 }, { ttl: '1m' })).rejects.toThrow('override: tier must be')
  })

  test('an unknown tier, and a tier without tiers', async () => {
    // @ts-expect-error no such tier
    await expect(limiter.take('a', { tier: 'gold' })).rejects.toThrow('must be one of "free", "pro", got "gold"')
    await expect(limiter.take('a', { tier: anything('__proto__') })).rejects.toThrow('must be one of')
    // @ts-expect-error no tiers
    const none = untiered.take('a', { tier: 'free' })
    await expect(none).rejects.toThrow(
      'take has no option "tier": the limiter has no tiers; make the limiter with tiers(',
    )
  })

  test.each([
    [{}, 'tiers must be 1 to 1000 policies, got 0'],
    [[gcra({ limit: 1, period: '1s' })], 'tiers must be an object of policies by tier, got an array'],
    [{ free: 7 }, 'tiers.free must be made by a function'],
    [{ 'a b': gcra({ limit: 1, period: '1s' }) }, 'the name of a tier must match'],
    [
      { free: gcra({ limit: 1, period: '1s' }), pro: fixedWindow({ limit: 1, window: '1s' }) },
      'differ in numbers only: algorithm is "gcra" in free and "fixedWindow" in pro; use a limiter for each',
    ],
    [
      {
        free: slidingWindow({ limit: 1, window: '1s' }),
        pro: slidingWindow({ limit: 1, window: '1s', layout: 'hash' }),
      },
      'layout is "list" in free and "hash" in pro',
    ],
    [
      { free: slidingLog({ limit: 1, window: '1h' }), pro: logs(7) },
      'the names of the limits is "none" in free and "short, long" in pro',
    ],
    [
      { free: calendarWindow({ limit: 1, every: 'day' }), pro: calendarWindow({ limit: 1, every: 'month' }) },
      'every is "day" in free and "month" in pro',
    ],
    [
      { free: gcra({ limit: 1, period: '1s', per: 'ip' }), pro: gcra({ limit: 1, period: '1s' }) },
      'per is "ip" in free and undefined in pro',
    ],
  ])('tiers(%#)', (value, message) => {
    expect(() => tiers(anything(value))).toThrow(message)
  })

  test('policies with different tiers', () => {
    const other = tiers({
      free: fixedWindow({ limit: 1, window: '1h' }),
      gold: fixedWindow({ limit: 2, window: '1h' }),
    })
    const rule = 'policies must have the same tiers: "pro" is not in both policies.a and policies.b'
    expect(() => new RateLimiter({ a: plans, b: other })).toThrow(rule)
  })

  test('the policies of each tier can be read', () => {
    expect(limiter.tiers.pro.default.limit).toBe(7)
    expect(limiter.policies.default.limit).toBe(3)
    expect(untiered.tiers).toEqual({})
  })
})
