/** `limiter.update(policies)`: numbers that change while the program runs. */
import {
  fixedWindow,
  gcra,
  MemoryStore,
  RateLimiter,
  RedisStore,
  slidingCounter,
  slidingWindow,
  tiers,
} from '../../ts/index.js'
import { anything } from '../failure.js'
import { openedRedis } from '../redis/opened.js'
import { until } from '../servers/until.js'
import { BACKENDS, embedded } from './stores.js'

const hourly = (limit: number) => gcra({ limit, period: '1h' })

describe.each(BACKENDS)('update: $name', (backend) => {
  test('decides the next calls, and calls under way are decided by the old numbers', async () => {
    const limiter = backend.limiter(hourly(3))
    const before = [limiter.take('a', 3), limiter.take('a'), limiter.takeMany(['b', 'b'], 2)] as const
    limiter.update(hourly(5))
    const after = [limiter.take('a', 2), limiter.take('a'), limiter.takeMany(['b', 'b'], 2)] as const
    expect((await Promise.all(before)).flat().map(({ status, limit }) => [status, limit])).toEqual([
      ['allowed-last', 3],
      ['refused', 3],
      ['allowed', 3],
      ['refused', 3],
    ])
    expect((await Promise.all(after)).flat().map(({ status, limit }) => [status, limit])).toEqual([
      ['allowed-last', 5],
      ['refused', 5],
      ['allowed', 5],
      ['refused', 5],
    ])
    expect(limiter.policies.default).toMatchObject({ limit: 5, burst: undefined })
    await limiter.close()
  })

  test('again and again', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 1, window: '1h' }))
    for (let limit = 2; limit <= 200; limit++) {
      limiter.update(fixedWindow({ limit, window: '1h' }))
      expect(await limiter.take('a', limit - 1)).toMatchObject({ limit })
      await limiter.reset('a')
    }
    await limiter.close()
  })

  test('waits, reservations and decisions stay valid', async () => {
    const limiter = backend.limiter(gcra({ limit: 4, period: '1s', burst: 1 }))
    const decision = await limiter.take('a')
    const pending = limiter.wait('a')
    const controller = new AbortController()
    const aborted = limiter.wait('a', { signal: controller.signal })
    const reservation = await limiter.reserve('b', 1)
    limiter.update(gcra({ limit: 8, period: '1s', burst: 2 }))
    controller.abort()
    await expect(aborted).rejects.toThrow('aborted')
    expect((await backend.until(pending)).waitedMs).toBe(250)
    expect(reservation.allowed && (await reservation.cancel())).toMatchObject({ settled: true })
    expect(await limiter.refund(decision)).toBe(0)
    await limiter.close()
  })

  test('tiers', async () => {
    const plans = (free: number, pro: number) => tiers({ free: hourly(free), pro: hourly(pro) })
    const limiter = backend.limiter(plans(3, 7))
    await limiter.take('a', { tier: 'free', cost: 3 })
    limiter.update(plans(4, 8))
    expect((await limiter.take('a', { tier: 'free' })).status).toBe('allowed-last')
    expect((await limiter.take('a', { tier: 'pro', cost: 4 })).status).toBe('allowed-last')
    expect(limiter.tiers.free.default.limit).toBe(4)
    await limiter.close()
  })

  test('a shorter window keeps its count, and ends at most one new window from now', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 100, window: '1d' }))
    await limiter.take('a')
    limiter.update(fixedWindow({ limit: 100, window: '1h' }))
    const decision = await limiter.take('a')
    expect(decision).toMatchObject({ allowed: true, remaining: 98 })
    expect(decision.resetAfterMs).toBe(3_600_000)
    await limiter.close()
  })
})

describe('what cannot be updated', () => {
  const limiter = embedded().limiter(hourly(3))

  test.each([
    [fixedWindow({ limit: 3, window: '1h' }), 'algorithm was "gcra" and is now "fixedWindow"; make a new limiter'],
    [{ default: hourly(4) }, 'numbers only: the names of policies were (none) and are now default; make a new limiter'],
    [gcra({ limit: 3, period: '1h', per: 'ip' }), 'per was undefined and is now "ip"'],
    [tiers({ free: hourly(4) }), 'numbers only: the tiers were (none) and are now free; make a new limiter'],
    [7, 'policy must be made by a function'],
    [undefined, 'policy must be made by a function'],
  ])('%#', async (policies, message) => {
    expect(() => limiter.update(anything(policies))).toThrow(message)
    expect(limiter.policies.default).toMatchObject({ limit: 3 })
    expect((await limiter.peek('a', 0)).limit).toBe(3)
  })

  test('names and their order', () => {
    const two = embedded().limiter({ a: hourly(1), b: hourly(2) })
    expect(() => two.update({ b: hourly(2), a: hourly(1) })).toThrow('the names of policies were a, b and are now b, a')
    two.update({ a: hourly(3), b: hourly(4) })
    expect(two.policies.b).toMatchObject({ limit: 4 })
    const list = embedded().limiter(slidingWindow({ limit: 1, window: '1s' }))
    expect(() => list.update(slidingWindow({ limit: 1, window: '1s', layout: 'hash' }))).toThrow('layout was "list"')
    const counter = embedded().limiter(slidingCounter({ limit: 1, window: '1s' }))
    const surplus: [never] = [slidingCounter({ limit: 2, window: '1s' }), 1] as never
    expect(() => counter.update(...surplus)).toThrow('update takes the policies')
  })

  test('numbers that one tier cannot count change no tier', async () => {
    const store = new MemoryStore()
    const plans = (free: number, pro: number) => tiers({ free: hourly(free), pro: hourly(pro) })
    const tiered = new RateLimiter(plans(1, 2), { store, prefix: 'api' })
    expect(() => tiered.update(plans(3, 9_007_199_254_740_881))).toThrow('gcra')
    expect((await tiered.peek('a', { tier: 'free' })).limit).toBe(1)
    const other = new RateLimiter(plans(1, 2), { store, prefix: 'api' })
    expect((await other.peek('a', { tier: 'pro' })).limit).toBe(2)
    await Promise.all([other.close(), tiered.close()])
  })

  test('a closed limiter', async () => {
    const closed = embedded().limiter(hourly(1))
    await closed.close()
    expect(() => closed.update(hourly(2))).toThrow('the limiter has been closed')
  })

  test('limiters of one prefix: later ones have the new numbers', async () => {
    const store = new MemoryStore()
    const options = { store, prefix: 'api' } as const
    const [first, second] = [new RateLimiter(hourly(1), options), new RateLimiter(hourly(1), options)]
    first.update(hourly(2))
    expect((await second.take('a')).limit).toBe(1)
    expect((await first.take('a')).limit).toBe(2)
    const third = new RateLimiter(hourly(2), options)
    expect((await third.take('a')).status).toBe('refused')
    await Promise.all([first, second, third].map((limiter) => limiter.close()))
    await new RateLimiter(hourly(7), options).close()
  })
})

describe('with other options of a limiter over Redis', () => {
  const redis = openedRedis()
  const plans = (free: number, pro: number) => tiers({ free: hourly(free), pro: hourly(pro) })

  test('an embedded share follows updates and tiers', async () => {
    const store = new RedisStore({ url: 'redis://127.0.0.1:9', commandTimeout: 50 })
    const onStoreFailure = { embedded: { share: 0.5 } }
    const limiter = new RateLimiter(plans(4, 8), { store, prefix: 'share', onStoreFailure })
    expect(await limiter.take('a', { tier: 'free' })).toMatchObject({ source: 'fallback', limit: 2 })
    limiter.update(plans(6, 10))
    expect(await limiter.take('a', { tier: 'free' })).toMatchObject({ source: 'fallback', limit: 3, remaining: 1 })
    expect(await limiter.take('a', { tier: 'pro' })).toMatchObject({ limit: 5, remaining: 2 })
    expect(() => limiter.update(plans(1, 8))).toThrow('onStoreFailure')
    expect(await limiter.peek('a', { tier: 'free' })).toMatchObject({ limit: 3 })
    await limiter.close()
    await store.close()
  })

  test('a change of a key ends the cached refusals of all tiers', async () => {
    const local = { refusals: '10s' } as const
    const limiter = new RateLimiter(plans(1, 2), { store: redis.store, prefix: 'cached', local })
    await limiter.take('a', { tier: 'pro', cost: 2 })
    for (const tier of ['free', 'pro'] as const) {
      expect((await limiter.take('a', { tier })).source).toBe('store')
      expect((await limiter.take('a', { tier })).source).toBe('cache')
    }
    await limiter.reset('a')
    for (const tier of ['free', 'pro'] as const) {
      expect(await limiter.peek('a', { tier })).toMatchObject({ source: 'store', allowed: true })
    }
    expect((await limiter.take('a', { tier: 'free' })).status).toBe('allowed-last')
    limiter.update(plans(2, 3))
    expect((await limiter.take('a', { tier: 'free' })).status).toBe('allowed-last')
    await limiter.close()
  })

  test('leases are of the new numbers, and units of old leases go back', async () => {
    const rate = (limit: number) => gcra({ limit, period: '1h', burst: limit })
    const local = { lease: '1s' } as const
    const limiter = new RateLimiter(rate(10_000), { store: redis.store, prefix: 'leased', local })
    let decision = await limiter.take('a')
    for (let calls = 1; decision.source !== 'lease' && calls < 1_000; calls++) {
      decision = await limiter.take('a')
    }
    expect(decision.source).toBe('lease')
    limiter.update(rate(20_000))
    expect(limiter.policies.default).toMatchObject({ limit: 20_000, burst: 20_000 - 6 })
    await until('the units of old leases are back', async () => redis.store.status().leases.units === 0)
    expect((await limiter.take('a')).allowed).toBe(true)
    await limiter.close()
  })
})

describe.each(BACKENDS)('a module that is loaded again: $name', (backend) => {
  test('makes a limiter with other numbers beside the earlier one, on the same keys', async () => {
    const load = backend.sharedKeys()
    const first = load(hourly(2))
    await first.take('a', 2)
    const [second, same, again] = [load(hourly(5)), load(hourly(2)), load(hourly(5))]
    await first.close()
    const taken = await Promise.all([
      same.take('a'),
      second.take('a'),
      again.take('a'),
      again.take('a'),
      same.take('a'),
    ])
    expect(taken.map(({ status, limit }) => [status, limit])).toEqual([
      ['refused', 2],
      ['allowed', 5],
      ['allowed', 5],
      ['allowed-last', 5],
      ['refused', 2],
    ])
    await again.close()
    expect((await second.peek('a')).limit).toBe(5)
    await Promise.all([second.close(), same.close()])
    expect((await load(hourly(7)).peek('a')).limit).toBe(7)
  })
})
