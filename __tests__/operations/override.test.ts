import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tiers,
  tokenBucket,
} from '../../ts/index.js'
import { anything } from '../failure.js'
import { BACKENDS } from './stores.js'

const refill = { tokens: 1, every: '1h' } as const
const logs = slidingLog({ limits: { short: { limit: 3, window: '1h' }, long: { limit: 9, window: '1d' } } })

/** Policies that admit 3 units at once, and the numbers with which they admit 7. */
const SEVEN: readonly (readonly [Policy, object])[] = [
  [gcra({ limit: 3, period: '1h' }), { limit: 7 }],
  [tokenBucket({ capacity: 3, refill }), { capacity: 7 }],
  [tokenBucket({ capacity: 3, refill, refillMode: 'interval' }), { capacity: 7, refill: { tokens: 2 } }],
  [tokenBucket({ capacity: 3, refill }), { debt: 4 }],
  [leakyBucket({ capacity: 3, leak: { units: 1, every: '1h' } }), { capacity: 7, leak: { every: '2h' } }],
  [fixedWindow({ limit: 3, window: '1h' }), { limit: 7 }],
  [calendarWindow({ limit: 3, every: 'month' }), { limit: 7 }],
  [slidingWindow({ limit: 3, window: '1h', buckets: 60 }), { limit: 7 }],
  [slidingCounter({ limit: 3, window: '1d' }), { limit: 7 }],
  [slidingLog({ limit: 3, window: '1h' }), { limit: 7, window: '2h' }],
  [logs, { limits: { short: { limit: 7 } } }],
]

describe.each(BACKENDS)('override: $name', (backend) => {
  test.each(SEVEN)('$algorithm: a key has its override until it ends', async (policy, numbers) => {
    const limiter = backend.limiter(policy)
    await limiter.override('a', anything(numbers), { ttl: '300ms' })
    expect((await limiter.peek('a', 8)).status).toBe('impossible')
    expect((await limiter.peek('a', 7)).status).toBe('allowed-last')
    expect((await limiter.peek('b', 4)).status).toBe('impossible')
    await backend.pass(300)
    expect((await limiter.peek('a', 4)).status).toBe('impossible')
    expect((await limiter.take('a', 3)).status).toBe('allowed-last')
  })

  test('used units still count, before and after', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 3, window: '1h' }))
    await limiter.take('a', 3)
    await limiter.override('a', { limit: 5 }, { ttl: '1h' })
    expect(await limiter.take('a')).toMatchObject({ status: 'allowed', limit: 5, remaining: 1 })
    await limiter.clearOverride('a')
    expect(await limiter.peek('a')).toMatchObject({ status: 'refused', limit: 3, remaining: 0 })
  })

  test('reset keeps it, another replaces it, and otherwise the key is fresh', async () => {
    const limiter = backend.limiter(gcra({ limit: 3, period: '1h' }))
    await limiter.override('a', { limit: 5 }, { ttl: '1h' })
    await limiter.take('a', 5)
    await limiter.reset('a')
    expect(await limiter.peek('a')).toMatchObject({ limit: 5, remaining: 5, resetAfterMs: 0 })
    await limiter.override('a', { burst: 2 }, { ttl: '1h' })
    expect(await limiter.peek('a')).toMatchObject({ limit: 3, capacity: 2, remaining: 2 })
    await limiter.clearOverride('a')
    await limiter.clearOverride('never seen')
    expect((await limiter.peek('a')).limit).toBe(3)
  })

  test('a burst or an initial level that was not given follows it', async () => {
    const own = backend.limiter(gcra({ limit: 3, period: '1h' }))
    await own.override('a', { limit: 9, period: '1m' }, { ttl: '1h' })
    expect(await own.peek('a')).toMatchObject({ limit: 9, capacity: 9 })
    const bucket = backend.limiter(tokenBucket({ capacity: 5, refill }))
    await bucket.override('a', { capacity: 9 }, { ttl: '1h' })
    expect(await bucket.peek('a')).toMatchObject({ limit: 9, remaining: 9 })
  })

  test('a burst or an initial level that was given stays, also if it is the default', async () => {
    for (const period of ['1h', '1m'] as const) {
      const paced = backend.limiter(gcra({ limit: 1, period: '1h', burst: 1 }))
      await paced.override('a', { limit: 5, period }, { ttl: '1h' })
      expect(await paced.take('a', 2)).toMatchObject({ status: 'impossible', limit: 5, capacity: 1 })
      expect((await paced.take('a')).status).toBe('allowed-last')
    }
    const tiered = backend.limiter(
      tiers({ free: gcra({ limit: 1, period: '1h', burst: 1 }), pro: gcra({ limit: 2, period: '1h' }) }),
    )
    await tiered.override('a', { limit: 5 }, { ttl: '1h', tier: 'free' })
    expect((await tiered.peek('a', { tier: 'pro' })).capacity).toBe(1)
    await tiered.override('a', { limit: 5 }, { ttl: '1h', tier: 'pro' })
    expect((await tiered.peek('a', { tier: 'free' })).capacity).toBe(5)
    const full = backend.limiter(tokenBucket({ capacity: 5, refill, initial: 5 }))
    await full.override('a', { capacity: 9 }, { ttl: '1h' })
    expect(await full.peek('a')).toMatchObject({ limit: 9, remaining: 5 })
    const own = backend.limiter(gcra({ limit: 3, period: '1h', burst: 2 }))
    await own.override('a', { limit: 9 }, { ttl: '1h' })
    expect(await own.peek('a')).toMatchObject({ limit: 9, capacity: 2 })
    const low = backend.limiter(tokenBucket({ capacity: 5, refill, initial: 1 }))
    await low.override('a', { capacity: 9 }, { ttl: '1h' })
    expect(await low.peek('a')).toMatchObject({ limit: 9, remaining: 1 })
  })

  test('the limit is the number that was written, and the capacity the largest cost', async () => {
    const limiter = backend.limiter(gcra({ limit: 100, period: '1m', burst: 20 }))
    expect(await limiter.peek('a')).toMatchObject({ limit: 100, capacity: 20, used: 0, remaining: 20 })
    await limiter.override('a', { limit: 250 }, { ttl: '1h' })
    expect(await limiter.take('a', 5)).toMatchObject({ limit: 250, capacity: 20, used: 5, remaining: 15 })
    await limiter.override('a', { limit: 1, period: '1s', burst: 30 }, { ttl: '1h' })
    expect(await limiter.take('a')).toMatchObject({ limit: 1, capacity: 30 })
    expect((await limiter.peek('a')).policies.default).toMatchObject({ limit: 1, capacity: 30 })
    for (const period of ['1h', '7m', '8d'] as const) {
      await limiter.override('a', { limit: 500, period }, { ttl: '1h' })
      const answers = [await limiter.take('a'), await limiter.peek('a'), await limiter.takeUpTo('a', 3)]
      for (const { limit, policies } of answers) {
        expect([limit, policies.default.limit]).toEqual([500, 500])
      }
    }
    limiter.update(gcra({ limit: 90, period: '1m', burst: 20 }))
    expect((await limiter.peek('a')).limit).toBe(500)
    await limiter.clearOverride('a')
    expect((await limiter.peek('a')).limit).toBe(90)
    const bucket = backend.limiter(tokenBucket({ capacity: 5, refill, debt: 3 }))
    expect(await bucket.take('a', 2)).toMatchObject({ limit: 5, capacity: 8, used: 2, remaining: 6 })
  })

  test('the written limit is reported among several policies, and in every tier', async () => {
    const rate = gcra({ limit: 100, period: '1m' })
    const several = backend.limiter({ rate, day: fixedWindow({ limit: 900, window: '1d' }) })
    await several.override('a', { rate: { limit: 500, period: '1h' } }, { ttl: '1h' })
    for (const { policies } of [await several.take('a'), await several.peek('a')]) {
      expect([policies.rate.limit, policies.day.limit]).toEqual([500, 900])
    }
    const tiered = backend.limiter(tiers({ free: rate, pro: gcra({ limit: 1_000, period: '1s' }) }))
    await tiered.override('a', { limit: 500, period: '1h' }, { ttl: '1h', tier: 'pro' })
    for (const tier of ['free', 'pro'] as const) {
      expect([(await tiered.take('a', { tier })).limit, (await tiered.peek('a', { tier })).limit]).toEqual([500, 500])
    }
  })

  test('a set of policies: the named ones are overridden, and the others need no key', async () => {
    const limiter = backend.limiter({
      ip: gcra({ limit: 3, period: '1h', per: 'ip' }),
      account: fixedWindow({ limit: 4, window: '1h', per: 'account' }),
      all: gcra({ limit: 100, period: '1h', per: 'global' }),
    })
    const key = { ip: '1', account: 'ann' }
    const limitsOf = async () => Object.values((await limiter.peek(key)).policies).map(({ limit }) => limit)
    await limiter.override({ account: 'ann' }, { account: { limit: 40 } }, { ttl: '1h' })
    expect(await limitsOf()).toEqual([3, 40, 100])
    await limiter.override(key, { ip: { limit: 30 }, all: { limit: 200 } }, { ttl: '1h' })
    expect(await limitsOf()).toEqual([30, 40, 200])
    await limiter.override({ ip: '1', global: true }, { ip: { limit: 31 }, all: { limit: 201 } }, { ttl: '1h' })
    await limiter.override({ account: 'ann', global: true }, { account: { limit: 41 } }, { ttl: '1h' })
    expect(await limitsOf()).toEqual([31, 41, 201])
    await limiter.override({ global: true }, { all: { limit: 200 } }, { ttl: '1h' })
    await limiter.override({}, { all: { limit: 200 } }, { ttl: '1h' })
    await limiter.clearOverride(key)
    expect(await limitsOf()).toEqual([3, 4, 200])
    await limiter.clearOverride({ global: true })
    expect(await limitsOf()).toEqual([3, 4, 100])
    await expect(limiter.override({ ip: '1' }, { account: { limit: 5 } }, { ttl: '1h' })).rejects.toMatchObject({
      code: 'INVALID_KEY',
      message: 'key.account must be a string, got undefined',
    })
    for (const global of [false, 'yes']) {
      const key = anything({ ip: '1', global })
      await expect(limiter.override(key, { ip: { limit: 5 } }, { ttl: '1h' })).rejects.toMatchObject({
        code: 'INVALID_KEY',
        message: expect.stringContaining('key.global must be true'),
      })
    }
  })

  test('a record of one policy takes its override by name', async () => {
    const limiter = backend.limiter({ only: gcra({ limit: 3, period: '1h' }) })
    await limiter.override('a', { only: { limit: 5 } }, { ttl: '1h' })
    expect((await limiter.peek('a')).limit).toBe(5)
  })

  test.each([
    [gcra({ limit: 3, period: '1h' }), { layout: 'hash' }, 'override has no option "layout"; it takes limit, period'],
    [gcra({ limit: 3, period: '1h' }), { per: 'ip' }, 'override has no option "per"'],
    [gcra({ limit: 3, period: '1h' }), { algorithm: 'gcra' }, 'override has no option "algorithm"'],
    [fixedWindow({ limit: 3, window: '1h' }), { countRefused: true }, 'override has no option "countRefused"'],
    [calendarWindow({ limit: 3, every: 'day' }), { timeZone: 'UTC' }, 'override has no option "timeZone"'],
    [calendarWindow({ limit: 3, every: 'day' }), { every: 'hour' }, 'override has no option "every"'],
    [slidingWindow({ limit: 3, window: '1h' }), { buckets: 5 }, 'override has no option "buckets"'],
    [slidingWindow({ limit: 3, window: '1h' }), { layout: 'hash' }, 'override has no option "layout"'],
    [tokenBucket({ capacity: 3, refill }), { refillMode: 'interval' }, 'override has no option "refillMode"'],
    [tokenBucket({ capacity: 3, refill }), { refill: { units: 1 } }, 'override: refill has no option "units"'],
    [leakyBucket({ capacity: 3, leak: { units: 1, every: 1 } }), { leak: 5 }, 'override: leak takes an object'],
    [logs, { precision: 1 }, 'override has no option "precision"'],
    [logs, { limits: { other: { limit: 5 } } }, 'override: limits has no option "other"; it takes short, long'],
    [logs, { limits: { short: { name: 'x' } } }, 'override: limits.short has no option "name"'],
    [gcra({ limit: 3, period: '1h' }), {}, 'override takes at least one of "limit", "period", "burst"'],
    [gcra({ limit: 3, period: '1h' }), undefined, 'override takes an object with some of limit, period, burst'],
    [gcra({ limit: 3, period: '1h' }), 5, 'override takes an object of options'],
  ] as [Policy, unknown, string][])('$algorithm: %p cannot be overridden', async (policy, numbers, message) => {
    const limiter = backend.limiter(policy)
    await expect(limiter.override('a', anything(numbers), { ttl: '1h' })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining(message),
    })
  })

  test.each([
    [gcra({ limit: 3, period: '1h' }), { limit: 0 }, 'gcra: limit must be a whole number'],
    [gcra({ limit: 3, period: '1h' }), { period: 'x' }, 'gcra: period must be a duration'],
    [
      gcra({ limit: 3, period: '1h' }),
      { limit: 2 ** 53 - 1, period: 1 },
      'override: gcra: burst is too large to count',
    ],
    [tokenBucket({ capacity: 3, refill, initial: 2 }), { capacity: 1 }, 'tokenBucket: initial must be'],
    [logs, { limits: { short: { limit: 9 } } }, 'limit must be smaller than that of "long"'],
  ] as [Policy, object, string][])('$algorithm: %p is not a valid override', async (policy, numbers, message) => {
    const limiter = backend.limiter(policy)
    await expect(limiter.override('a', anything(numbers), { ttl: '1h' })).rejects.toMatchObject({
      code: 'INVALID_POLICY',
      message: expect.stringContaining(message),
    })
    expect((await limiter.peek('a', 0)).remaining).toBeGreaterThan(0)
  })

  test("a set of policies requires the policy's name", async () => {
    const limiter = backend.limiter({ one: gcra({ limit: 3, period: '1h' }), two: gcra({ limit: 4, period: '1h' }) })
    const failing = (numbers: unknown) => limiter.override('a', anything(numbers), { ttl: '1h' })
    await expect(failing({ three: { limit: 5 } })).rejects.toMatchObject({
      message: 'override has no option "three"; it takes one, two',
    })
    await expect(failing({ limit: 5 })).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(failing({})).rejects.toMatchObject({ message: 'override takes at least one of "one", "two"' })
    await expect(failing({ one: {} })).rejects.toMatchObject({ message: expect.stringMatching(/^override: one takes/) })
  })

  test('a ttl is required', async () => {
    const limiter = backend.limiter(gcra({ limit: 3, period: '1h' }))
    const failing = (options: unknown) => limiter.override('a', { limit: 5 }, anything(options))
    for (const ttl of [undefined, 0, -1, '1y', null, NaN, `${1e6}d`]) {
      await expect(failing({ ttl })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^ttl must be /),
      })
    }
    await expect(failing(undefined)).rejects.toMatchObject({
      message: expect.stringMatching(/^override takes an object/),
    })
    await expect(failing({ ttl: 1, tll: 2 })).rejects.toMatchObject({
      message: 'override has no option "tll"; did you mean "ttl"? It takes ttl, tag, tier',
    })
  })
})
