/**
 * Commands without `--policies`: they know the policies, tiers and key dimensions that limiters have
 * registered, and a key is never reported as fresh while anything of it is stored.
 */

import type { KeyInspection } from '../../../ts/cli/redis/inspect.js'
import {
  calendarWindow,
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  RateLimiter,
  RedisStore,
  type Reservation,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tiers,
  tokenBucket,
} from '../../../ts/index.js'
import { anything } from '../../failure.js'
import { openedRedis } from '../../redis/opened.js'
import { RedisCluster } from '../../servers/cluster.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { tollgate } from '../command.js'
import { commandsOf, expectQuiet, expectReading, json } from './server.js'

const redis = openedRedis()

const LOGIN = {
  address: fixedWindow({ limit: 50, window: '1d', per: 'ip' }),
  account: gcra({ limit: 20, period: '20d', per: 'user' }),
  all: fixedWindow({ limit: 500, window: '1d', per: 'global' }),
}

const PLANS = tiers({
  free: gcra({ limit: 2, period: '2d' }),
  pro: gcra({ limit: 50, period: '50d' }),
})

function limiterOf(prefix: string, policies: object, options: object = {}): RateLimiter {
  return anything(new RateLimiter(anything(policies), { store: redis.store, prefix, ...options } as never))
}

/** A limiter of a policy whose units drain at once. */
function gcraOf(prefix: string, tag?: string) {
  const options = { store: redis.store, prefix, ...(tag === undefined ? {} : { tag }) }
  return new RateLimiter(gcra({ limit: 1_000, period: '1s' }), options)
}

function permitsOf(prefix: string) {
  return new RateLimiter(concurrency({ limit: 2, ttl: '1h' }), { store: redis.store, prefix })
}

function words(command: string, prefix: string, ...more: string[]): string[] {
  return [command, redis.server.url, '--prefix', prefix, ...more]
}

const inspected = (prefix: string, ...more: string[]) => json<KeyInspection>(words('inspect', prefix, ...more))

/** Waits until the policies of a prefix are registered. */
async function registered(prefix: string, server = redis.server): Promise<void> {
  await until('the policies are registered', async () => (await server.command('EXISTS', `${prefix}:~policies`)) === 1)
}

/** Removes the registration, as after 30 days without a call. */
async function forget(prefix: string): Promise<void> {
  await redis.server.command('DEL', `${prefix}:~policies`)
}

describe('a key of policies with a per', () => {
  const key = (ip: string) => anything({ ip, user: 'ann' })

  test.each([
    ['by the registry', true],
    ['by a scan', false],
  ])('is found by its parts, blocked and with units: %s', async (_, isRegistered) => {
    const prefix = isRegistered ? 'login' : 'login-forgotten'
    await using limiter = limiterOf(prefix, LOGIN)
    await limiter.take(key('192.0.2.1'), 4)
    await limiter.block(anything({ ip: '192.0.2.2' }), '1h')
    await registered(prefix)
    if (!isRegistered) {
      await forget(prefix)
    }
    const taken = await inspected(prefix, '--key', 'ip=192.0.2.1', '--no-scan')
    const found = isRegistered ? taken : await inspected(prefix, '--key', 'ip=192.0.2.1')
    expect(found.code).toBe(0)
    expect(found.states).toEqual(
      expect.arrayContaining([expect.objectContaining({ policy: 'address', key: '192.0.2.1', used: 4 })]),
    )
    const blocked = await inspected(prefix, '--key', 'ip=192.0.2.2')
    expect(blocked.states).toEqual(
      expect.arrayContaining([expect.objectContaining({ policy: 'address', blockedForMs: expect.any(Number) })]),
    )
    const both = await inspected(prefix, '--key', 'ip=192.0.2.1', '--key', 'user=ann')
    expect(both).toMatchObject({ code: 0, key: { ip: '192.0.2.1', user: 'ann' } })
    const names = both.states.map(({ policy }) => policy)
    expect(names).toEqual(isRegistered ? ['account', 'address', 'all'] : ['account', 'address'])
    expect(both.decision).toEqual(isRegistered ? expect.objectContaining({ allowed: true }) : undefined)
  })

  test('is blocked, unblocked, overridden and reset without --policies', async () => {
    await using limiter = limiterOf('login-changed', LOGIN)
    await limiter.take(key('192.0.2.1'))
    await registered('login-changed')
    const change = (command: string, ...more: string[]) =>
      tollgate(words(command, 'login-changed', '--key', 'ip=192.0.2.9', ...more))
    expect(expectQuiet(await change('block', '--for', '1h')).code).toBe(0)
    expect(await limiter.take(key('192.0.2.9'))).toMatchObject({ status: 'blocked', policy: 'address' })
    expect(expectQuiet(await change('unblock')).code).toBe(0)
    expect(expectQuiet(await change('override', '--numbers', 'address limit=3', '--for', '1h')).code).toBe(0)
    expect(await limiter.take(key('192.0.2.9'))).toMatchObject({ policies: { address: { limit: 3, remaining: 2 } } })
    expect(expectQuiet(await change('reset')).code).toBe(0)
    expect(expectQuiet(await change('clear-override')).code).toBe(0)
  })

  test('a dimension that no policy has is an error, which names those that there are', async () => {
    const { code, stderr } = await tollgate(words('inspect', 'login', '--key', 'account=ann'))
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: "tollgate: --key must be one of user=…, ip=…, global: the policies' per\n",
    })
  })
})

test('a plain key with an equals sign is found', async () => {
  await using limiter = limiterOf('plain', gcra({ limit: 20, period: '20d' }))
  await limiter.take('ip=192.0.2.1', 3)
  await registered('plain')
  for (const isRegistered of [true, false]) {
    if (!isRegistered) {
      await forget('plain')
    }
    expect(await inspected('plain', '--key', 'ip=192.0.2.1')).toMatchObject({ code: 0, states: [{ used: 3 }] })
  }
})

describe('a key is not fresh', () => {
  const policy = gcra({ limit: 1_000, period: '1s' })
  const policies = { first: policy, second: policy }
  /** Something that is stored of the key `ann`, in a limiter under a policy that drains at once. */
  const STORED: Readonly<Record<string, (prefix: string) => Promise<unknown>>> = {
    block: (prefix) => limiterOf(prefix, policy).block('ann', '1h'),
    'block under several policies': (prefix) => limiterOf(prefix, policies).block('ann', '1h'),
    'block under a tag': (prefix) => limiterOf(prefix, policy, { tag: 'tenant' }).block('ann', '1h'),
    override: (prefix) => limiterOf(prefix, policy).override('ann', anything({ limit: 5 }), { ttl: '1h' }),
    'override under a tag': (prefix) =>
      limiterOf(prefix, policy, { tag: 'a{b}%' }).override('ann', anything({ limit: 5 }), { ttl: '1h' }),
    ban: async (prefix) => {
      const limiter = limiterOf(prefix, policy, { ban: { for: '1h' } })
      await limiter.take('ann', 1_001)
      await until('it is banned', async () => {
        await limiter.takeUpTo('ann', 1_000)
        return (await limiter.take('ann', 1_000)).status === 'blocked'
      })
    },
    strike: async (prefix) => {
      const limiter = limiterOf(prefix, policy, { ban: { after: 1_000, period: '1h', for: '1h' } })
      await until('a call is refused', async () => !(await limiter.take('ann', 1_000)).allowed)
    },
    reservation: (prefix) => gcraOf(prefix).reserve('ann', 1, { ttl: '1h' }),
    'reservation under a tag': (prefix) => gcraOf(prefix, 'tenant').reserve('ann', 1, { ttl: '1h' }),
    permit: (prefix) => permitsOf(prefix).acquire('ann'),
  }

  test.each(Object.entries(STORED))('with a %s', async (name, store) => {
    const prefix = `stored-${name.replaceAll(' ', '-')}`
    await store(prefix)
    await registered(prefix)
    for (const isRegistered of [true, false]) {
      if (!isRegistered) {
        await forget(prefix)
      }
      const { code, stdout } = expectQuiet(await tollgate(words('inspect', prefix, '--key', 'ann')))
      expect(stdout).not.toContain('fresh.')
      expect(code).toBe(0)
    }
  })

  test('unless all keys were scanned', async () => {
    // The states must not expire during the test.
    await using limiter = limiterOf('scanned', gcra({ limit: 1_000, period: '1h' }))
    await limiter.takeMany(
      Array.from({ length: 5_000 }, (_, at) => `user:${at}`),
      1_000,
    )
    await limiter.block('somebody', '1h')
    const shown = async (...more: string[]) =>
      expectQuiet(await tollgate(words('inspect', 'scanned', '--key', 'nobody', ...more))).stdout
    expect(await shown()).toContain('The key has no state: it is fresh.\n')
    expect(await shown('--no-scan')).toContain('no state under the known names; other names were not scanned.\n')
    expect(await shown('--scan', '1ms')).toContain('the scan of all keys ran out of time; increase --scan.\n')
  })

  test('a tagged block is found under another tag, and the decision is that of its calls', async () => {
    const found = await inspected('stored-block-under-a-tag', '--key', 'ann', '--policy', 'gcra limit=1000 period=1s')
    expect(found).toMatchObject({ states: [{ tag: 'tenant' }], decision: { status: 'blocked' } })
    const other = await inspected('stored-block-under-a-tag', '--key', 'ann', '--tag', 'other')
    expect(other.states).toMatchObject([{ tag: 'tenant', blockedForMs: expect.any(Number) }])
    expect(other.decision).toBeUndefined()
  })

  test("in a cluster whose store has shared tags, without the store's number of them", async () => {
    await using cluster = await RedisCluster.start()
    const [{ url, port }] = cluster.nodes as unknown as [{ url: string; port: number }]
    await using store = new RedisStore({ cluster: { nodes: [`127.0.0.1:${port}`], tags: 5 } })
    await using limiter = new RateLimiter(policy, { store, prefix: 'shop' })
    await limiter.block('ann', '1h')
    const target = ['inspect', url, '--prefix', 'shop', '--key', 'ann']
    const found = await json<KeyInspection>(target)
    expect(found).toMatchObject({ code: 0, states: [{ blockedForMs: expect.any(Number), sharesTag: true }] })
    expect(found.decision).toBeUndefined()
    const given = await json<KeyInspection>([...target, '--cluster-tags', '5'])
    expect(given).toMatchObject({ decision: { status: 'blocked' } })
  })
})

describe('tiers', () => {
  test('inspect names them, shows which one wrote a state, and decides by the given one', async () => {
    await using limiter = limiterOf('plans', PLANS)
    const take = (key: string, tier: string) => limiter.take(key, anything({ tier }))
    await Promise.all([take('ann', 'free'), take('bob', 'pro')])
    await registered('plans')
    const ann = await inspected('plans', '--key', 'ann')
    expect(ann).toMatchObject({ code: 0, tiers: ['free', 'pro'], states: [{ tier: 'free', limit: 2 }] })
    expect(ann.decision).toBeUndefined()
    const { stdout } = await tollgate(words('inspect', 'plans', '--key', 'ann'))
    expect(stdout).toContain('depends on the tier: add --tier, one of free, pro\n')
    expect(stdout).toContain('default: gcra, with the numbers of the tier free\n')
    const bob = await inspected('plans', '--key', 'bob', '--tier', 'pro')
    expect(bob).toMatchObject({ states: [{ tier: 'pro', limit: 50 }], decision: { limit: 50, remaining: 49 } })
    const free = await inspected('plans', '--key', 'nobody', '--tier', 'free')
    expect(free.decision).toMatchObject({ limit: 2, remaining: 2 })
    const wrong = await tollgate(words('inspect', 'plans', '--key', 'ann', '--tier', 'gold'))
    expect(wrong).toMatchObject({ code: 2, stderr: 'tollgate: --tier: it must be one of free, pro\n' })
  })

  test('a key is blocked and unblocked without --tier, and keeps its counts', async () => {
    await using limiter = limiterOf('plans-blocked', PLANS)
    const call = anything({ tier: 'pro' })
    await limiter.take('ann', anything({ tier: 'pro', cost: 30 }))
    await registered('plans-blocked')
    expectQuiet(await tollgate(words('block', 'plans-blocked', '--key', 'ann', '--for', '1h')))
    expect(await limiter.take('ann', call)).toMatchObject({ status: 'blocked' })
    expectQuiet(await tollgate(words('unblock', 'plans-blocked', '--key', 'ann')))
    expect(await limiter.peek('ann', call)).toMatchObject({ used: 30, remaining: 20 })
  })

  test('override needs the tier whose numbers complete it, and says which tiers exist', async () => {
    await using limiter = limiterOf('plans-own', PLANS)
    await limiter.take('ann', anything({ tier: 'pro' }))
    await registered('plans-own')
    const own = words('override', 'plans-own', '--key', 'ann', '--numbers', 'limit=60', '--for', '1h')
    const commands = await commandsOf(redis.server, async () => {
      expect(await tollgate(own)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('--tier, whose numbers complete the override: one of free, pro'),
      })
    })
    expectReading(commands)
    expectQuiet(await tollgate([...own, '--tier', 'pro']))
    // 60 in 50 days, and not in the 2 days of the other tier.
    expect(await limiter.take('ann', anything({ tier: 'pro' }))).toMatchObject({ capacity: 60 })
    const { states } = await inspected('plans-own', '--key', 'ann')
    expect(states[0]?.override?.numbers).toMatchObject({ limit: 1, periodMs: 72_000_000, burst: 60 })
  })

  test('top never compares a key with the limit of another tier', async () => {
    const windows = tiers({
      free: fixedWindow({ limit: 2, window: '1d' }),
      pro: fixedWindow({ limit: 50, window: '1d' }),
    })
    await using limiter = limiterOf('plans-top', windows)
    await using rates = limiterOf('plans-rates', PLANS)
    for (const one of [limiter, rates]) {
      await one.take('ann', anything({ tier: 'free', cost: 2 }))
      await one.take('bob', anything({ tier: 'pro', cost: 5 }))
    }
    await Promise.all(['plans-top', 'plans-rates'].map((prefix) => registered(prefix)))
    type Top = { by: string; keys: { key: string; limit?: number; share?: number }[] }
    const unknown = await json<Top>(words('top', 'plans-top'))
    expect(unknown.by).toBe('used')
    expect(unknown.keys.map(({ limit }) => limit)).toEqual([undefined, undefined])
    const pro = await json<Top>(words('top', 'plans-top', '--tier', 'pro'))
    expect(pro.keys).toMatchObject([
      { key: 'bob', limit: 50 },
      { key: 'ann', limit: 50 },
    ])
    // The states of rates contain the numbers of their tier.
    for (const more of [[], ['--tier', 'pro']]) {
      const found = await json<Top>(words('top', 'plans-rates', ...more))
      expect(found.keys).toMatchObject([
        { key: 'ann', limit: 2, share: 1 },
        { key: 'bob', limit: 50, share: 0.1 },
      ])
    }
  })
})

/** A policy of each algorithm, as the registry must be able to return it. */
const ALL: Readonly<Record<string, Policy>> = {
  gcra: gcra({ limit: 20, period: '500ms', burst: 30 }),
  bucket: tokenBucket({ capacity: 20, refill: { tokens: 3, every: '0.5ms' }, initial: 15, debt: 5 }),
  interval: tokenBucket({ capacity: 20, refill: { tokens: 2, every: '1d' }, refillMode: 'interval' }),
  leaky: leakyBucket({ capacity: 20, leak: { units: 1, every: '1d' } }),
  window: fixedWindow({ limit: 20, window: '1d', countRefused: true }),
  calendar: calendarWindow({ limit: 20, every: 'month', timeZone: 'Europe/Berlin' }),
  counter: slidingCounter({ limit: 20, window: '30d' }),
  list: slidingWindow({ limit: 20, window: '1d' }),
  hash: slidingWindow({ limit: 20, window: '1d', layout: 'hash' }),
  log: slidingLog({ limit: 20, window: '1d' }),
  logs: slidingLog({ limits: { short: { limit: 20, window: '1h' }, long: { limit: 50, window: '1d' } } }),
}

test.each(Object.entries(ALL))('%s: a limiter that has only blocked a key can be unblocked', async (name, policy) => {
  const prefix = `only-${name}`
  await using limiter = limiterOf(prefix, policy)
  await limiter.block('somebody', '1s')
  await registered(prefix)
  expectQuiet(await tollgate(words('block', prefix, '--key', 'ann', '--for', '1h')))
  expect(await limiter.peek('ann')).toMatchObject({ status: 'blocked' })
  expect(await inspected(prefix, '--key', 'ann')).toMatchObject({ decision: { status: 'blocked' } })
  expectQuiet(await tollgate(words('unblock', prefix, '--key', 'ann')))
  expect(await limiter.peek('ann')).toMatchObject({ status: 'allowed' })
})

test('a limiter of permits is known after its first permit, and after all have ended', async () => {
  await using limiter = permitsOf('permits')
  const permit = await limiter.acquire('somebody')
  await registered('permits')
  if (permit.allowed) {
    await permit.release()
  }
  expectQuiet(await tollgate(words('block', 'permits', '--key', 'ann', '--for', '1h')))
  expect(await limiter.peek('ann')).toMatchObject({ status: 'blocked' })
})

test('the registration outlasts the calls of a limiter, for the command line alone', async () => {
  await using server = await RedisServer.start({ hasOwnClock: true })
  await using store = new RedisStore(server.url)
  await using limiter = new RateLimiter(gcra({ limit: 20, period: '20d' }), { store, prefix: 'quiet' })
  await limiter.block('ann', '10d')
  await registered('quiet', server)
  await server.stepClock(3 * 86_400)
  const target = [server.url, '--prefix', 'quiet', '--key', 'ann']
  expect(await json<KeyInspection>(['inspect', ...target])).toMatchObject({ decision: { status: 'blocked' } })
  expectQuiet(await tollgate(['unblock', ...target]))
  // Limiters are compared with those of the last 90 minutes.
  await using next = new RateLimiter(fixedWindow({ limit: 20, window: '1d' }), {
    store: new RedisStore(server.url),
    prefix: 'quiet',
  })
  await next.ready()
})

test('the command line registers nothing', async () => {
  await using limiter = limiterOf('silent', gcra({ limit: 20, period: '20d' }))
  await limiter.take('ann')
  await registered('silent')
  await forget('silent')
  const policy = ['--policy', 'gcra limit=20 period=20d']
  for (const command of ['inspect', 'unblock', 'reset', 'block']) {
    const more = command === 'block' ? ['--for', '1h', ...policy] : policy
    await tollgate(words(command, 'silent', '--key', 'ann', ...more))
  }
  expect(await redis.server.command('EXISTS', 'silent:~policies')).toBe(0)
})

test('a user who may only read gets no decision, and no failure', async () => {
  await using limiter = limiterOf('reader', slidingLog({ limit: 20, window: '1d' }))
  await limiter.take('ann', 3)
  await registered('reader')
  const commands = '+hello +auth +time +scan +dbsize +get +lrange +hgetall +zrange +zcard +zcount'
  await redis.server.command('ACL', 'SETUSER', 'reader', 'on', '>reader', '~reader:*', ...commands.split(' '))
  const url = redis.server.url.replace('//', '//reader:reader@')
  const env = { REDIS_URL: url }
  const found = await json<KeyInspection>(['inspect', '--prefix', 'reader', '--key', 'ann'], { env })
  expect(found).toMatchObject({ code: 0, states: [{ used: 3 }], policiesFrom: 'registry' })
  expect(found.decision).toBeUndefined()
  expect(await json(['top', '--prefix', 'reader'], { env })).toMatchObject({ code: 0, keys: [{ used: 3 }] })
  expect(await json(['blocked', '--prefix', 'reader'], { env })).toMatchObject({ code: 1, blocked: [] })
})

test('a reservation that is settled is no longer shown', async () => {
  await using limiter = gcraOf('settled')
  const reserved = (await limiter.reserve('ann', 1)) as Extract<Reservation, { readonly allowed: true }>
  await reserved.cancel()
  expect((await inspected('settled', '--key', 'ann')).reservations).toBeUndefined()
})
