import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { deferred } from '../../../ts/backends/redis/batching/deferred.js'
import {
  calendarWindow,
  fixedWindow,
  type GcraPolicy,
  gcra,
  type Policy,
  RateLimiter,
  RedisStore,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../../ts/index.js'
import { anything } from '../../failure.js'
import { RedisServer } from '../../servers/redis-server.js'
import { PATIENT_MS } from '../help.js'

const run = promisify(execFile)

let server: RedisServer
let store: RedisStore
let client: Redis

beforeAll(async () => {
  server = await RedisServer.start()
  store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  client = new Redis(server.url)
})

afterAll(async () => {
  await store.close()
  await client.quit()
  await server.stop()
})

/** The script calls since the last check, without the EVAL that registers policies a second after the first call. */
async function scriptCalls(): Promise<number> {
  const info = await client.info('commandstats')
  await client.config('RESETSTAT')
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(info)?.[1] ?? 0)
}

/**
 * The expiry time of a key. Redis 6.2 has no PEXPIRETIME: there the time and the TTL must be read
 * in one millisecond.
 */
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
  'slidingLog-limits': slidingLog({ limits: { hour: { limit: 9, window: '1h' }, day: { limit: 20, window: '1d' } } }),
  gcra: gcra({ limit: 9, period: '1h' }),
  low: tokenBucket({ capacity: 9, refill: { tokens: 9, every: '1h' }, initial: 5 }),
  interval: tokenBucket({ capacity: 9, refill: { tokens: 9, every: '1h' }, refillMode: 'interval' }),
}

/** The maximum that a limiter can have. */
const { slidingCounter: _, interval: __, ...EIGHT } = POLICIES

/** Overrides for a key, by policy. */
const OWN: Record<string, object> = {
  'slidingLog-limits': { limits: { hour: { limit: 8 } } },
  low: { capacity: 90 },
  interval: { capacity: 90 },
}

const own = (name: string) => OWN[name] ?? { limit: 90 }

/** A limiter of any policies, with operations that some of them do not have. */
function limiterOf(policies: unknown, store: RedisStore, prefix: string): RateLimiter<GcraPolicy> {
  return anything(new RateLimiter(anything(policies), { store, prefix: prefix.replaceAll(' ', '-') }))
}

/** Rates for wait, which cannot be combined with other policies. */
const RATES = { gcra: gcra({ limit: 9, period: '1h' }), second: gcra({ limit: 90, period: '1h' }) }

const LIMITERS = [
  ...Object.entries(POLICIES).map(([name, policy]) => [name, policy, own(name)] as const),
  ['eight policies', EIGHT, Object.fromEntries(Object.keys(EIGHT).map((name) => [name, own(name)]))] as const,
  ['rates', RATES, { gcra: { limit: 90 } }] as const,
]

/** A line of MONITOR: the source, and the command's first two words. */
const MONITORED = /^\S+ \[\d+ (\S+)\] "([^"]*)"(?: "([^"]*)")?/

/**
 * The commands that the server receives from outside of scripts during a call, except the store's
 * health checks, and the registration of its policies a second after the first call, by EVAL.
 */
async function commandsDuring(call: () => Promise<unknown>): Promise<string[]> {
  // ioredis takes a command that arrives together with MONITOR's own reply for an error.
  const monitor = await createClient({ url: server.url }).connect()
  const commands: string[] = []
  try {
    const { promise: fence, resolve: passFence } = deferred<void>()
    await monitor.monitor((line) => {
      const [, source, name = '', word] = MONITORED.exec(String(line)) ?? []
      if (word === 'the call is over') {
        passFence()
      } else if (source !== 'lua' && !/^(ping|hello|client|info|eval)$/i.test(name)) {
        commands.push(name.toLowerCase())
      }
    })
    await call()
    await client.echo('the call is over')
    await fence
    return commands
  } finally {
    monitor.destroy()
  }
}

/** Registers the policies of a limiter, which its first call does. */
async function registered(limiter: RateLimiter): Promise<void> {
  await limiter.take('registered')
  // Redis answers in order: the policies are registered by then.
  await limiter.peek('registered')
}

test.each(LIMITERS)('%s: every operation is one script call, and no other command', async (name, policies, numbers) => {
  const limiter = limiterOf(policies, store, `one-call-${name}`)
  await registered(limiter)
  // The server loads the script, and the limiter learns the server's time.
  await limiter.take('a')
  await limiter.peek('a')
  const isRate = ['gcra', 'low', 'rates'].includes(name)
  const holds = !['slidingCounter'].includes(name)
  const decision = await limiter.take('a')
  const reserved = async () => {
    const reservation = await limiter.reserve('c', 2)
    return reservation.allowed ? reservation : undefined
  }
  const [held, dropped] = holds ? [await reserved(), await reserved()] : []
  const operations: Record<string, () => Promise<unknown>> = {
    take: () => limiter.take('a'),
    takeUpTo: () => limiter.takeUpTo('a', 2),
    peek: () => limiter.peek('a'),
    penalize: () => limiter.penalize('a', 1),
    refund: () => limiter.refund(decision),
    block: () => limiter.block('a', '1h'),
    'take, blocked': () => limiter.take('a'),
    unblock: () => limiter.unblock('a'),
    override: () => limiter.override('a', anything(numbers), { ttl: '1h' }),
    'take by its own numbers': () => limiter.take('a'),
    clearOverride: () => limiter.clearOverride('a'),
    reset: () => limiter.reset('a'),
    takeMany: () => limiter.takeMany(['a', 'b', 'd']),
    'take, refused': async () => expect((await limiter.take('a', 9)).allowed).toBe(false),
    ...(holds ? { reserve: () => limiter.reserve('e', 2) } : {}),
    ...(holds ? { extend: async () => held?.extend(1), settle: async () => limiter.settle(dropped?.id ?? '', 1) } : {}),
    ...(holds ? { commit: async () => held?.commit(1), cancel: async () => dropped?.cancel() } : {}),
    ...(isRate ? { wait: () => limiter.wait('f') } : {}),
  }
  expect([held, dropped].filter((one) => one !== undefined)).toHaveLength(holds ? 2 : 0)
  const commands: Record<string, string[]> = {}
  const calls: Record<string, number> = {}
  for (const [operation, call] of Object.entries(operations)) {
    await scriptCalls()
    commands[operation] = await commandsDuring(call)
    calls[operation] = await scriptCalls()
  }
  const each = <T>(what: T) => Object.fromEntries(Object.keys(operations).map((operation) => [operation, what]))
  expect(commands).toEqual(each(['evalsha']))
  expect(calls).toEqual(each(1))
  await limiter.close()
})

test('an aborted wait is a second call, which gives the slot back', async () => {
  const limiter = new RateLimiter(gcra({ limit: 9, period: '1h', burst: 1 }), { store, prefix: 'aborted' })
  await limiter.wait('a')
  const waits = async () => {
    const call = limiter.wait('a', { maxWait: 3_600_000, signal: AbortSignal.timeout(50) })
    await expect(call).rejects.toMatchObject({ code: 'ABORTED' })
    await limiter.close()
  }
  expect(await commandsDuring(waits)).toEqual(['evalsha', 'evalsha'])
})

/** The number of changes that the server has counted, including those without effect on a key. */
async function changes(): Promise<number> {
  return Number(/^rdb_changes_since_last_save:(\d+)/m.exec(await client.info('persistence'))?.[1])
}

test.each(LIMITERS)('%s: a peek changes nothing, not even a TTL', async (name, policies, numbers) => {
  await client.flushall()
  const limiter = limiterOf(policies, store, `peek-${name}`)
  await registered(limiter)
  await limiter.take('used', 2)
  await limiter.penalize('full', 1_000)
  await limiter.block('blocked', '1h')
  await limiter.override('own', anything(numbers), { ttl: '1h' })
  await limiter.take('own')
  const [before, changed] = [await everything(), await changes()]
  expect(before.length).toBeGreaterThanOrEqual(4)
  for (const key of ['used', 'full', 'blocked', 'own', 'never used']) {
    for (const cost of [0, 1, 9, 100]) {
      await limiter.peek(key, cost)
    }
  }
  expect(await everything()).toEqual(before)
  expect(await changes()).toBe(changed)
  await limiter.close()
})

// promise: override-everywhere
test('an override applies in another process to its next decision, and ends there, too', async () => {
  const policy = gcra({ limit: 3, period: '1h' })
  const limiter = new RateLimiter(policy, { store, prefix: 'everywhere' })
  const elsewhere = async () => {
    const script = `
      const { RateLimiter, RedisStore, gcra } = require(${JSON.stringify(require.resolve('../../../dist/index.js'))})
      const store = new RedisStore({ url: '${server.url}', commandTimeout: 30_000 })
      const limiter = new RateLimiter(gcra({ limit: 3, period: '1h' }), { store, prefix: 'everywhere' })
      limiter.take('vip').then(async ({ limit, remaining }) => {
        console.log(JSON.stringify({ limit, remaining }))
        await store.close()
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

test('a block by one process applies in another, and lasts as long as requested', async () => {
  const policy = fixedWindow({ limit: 3, window: '1h' })
  const limiter = new RateLimiter(policy, { store, prefix: 'blocked' })
  await limiter.block('a', '1h')
  const other = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const same = new RateLimiter(policy, { store: other, prefix: 'blocked' })
  const decision = await same.take('a')
  expect(decision.status).toBe('blocked')
  expect(decision.retryAfterMs).toBeGreaterThan(3_590_000)
  await same.unblock('a')
  expect((await limiter.take('a')).allowed).toBe(true)
  await Promise.all([limiter.close(), same.close()])
  await other.close()
})

/** Each policy of {@link POLICIES} with other numbers. */
const CHANGED: Record<string, Policy> = {
  fixedWindow: fixedWindow({ limit: 4, window: '2h' }),
  calendarWindow: calendarWindow({ limit: 4, every: 'day', timeZone: 'Asia/Shanghai' }),
  list: slidingWindow({ limit: 4, window: '2h', buckets: 6, layout: 'list' }),
  hash: slidingWindow({ limit: 4, window: '2h', buckets: 6, layout: 'hash' }),
  slidingCounter: slidingCounter({ limit: 4, window: '1h' }),
  slidingLog: slidingLog({ limit: 4, window: '2h' }),
  'slidingLog-limits': slidingLog({ limits: { hour: { limit: 4, window: '1h' }, day: { limit: 12, window: '1d' } } }),
  gcra: gcra({ limit: 4, period: '3h', burst: 4 }),
  low: tokenBucket({ capacity: 4, refill: { tokens: 2, every: '1h' }, initial: 4 }),
  interval: tokenBucket({ capacity: 4, refill: { tokens: 4, every: '1h' }, refillMode: 'interval' }),
}

/**
 * The larger burst. A bucket with a low initial level can admit it, too: units used under the other
 * version are not a first use.
 */
const MAX_UNITS = 9

/** Policies, their other version, and the units that each version admits alone. */
const VERSIONS = [
  ...Object.entries(POLICIES).map(([name, policy]) => {
    return [name, [policy, CHANGED[name]], name === 'low' ? [5, 4] : [MAX_UNITS, 4]] as const
  }),
  ['eight policies', [EIGHT, Object.fromEntries(Object.keys(EIGHT).map((name) => [name, CHANGED[name]]))], [5, 4]],
] as const

describe.each(VERSIONS)('%s: numbers that change while keys are in use', (name, versions, limits) => {
  const stores: RedisStore[] = []
  let limiters: readonly RateLimiter[]
  beforeAll(() => {
    limiters = versions.map((policies) => {
      const own = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
      stores.push(own)
      return limiterOf(policies, own, `versions-${name}`)
    })
  })
  afterAll(() => Promise.all(stores.map((one) => one.close())))

  test('both versions at once never fail, and admit at least the smaller and at most the larger limit', async () => {
    const calls = Array.from({ length: 60 }, (_, call) => (limiters[call % 2] as RateLimiter).take('a'))
    const admitted = (await Promise.all(calls)).filter(({ allowed }) => allowed).length
    expect(admitted).toBeGreaterThanOrEqual(Math.min(...limits))
    expect(admitted).toBeLessThanOrEqual(MAX_UNITS)
  })

  test.each([
    [0, 1],
    [1, 0],
  ])('from version %i to %i used units still count', async (from, to) => {
    const [before, after] = [limiters[from], limiters[to]] as [RateLimiter, RateLimiter]
    const admitted = async (limiter: RateLimiter, key: string) => {
      const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.take(key)))
      return decisions.filter(({ allowed }) => allowed).length
    }
    const first = await admitted(before, `from-${from}`)
    expect(first).toBe(limits[from])
    // And back again.
    const more = (await admitted(after, `from-${from}`)) + (await admitted(before, `from-${from}`))
    expect(first + more).toBeLessThanOrEqual(MAX_UNITS)
    expect((await after.peek(`from-${from}`)).allowed).toBe(false)
  })
})
