/** `local: { refusals }` over Redis. */
import {
  type Decision,
  fixedWindow,
  gcra,
  type LocalDecisions,
  MemoryStore,
  type Policies,
  type Policy,
  RateLimiter,
  RedisStore,
  slidingLog,
  tokenBucket,
} from '../../ts/index.js'
import { drivenRedis } from '../driven-redis.js'
import { anything, failureOf } from '../failure.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'

const redis = drivenRedis()
let prefixes = 0

function limiterOf<const P extends Policy | Policies>(policies: P, local: LocalDecisions = { refusals: '10s' }) {
  return new RateLimiter(policies, { store: redis.store, prefix: `local-${prefixes++}`, local })
}

/** The script calls that the server has run. */
async function scriptCalls(): Promise<number> {
  const stats = await redis.server.command<string>('INFO', 'commandstats')
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

const hourly = (limit: number) => fixedWindow({ limit, window: '1h' })

test('a refused key is refused without a call to Redis, with the time that is left', async () => {
  const limiter = limiterOf(hourly(2))
  await limiter.take('a', 2)
  const first = await limiter.take('a')
  expect(first).toMatchObject({ status: 'refused', source: 'store' })
  const before = await scriptCalls()
  await redis.time.pass(20)
  const later = await limiter.take('a')
  expect(later).toMatchObject({ allowed: false, status: 'refused', source: 'cache', limit: 2, remaining: 0 })
  expect(later.at - first.at).toBe(20)
  for (const name of ['retryAfterMs', 'nextAfterMs', 'resetAfterMs'] as const) {
    expect((first[name] as number) - (later[name] as number)).toBe(20)
  }
  expect(later.policies.default).toEqual({
    limit: 2,
    capacity: 2,
    used: 2,
    remaining: 0,
    retryAfterMs: later.retryAfterMs,
    nextAfterMs: later.nextAfterMs,
    resetAfterMs: later.resetAfterMs,
  })
  // Another key is another matter.
  expect((await limiter.take('b')).source).toBe('store')
  expect(await scriptCalls()).toBe(before + 1)
})

test('the call is admitted at retryAfterMs, and not refused after it', async () => {
  const limiter = limiterOf(gcra({ limit: 20, period: '1s', burst: 1 }))
  for (let turn = 0; turn < 10; turn++) {
    expect((await limiter.take('a')).allowed).toBe(true)
    expect(await limiter.take('a')).toMatchObject({ allowed: false, source: 'store', retryAfterMs: 50 })
    for (let left = 49; left > 0; left--) {
      await redis.time.pass(1)
      // In the last millisecond Redis is asked: durations are rounded up.
      const source = left > 1 ? 'cache' : 'store'
      expect(await limiter.take('a')).toMatchObject({ allowed: false, source, retryAfterMs: left })
    }
    await redis.time.pass(1)
  }
})

test('smaller costs ask Redis; larger ones do not, unless they are impossible', async () => {
  const limiter = limiterOf(hourly(10))
  await limiter.take('a', 7)
  expect(await limiter.take('a', 5)).toMatchObject({ status: 'refused', source: 'store' })
  expect(await limiter.take('a', 6)).toMatchObject({ status: 'refused', source: 'cache', remaining: 3 })
  expect(await limiter.take('a', 3)).toMatchObject({ status: 'allowed-last', source: 'store' })
  expect(await limiter.take('a', 11)).toMatchObject({ status: 'impossible', source: 'store' })
  expect(await limiter.take('b', 11)).toMatchObject({ status: 'impossible', source: 'store', retryAfterMs: null })
  expect(await limiter.take('b', 12)).toMatchObject({ status: 'impossible', source: 'cache', retryAfterMs: null })
  expect(await limiter.take('b', 10)).toMatchObject({ status: 'allowed-last', source: 'store' })
})

test("the limiter's own changes take effect at once", async () => {
  const limiter = limiterOf(hourly(2))
  const taken = await limiter.take('a', 2)
  const refuse = async () => {
    expect((await limiter.take('a', 2)).allowed).toBe(false)
    expect((await limiter.take('a', 2)).source).toBe('cache')
  }
  await refuse()
  expect(await limiter.refund(taken)).toBe(2)
  expect(await limiter.take('a', 2)).toMatchObject({ allowed: true, source: 'store' })
  await refuse()
  await limiter.reset('a')
  expect((await limiter.take('a', 2)).allowed).toBe(true)
  await refuse()
  await limiter.override('a', { limit: 4 }, { ttl: '1h' })
  expect((await limiter.take('a', 2)).allowed).toBe(true)
  await limiter.clearOverride('a')
  await limiter.reset('a')
  await limiter.block('a', '1h')
  expect(await limiter.take('a')).toMatchObject({ status: 'blocked', source: 'store' })
  expect(await limiter.take('a')).toMatchObject({ status: 'blocked', source: 'cache' })
  await limiter.unblock('a')
  expect((await limiter.take('a', 2)).allowed).toBe(true)
})

test('an answer to a call from before a change is out of date', async () => {
  const limiter = limiterOf(hourly(1))
  await limiter.take('a')
  const [refused, reset] = await Promise.all([limiter.take('a'), limiter.reset('a')])
  expect([refused.status, reset]).toEqual(['refused', 'store'])
  expect((await limiter.take('a')).allowed).toBe(true)
})

test('a change by another limiter takes effect after the refusals end', async () => {
  const prefix = `local-${prefixes++}`
  const local = { refusals: '300ms' } as const
  const limiter = new RateLimiter(hourly(1), { store: redis.store, prefix, local })
  const other = new RateLimiter(hourly(1), { store: redis.store, prefix })
  await limiter.take('a')
  await limiter.take('a')
  await other.reset('a')
  await redis.time.pass(299)
  expect((await limiter.take('a')).source).toBe('cache')
  await redis.time.pass(1)
  expect((await limiter.take('a')).allowed).toBe(true)
})

test('under several policies the key that refused is refused for all calls with it', async () => {
  const limiter = limiterOf({
    ip: fixedWindow({ limit: 2, window: '1h', per: 'ip' }),
    account: fixedWindow({ limit: 5, window: '1h', per: 'account' }),
  })
  await limiter.take({ ip: 'x', account: 'a' }, 2)
  expect((await limiter.take({ ip: 'x', account: 'a' })).source).toBe('store')
  const refused = await limiter.take({ ip: 'x', account: 'b' })
  expect(refused).toMatchObject({ status: 'refused', policy: 'ip', source: 'cache', limit: 2, remaining: 0 })
  // The numbers of account a are not for the caller b.
  expect(refused.policies.account).toEqual({
    limit: 5,
    capacity: 5,
    used: 0,
    remaining: 5,
    retryAfterMs: 0,
    nextAfterMs: 0,
    resetAfterMs: 0,
  })
  expect((await limiter.take({ ip: 'y', account: 'a' })).allowed).toBe(true)
  await limiter.reset({ ip: 'x' })
  expect((await limiter.take({ ip: 'x', account: 'b' })).allowed).toBe(true)
})

test('a key that was refused beside another one reports its own policy', async () => {
  const limiter = limiterOf({
    ip: fixedWindow({ limit: 1, window: '1h', per: 'ip' }),
    account: fixedWindow({ limit: 1, window: '1d', per: 'account' }),
  })
  await limiter.take({ ip: 'x', account: 'a' })
  expect(await limiter.take({ ip: 'x', account: 'a' })).toMatchObject({ policy: 'account', source: 'store' })
  const byIp = await limiter.take({ ip: 'x', account: 'b' })
  expect(byIp).toMatchObject({
    policy: 'ip',
    remaining: 0,
    retryAfterMs: byIp.policies.ip.retryAfterMs,
    source: 'cache',
  })
  expect(byIp.retryAfterMs).toBe(3_600_000)
})

test('a block of one key is not hidden by the refusal of another one', async () => {
  const limiter = limiterOf({
    ip: fixedWindow({ limit: 100, window: '1h', per: 'ip' }),
    account: fixedWindow({ limit: 1, window: '20s', per: 'account' }),
  })
  const key = { ip: '1', account: 'a' }
  await limiter.take(key)
  await limiter.take(key)
  expect(await limiter.take(key)).toMatchObject({ status: 'refused', source: 'cache' })
  await limiter.block({ ip: '1' }, '1h')
  expect(await limiter.take(key)).toMatchObject({ status: 'blocked', source: 'store', retryAfterMs: 3_600_000 })
  expect(await limiter.take(key)).toMatchObject({ status: 'blocked', source: 'cache' })
  expect(await limiter.take({ ip: '2', account: 'a' })).toMatchObject({ status: 'refused', source: 'cache' })
  await limiter.unblock({ ip: '1' })
  expect((await limiter.take(key)).status).toBe('refused')
})

test('policies on one key refuse it together', async () => {
  const limiter = limiterOf({ minute: hourly(2), day: fixedWindow({ limit: 3, window: '1d' }) })
  await limiter.take('a', 2)
  const first = await limiter.take('a')
  const second = await limiter.take('a')
  expect(second).toMatchObject({ policy: 'minute', source: 'cache' })
  expect(second.policies.day).toMatchObject({ limit: 3, remaining: 1, retryAfterMs: 0 })
  expect(Object.keys(second).sort()).toEqual(Object.keys(first).sort())
})

describe('with meters', () => {
  const policies = {
    requests: hourly(10),
    tokens: fixedWindow({ limit: 1_000, window: '2h', meter: 'tokens' }),
    cents: fixedWindow({ limit: 50, window: '1h', meter: 'cents', defaultCost: 0 }),
  }

  test('a call is refused that costs as much under the meter that refused', async () => {
    const limiter = limiterOf(policies)
    await limiter.take('a', { cost: { tokens: 700, cents: 45 } })
    const refused = await limiter.take('a', { cost: { tokens: 400, cents: 1 } })
    expect(refused).toMatchObject({ status: 'refused', policy: 'tokens', source: 'store' })
    const before = await scriptCalls()
    const cached = await limiter.take('a', { cost: { tokens: 401, calls: 2 } })
    expect(cached).toMatchObject({ status: 'refused', policy: 'tokens', source: 'cache', limit: 1_000, remaining: 300 })
    expect(cached.policies.tokens.retryAfterMs).toBe(refused.policies.tokens.retryAfterMs)
    // The numbers of the other meters of the key are those last seen.
    expect(cached.policies.requests).toMatchObject({ limit: 10, remaining: 9, retryAfterMs: 0 })
    expect(cached.policies.cents).toMatchObject({ limit: 50, remaining: 5, retryAfterMs: 0 })
    expect(await limiter.refund(cached)).toEqual({ calls: 0, tokens: 0, cents: 0 })
    expect(await scriptCalls()).toBe(before)
  })

  test('a call that costs less, or nothing, under that meter asks Redis', async () => {
    const limiter = limiterOf(policies)
    const take = (tokens: number, cents = 0) => limiter.take('a', { cost: { tokens, cents } })
    await take(1_000)
    expect(await take(400)).toMatchObject({ policy: 'tokens', source: 'store' })
    // It leaves the refusal as it is.
    expect(await take(0, 10)).toMatchObject({ allowed: true, source: 'store' })
    expect(await take(400)).toMatchObject({ policy: 'tokens', source: 'cache' })
    expect(await take(0, 45)).toMatchObject({ policy: 'cents', source: 'store' })
    // Both meters refuse: the reported one has the longest retry.
    const both = await take(400, 45)
    expect(both).toMatchObject({ policy: 'tokens', source: 'cache', retryAfterMs: both.policies.tokens.retryAfterMs })
    expect(both.policies.cents.retryAfterMs).toBe(3_600_000)
    expect(await take(399, 44)).toMatchObject({ policy: 'tokens', source: 'store' })
    expect(await take(399, 44)).toMatchObject({ policy: 'tokens', source: 'cache' })
  })

  test('an impossible cost under one meter', async () => {
    const limiter = limiterOf(policies)
    await limiter.take('a', { cost: { tokens: 1_000 } })
    await limiter.take('a', { cost: { tokens: 1 } })
    // The refusal by tokens says nothing of costs that are impossible.
    const first = await limiter.take('a', { cost: { tokens: 1, cents: 51 } })
    expect(first).toMatchObject({ status: 'impossible', policy: 'cents', source: 'store' })
    const second = await limiter.take('a', { cost: { tokens: 1, cents: 52 } })
    expect(second).toMatchObject({ status: 'impossible', policy: 'cents', source: 'cache', retryAfterMs: null })
    expect(second.policies.tokens.retryAfterMs).toBe(7_200_000)
    expect(await limiter.take('a', { cost: { tokens: 1 } })).toMatchObject({ status: 'refused', source: 'cache' })
  })

  test('a block refuses calls without a cost, too', async () => {
    const limiter = limiterOf(policies)
    await limiter.block('a', '1h')
    const cost = { tokens: 0, calls: 0 }
    expect(await limiter.take('a', { cost })).toMatchObject({ status: 'blocked', source: 'store' })
    expect(await limiter.take('a', { cost })).toMatchObject({ status: 'blocked', source: 'cache' })
    await limiter.unblock('a')
    expect(await limiter.take('a', { cost })).toMatchObject({ status: 'allowed', source: 'store' })
  })

  test('a refund ends the refusals of all meters, and a reservation uses them', async () => {
    const limiter = limiterOf(policies)
    const taken = await limiter.take('a', { cost: { tokens: 1_000, cents: 50 } })
    await limiter.take('a', { cost: { tokens: 5, cents: 5 } })
    expect(await limiter.reserve('a', { tokens: 0, cents: 5 })).toMatchObject({
      allowed: false,
      decision: { source: 'cache', policy: 'cents' },
    })
    expect(await limiter.refund(taken, { tokens: 10 })).toEqual({ calls: 0, tokens: 10, cents: 0 })
    expect(await limiter.take('a', { cost: { tokens: 5 } })).toMatchObject({ allowed: true, source: 'store' })
  })

  // promise: cached-refusals-cost
  test('a flood asks Redis at most twice for each time of the refusals', async () => {
    const limiter = limiterOf(policies, { refusals: '100ms' })
    await limiter.take('a', { cost: { tokens: 1_000 } })
    await limiter.take('a', { cost: { tokens: 1 } })
    const before = await scriptCalls()
    for (let step = 0; step < 100; step++) {
      const costs = Array.from({ length: 200 }, (_, call) => ({ tokens: 1 + (call % 7), cents: call % 3 }))
      const decisions = await Promise.all(costs.map((cost) => limiter.take('a', { cost })))
      expect(decisions.every(({ allowed }) => !allowed)).toBe(true)
      await redis.time.pass(10)
    }
    expect((await scriptCalls()) - before).toBeLessThanOrEqual(2 * 10)
  })
})

test('keys with a tag of their own are other keys', async () => {
  const limiter = limiterOf(hourly(1))
  await limiter.take('a')
  await limiter.take('a')
  expect(await limiter.take('a', { tag: 'x' })).toMatchObject({ allowed: true })
  await limiter.take('a', { tag: 'x' })
  expect(await limiter.take('a', { tag: 'x' })).toMatchObject({ allowed: false, source: 'cache' })
})

test('takeMany, takeUpTo and reserve use cached refusals; peek and penalize ask', async () => {
  const limiter = limiterOf(slidingLog({ limit: 3, window: '1h' }))
  await limiter.take('a', 3)
  await limiter.take('a')
  const sources = (decisions: readonly Decision[]) => decisions.map(({ source }) => source)
  expect(sources(await limiter.takeMany(['a', 'b', 'a']))).toEqual(['cache', 'store', 'cache'])
  expect(await limiter.takeUpTo('a', 2)).toMatchObject({ granted: 0, status: 'refused', source: 'cache' })
  const reservation = await limiter.reserve('a', 2)
  expect(reservation).toMatchObject({ allowed: false, decision: { source: 'cache' } })
  expect((await limiter.peek('a')).source).toBe('store')
  expect(await limiter.penalize('a')).toBe(0)
  expect(await limiter.refund(await limiter.take('a'))).toBe(0)
})

test('a wait books at Redis, after a refusal, too', async () => {
  const limiter = limiterOf(gcra({ limit: 20, period: '1s', burst: 1 }))
  await limiter.take('a')
  await limiter.take('a')
  expect(await redis.time.until(limiter.wait('a'))).toMatchObject({ allowed: true, source: 'store', waitedMs: 50 })
})

// promise: cached-refusals-cost
test('a flood on a refused key asks Redis at most twice for each time of the refusals', async () => {
  const limiter = limiterOf(hourly(1), { refusals: '100ms' })
  await limiter.take('a')
  await limiter.take('a')
  const before = await scriptCalls()
  for (let step = 0; step < 100; step++) {
    const decisions = await Promise.all(Array.from({ length: 200 }, () => limiter.take('a')))
    expect(decisions.every(({ allowed }) => !allowed)).toBe(true)
    await redis.time.pass(10)
  }
  expect((await scriptCalls()) - before).toBeLessThanOrEqual(2 * 10)
})

test('calls on one key are decided in call order when a refusal ends', async () => {
  const limiter = limiterOf(tokenBucket({ capacity: 3, refill: { tokens: 3, every: '200ms' }, refillMode: 'interval' }))
  await limiter.take('a', 3)
  const { retryAfterMs } = await limiter.take('a')
  await redis.time.pass(retryAfterMs as number)
  const decisions = await Promise.all(Array.from({ length: 8 }, () => limiter.take('a')))
  expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, ...Array(5).fill(false)])
})

test('while the store is down, a cached refusal holds; other calls get the fallback', async () => {
  const server = openServer()
  const { store, stop } = await server
  const options = { store, prefix: 'down', local: { refusals: '10m' }, onStoreFailure: 'allow' } as const
  const limiter = new RateLimiter(hourly(1), options)
  await limiter.take('a')
  await limiter.take('a')
  await stop()
  expect(await limiter.take('a')).toMatchObject({ allowed: false, source: 'cache' })
  expect(await limiter.take('b')).toMatchObject({ allowed: true, source: 'none' })
  await limiter.close()
  await store.close()
})

test('at most maxKeys keys are kept', async () => {
  const limiter = limiterOf(hourly(1), { refusals: '10s', maxKeys: 10 })
  const keys = Array.from({ length: 50 }, (_, number) => `key-${number}`)
  await limiter.takeMany(keys)
  await limiter.takeMany(keys)
  const sources = (await limiter.takeMany(keys)).map(({ source }) => source)
  expect(sources.filter((source) => source === 'cache').length).toBeLessThanOrEqual(10)
  expect(sources.filter((source) => source === 'cache').length).toBeGreaterThan(0)
})

test('wrong options name the option, the value and the rule', () => {
  const message = (local: unknown, policy: Policy | Policies = hourly(1)) => {
    const failure = failureOf(() => new RateLimiter(anything(policy), anything({ local })))
    expect(failure.code).toBe('INVALID_OPTION')
    return failure.message
  }
  expect(message({})).toMatch(/^local takes refusals, lease or both/)
  expect(message('1s')).toMatch(/^local takes an object of options \(refusals, lease, maxKeys\)/)
  expect(message({ refusal: '1s' })).toMatch(/^local has no option "refusal".*refusals/)
  expect(message({ refusals: 0 })).toMatch(/^local\.refusals must be a duration above 0/)
  expect(message({ refusals: '2h' })).toMatch(/^local\.refusals must be at most 1 hour, got "2h"/)
  expect(message({ refusals: '1s', maxKeys: 0 })).toMatch(/^local\.maxKeys must be a whole number from 1 to 10000000/)
  const counting = fixedWindow({ limit: 1, window: '1h', countRefused: true })
  expect(message({ refusals: '1s' }, counting)).toMatch(/^local\.refusals cannot be used with countRefused \(policy\)/)
})

describe('with bans', () => {
  const ban = { after: 3, period: '1h', for: '2h' } as const

  test('Redis counts every refusal, and the ban is cached', async () => {
    const local = { refusals: '10s' } as const
    const limiter = new RateLimiter(hourly(1), { store: redis.store, prefix: 'banning', local, ban })
    const seen: unknown[] = []
    for (let call = 0; call < 6; call++) {
      const { status, source } = await limiter.take('a')
      seen.push(`${status} by ${source}`)
    }
    expect(seen).toEqual([
      'allowed-last by store',
      'refused by store',
      'refused by store',
      'blocked by store',
      'blocked by cache',
      'blocked by cache',
    ])
    const [cached, stored] = [await limiter.take('a'), await limiter.peek('a', 1)]
    expect(cached).toMatchObject({ source: 'cache', ban: { step: 1 } })
    expect(stored).toMatchObject({ source: 'store', ban: (cached as { ban?: object }).ban })
    // An impossible cost is no strike.
    expect(await limiter.take('b', 2)).toMatchObject({ status: 'impossible', source: 'store' })
    expect(await limiter.take('b', 2)).toMatchObject({ status: 'impossible', source: 'cache' })
    await limiter.unblock('a')
    expect(await limiter.take('a')).toMatchObject({ status: 'refused', source: 'store' })
  })

  test('under several policies only the banned key is cached', async () => {
    const policies = {
      ip: fixedWindow({ limit: 1, window: '1h', per: 'ip' }),
      account: fixedWindow({ limit: 9, window: '1h', per: 'account' }),
    }
    const options = { store: redis.store, prefix: 'banning-both', local: { refusals: '10s' }, blockFor: '3h' } as const
    const limiter = new RateLimiter(policies, options)
    await limiter.take({ ip: '1', account: 'ann' })
    expect(await limiter.take({ ip: '1', account: 'ann' })).toMatchObject({ status: 'blocked', source: 'store' })
    const cached = await limiter.take({ ip: '1', account: 'ben' })
    expect(cached).toMatchObject({ status: 'blocked', source: 'cache', policy: 'ip', ban: { step: 1 } })
    expect(await limiter.take({ ip: '2', account: 'ann' })).toMatchObject({ allowed: true, source: 'store' })
  })
})

test('it has no effect on the embedded store', () => {
  const limiter = new RateLimiter(hourly(1), { store: new MemoryStore(), local: { refusals: '1s' } })
  limiter.takeSync('a')
  limiter.takeSync('a')
  expect(limiter.takeSync('a')).toMatchObject({ allowed: false, source: 'store' })
})

async function openServer() {
  const server = await RedisServer.start()
  const store = new RedisStore({ url: server.url, commandTimeout: 3_000 })
  return {
    store,
    async stop() {
      await server.stop()
      await until('the store is down', async () => store.status().state === 'down')
    },
  }
}
