import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import {
  calendarWindow,
  fixedWindow,
  gcra,
  type Policy,
  RateLimiter,
  RedisStore,
  slidingCounter,
  slidingLog,
  slidingLogs,
  slidingWindow,
  tokenBucket,
} from '../../ts/index.js'
import { RedisServer } from '../servers/redis-server.js'

const run = promisify(execFile)

let server: RedisServer
let store: RedisStore
let client: Redis

beforeAll(async () => {
  server = await RedisServer.start()
  store = new RedisStore(server.url)
  client = new Redis(server.url)
})

afterAll(async () => {
  await store.close()
  await client.quit()
  await server.stop()
})

/** How often scripts have been called since the last time. */
async function scriptCalls(): Promise<number> {
  const info = await client.info('commandstats')
  await client.config('RESETSTAT')
  const calls = info.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)
  return [...calls].reduce((sum, [, count]) => sum + Number(count), 0)
}

/** When a key expires. Redis 6.2 has no PEXPIRETIME: there the time and what is left must be of one millisecond. */
async function expiry(key: string): Promise<unknown> {
  const script = `
    local expiry = redis.pcall('PEXPIRETIME', KEYS[1])
    if type(expiry) == 'number' then return expiry end
    local function now()
      local time = redis.call('TIME')
      return time[1] * 1000 + math.floor(time[2] / 1000)
    end
    while true do
      local before, left = now(), redis.call('PTTL', KEYS[1])
      if left < 0 then return left end
      if before == now() then return before + left end
    end`
  return client.eval(script, 1, key)
}

/** Everything that Redis holds, with the time at which each key expires. */
async function everything(): Promise<unknown[]> {
  const keys = (await client.keys('*')).sort()
  return Promise.all(keys.map(async (key) => [key, (await client.dumpBuffer(key))?.toString('hex'), await expiry(key)]))
}

const POLICIES: Record<string, Policy> = {
  fixedWindow: fixedWindow({ limit: 9, window: '1h' }),
  calendarWindow: calendarWindow({ limit: 9, every: 'day', timeZone: 'Asia/Shanghai' }),
  list: slidingWindow({ limit: 9, window: '1h', buckets: 6, layout: 'list' }),
  hash: slidingWindow({ limit: 9, window: '1h', buckets: 6, layout: 'hash' }),
  slidingCounter: slidingCounter({ limit: 9, window: '1h' }),
  slidingLog: slidingLog({ limit: 9, window: '1h' }),
  slidingLogs: slidingLogs({ limits: { hour: { limit: 9, window: '1h' }, day: { limit: 20, window: '1d' } } }),
  gcra: gcra({ limit: 9, period: '1h' }),
  low: tokenBucket({ capacity: 9, refill: { tokens: 9, every: '1h' }, initial: 5 }),
  interval: tokenBucket({ capacity: 9, refill: { tokens: 9, every: '1h' }, refillMode: 'interval' }),
}

/** As many as a limiter can have. */
const { slidingCounter: _, interval: __, ...EIGHT } = POLICIES

test('every operation is one call of a script, whatever it decides about', async () => {
  const limiter = new RateLimiter(EIGHT, { store, prefix: 'one-call' })
  // The server gets to know the script.
  await limiter.take('a')
  const costs = async (call: () => Promise<unknown>) => {
    await scriptCalls()
    await call()
    return scriptCalls()
  }
  const rates = { gcra: gcra({ limit: 9, period: '1h' }), second: gcra({ limit: 90, period: '1h' }) }
  const pacer = new RateLimiter(rates, { store, prefix: 'pacer' })
  const decision = await limiter.take('a', 3)
  const [held, dropped] = await Promise.all([pacer.reserve('a', 2), pacer.reserve('a', 2)])
  const operations: Record<string, () => Promise<unknown>> = {
    take: () => limiter.take('a'),
    takeUpTo: () => limiter.takeUpTo('a', 2),
    peek: () => limiter.peek('a'),
    penalize: () => limiter.penalize('a', 1),
    refund: () => limiter.refund(decision),
    block: () => limiter.block('a', '1h'),
    unblock: () => limiter.unblock('a'),
    override: () => limiter.override('a', { gcra: { limit: 90 } }, { ttl: '1h' }),
    clearOverride: () => limiter.clearOverride('a'),
    reset: () => limiter.reset('a'),
    takeMany: () => limiter.takeMany(['a', 'b', 'c']),
    reserve: () => pacer.reserve('b', 2),
    commit: async () => held.allowed && held.commit(1),
    cancel: async () => dropped.allowed && dropped.cancel(),
    wait: () => pacer.wait('c'),
  }
  const calls: Record<string, number> = {}
  for (const [name, call] of Object.entries(operations)) {
    calls[name] = await costs(call)
  }
  expect(calls).toEqual(Object.fromEntries(Object.keys(operations).map((name) => [name, 1])))
  await Promise.all([limiter.close(), pacer.close()])
})

test.each(Object.entries(POLICIES))('%s: a peek changes nothing, not even a TTL', async (name, policy) => {
  await client.flushall()
  const limiter = new RateLimiter(policy, { store, prefix: `peek-${name}` })
  await limiter.take('used', 2)
  await limiter.block('blocked', '1h')
  const before = await everything()
  expect(before).toHaveLength(2)
  for (const key of ['used', 'blocked', 'never used']) {
    for (const cost of [0, 1, 9, 100]) {
      await limiter.peek(key, cost)
    }
  }
  expect(await everything()).toEqual(before)
  await limiter.close()
})

test('an override acts in another process on its next decision, and ends for it, too', async () => {
  const policy = gcra({ limit: 3, period: '1h' })
  const limiter = new RateLimiter(policy, { store, prefix: 'everywhere' })
  const elsewhere = async () => {
    const script = `
      const { RateLimiter, gcra } = require(${JSON.stringify(require.resolve('../../dist/index.js'))})
      const limiter = new RateLimiter(gcra({ limit: 3, period: '1h' }), { store: '${server.url}', prefix: 'everywhere' })
      limiter.take('vip').then(async ({ limit, remaining }) => {
        console.log(JSON.stringify({ limit, remaining }))
        await limiter.close()
      })`
    return JSON.parse((await run(process.execPath, ['-e', script])).stdout)
  }
  expect(await elsewhere()).toEqual({ limit: 3, remaining: 2 })
  await limiter.override('vip', { limit: 500 }, { ttl: '1h' })
  expect(await elsewhere()).toEqual({ limit: 500, remaining: 498 })
  await limiter.clearOverride('vip')
  expect(await elsewhere()).toEqual({ limit: 3, remaining: 0 })
  await limiter.close()
})

test('a block by one process holds for another, and lasts as long as was asked', async () => {
  const policy = fixedWindow({ limit: 3, window: '1h' })
  const limiter = new RateLimiter(policy, { store, prefix: 'blocked' })
  await limiter.block('a', '1h')
  const other = new RedisStore(server.url)
  const same = new RateLimiter(policy, { store: other, prefix: 'blocked' })
  const decision = await same.take('a')
  expect(decision.status).toBe('blocked')
  expect(decision.retryAfterMs).toBeGreaterThan(3_590_000)
  await same.unblock('a')
  expect((await limiter.take('a')).allowed).toBe(true)
  await Promise.all([limiter.close(), same.close()])
  await other.close()
})

test('numbers that change under live keys, side by side, never crash and never admit more than the larger', async () => {
  const versions = [
    { ...EIGHT },
    { ...EIGHT, gcra: gcra({ limit: 4, period: '1h' }), fixedWindow: fixedWindow({ limit: 6, window: '2h' }) },
  ]
  const stores = versions.map(() => new RedisStore(server.url))
  const limiters = versions.map((policies, index) => {
    const limiter = new RateLimiter(policies, { store: stores[index] as RedisStore, prefix: 'versions' })
    return limiter as unknown as RateLimiter
  })
  const decisions = await Promise.all(
    Array.from({ length: 60 }, (_, call) => (limiters[call % 2] as RateLimiter).take('a')),
  )
  const admitted = decisions.filter(({ allowed }) => allowed).length
  expect(admitted).toBeGreaterThan(0)
  expect(admitted).toBeLessThanOrEqual(5)
  await Promise.all(limiters.map((limiter) => limiter.close()))
  await Promise.all(stores.map((one) => one.close()))
})
