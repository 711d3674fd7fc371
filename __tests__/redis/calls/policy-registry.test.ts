/**
 * Limiters with one prefix and different policies detect each other, without delaying or failing a
 * call.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import {
  calendarWindow,
  concurrency,
  fixedWindow,
  gcra,
  type Policy,
  RateLimiter,
  RedisStore,
  type RedisStoreOptions,
  type StoreEvents,
  slidingLog,
  tiers,
} from '../../../ts/index.js'
import { anything, rejectionOf } from '../../failure.js'
import { RedisCluster } from '../../servers/cluster.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { PATIENT_MS } from '../help.js'
import { openedRedis } from '../opened.js'

const redis = openedRedis()

/** A private store with a limiter, and the store's warnings. */
function opened(policy: Policy, prefix: string, options: RedisStoreOptions = { url: redis.server.url }) {
  const store = new RedisStore({ commandTimeout: PATIENT_MS, ...options })
  const warnings: StoreEvents['warning'][] = []
  store.on('warning', (warning) => warning.code === 'POLICIES_DIFFER' && warnings.push(warning))
  return { store, warnings, limiter: new RateLimiter(policy, { store, prefix }) }
}

/** Makes calls, of which the first registers the policies. */
async function registered({ limiter }: { readonly limiter: { take(key: string): Promise<unknown> } }): Promise<void> {
  await limiter.take('key')
  await limiter.take('key')
}

const texts = (prefix: string) => redis.server.command<string[]>('ZRANGE', `${prefix}:~policies`, 0, -1)

async function waitForWarnings(warnings: readonly StoreEvents['warning'][], count = 1): Promise<void> {
  await until('the warning is there', async () => warnings.length >= count)
}

test('different numbers under one prefix warn both limiters, once, with the shared part', async () => {
  const old = opened(gcra({ limit: 100, period: '1m' }), 'numbers')
  const next = opened(gcra({ limit: 50, period: '1m', burst: 20 }), 'numbers')
  await registered(old)
  await until('the policies are registered', async () => (await texts('numbers')).length === 1)
  expect(old.warnings).toEqual([])
  await registered(next)
  await waitForWarnings(next.warnings)
  const [ours, theirs] = ['default: gcra burst=20 limit=50 period=1m', 'default: gcra limit=100 period=1m']
  expect(next.warnings).toEqual([
    {
      code: 'POLICIES_DIFFER',
      prefix: 'numbers',
      ours,
      theirs,
      sharesStates: true,
      message: `prefix numbers is used here with "${ours}", and elsewhere within 90 minutes with "${theirs}": both count on the same states (default: gcra), as after a change of numbers; expected while a change is rolled out; otherwise give one of them another prefix`,
    },
  ])
  // Another store has the same policies. Stores that know them get no second warning; the new store
  // gets one for the old policies.
  const same = opened(gcra({ limit: 100, period: '1m' }), 'numbers')
  await registered(same)
  await waitForWarnings(same.warnings)
  expect(same.warnings).toMatchObject([{ ours: theirs, theirs: ours }])
  expect((await texts('numbers')).sort()).toEqual([theirs, ours].sort())
  expect([old.warnings.length, next.warnings.length]).toEqual([0, 1])
  expect(Number(await redis.server.command('PTTL', 'numbers:~policies'))).toBeGreaterThan(5_000_000)
  await Promise.all([old, next, same].map(({ store }) => store.close()))
})

test.each<[string, Policy, Policy]>([
  ['another algorithm', fixedWindow({ limit: 100, window: '1h' }), gcra({ limit: 100, period: '1h' })],
  [
    'one limit, and several',
    slidingLog({ limit: 9, window: '1h' }),
    slidingLog({ limits: { hour: { limit: 9, window: '1h' } } }),
  ],
])('%s', async (name, first, second) => {
  const prefix = name.replaceAll(/\W+/g, '-')
  const one = opened(first, prefix)
  const other = opened(second, prefix)
  await registered(one)
  await registered(other)
  await waitForWarnings(other.warnings)
  expect(other.warnings).toMatchObject([{ code: 'POLICIES_DIFFER', sharesStates: false }])
  expect(other.warnings[0]?.message).toContain(
    'neither sees the counts of the other, as after a change of algorithm: keys start',
  )
  await Promise.all([one, other].map(({ store }) => store.close()))
})

/** Policies, and a key and the options of a call under them. */
type Called = readonly [policies: object, key: unknown, options?: object]

const hourly = (options: object = {}) => fixedWindow({ limit: 9, window: '1h', ...options })

test.each<[string, Called, Called]>([
  ['per', [hourly({ per: 'ip' }), { ip: 'a' }], [hourly({ per: 'user', limit: 5 }), { user: 'a' }]],
  ['meter', [hourly(), 'a'], [hourly({ meter: 'tokens' }), 'a', { cost: { tokens: 1 } }]],
  ['tier', [hourly(), 'a'], [tiers({ free: hourly(), pro: hourly({ limit: 99 }) }), 'a', { tier: 'free' }]],
  ['countRefused', [hourly(), 'a'], [hourly({ countRefused: true }), 'a']],
  [
    'every, timeZone',
    [calendarWindow({ limit: 9, every: 'day', timeZone: 'UTC' }), 'a'],
    [calendarWindow({ limit: 9, every: 'month', timeZone: 'Asia/Tokyo' }), 'a'],
  ],
])('a warning names other differences than numbers: %s', async (difference, first, second) => {
  const prefix = `kinds-${difference.replaceAll(/\W+/g, '-')}`
  const registeredBy = async ([policies, key, options]: Called) => {
    const all = opened(anything(policies), prefix)
    await registered({ limiter: { take: () => all.limiter.take(anything(key), anything(options)) } })
    return all
  }
  const one = await registeredBy(first)
  await until('the policies are registered', async () => (await texts(prefix)).length === 1)
  const other = await registeredBy(second)
  await waitForWarnings(other.warnings)
  expect(other.warnings).toMatchObject([{ code: 'POLICIES_DIFFER', sharesStates: true }])
  expect(other.warnings[0]?.message).toMatch(
    new RegExp(`both count on the same states \\(default: \\w+\\), although they differ in ${difference}; expected`),
  )
  await Promise.all([one, other].map(({ store }) => store.close()))
})

test('two processes', async () => {
  const program = join(__dirname, '..', 'programs', 'noted.mjs')
  /** A process that makes calls until its input ends. */
  const calling = (limit: number) => {
    const child = spawn(process.execPath, [program, redis.server.url, `${limit}`], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      said += part
    })
    const ended = once(child, 'close')
    return {
      said: () => said,
      end: async () => {
        child.stdin.end()
        expect(await ended).toEqual([0, null])
        return said
      },
    }
  }
  const first = calling(100)
  await until('the first has registered its policies', async () => (await texts('shared')).length === 1)
  const second = calling(200)
  await until('the second is warned', async () => second.said().includes('\n'))
  expect(JSON.parse(await second.end())).toMatchObject({ prefix: 'shared', sharesStates: true })
  expect(await first.end()).toBe('')
})

function gcraOf(store: RedisStore, prefix: string) {
  return new RateLimiter(gcra({ limit: 100, period: '1m' }), { store, prefix })
}

/** A first call of each kind. */
const FIRST_CALLS: Readonly<Record<string, (limiter: AnyLimiter) => Promise<unknown>>> = {
  take: (limiter) => limiter.take('key'),
  takeMany: (limiter) => limiter.takeMany(['key']),
  takeUpTo: (limiter) => limiter.takeUpTo('key', 2),
  peek: (limiter) => limiter.peek('key'),
  reserve: (limiter) => limiter.reserve('key', 1),
  wait: (limiter) => limiter.wait('key'),
  penalize: (limiter) => limiter.penalize('key', 1),
  block: (limiter) => limiter.block('key', '1h'),
  unblock: (limiter) => limiter.unblock('key'),
  reset: (limiter) => limiter.reset('key'),
  override: (limiter) => limiter.override('key', { limit: 5 }, { ttl: '1h' }),
  clearOverride: (limiter) => limiter.clearOverride('key'),
}

type AnyLimiter = ReturnType<typeof gcraOf>

// promise: policies-differ
test.each(Object.entries(FIRST_CALLS))('a first call of %s registers the policies', async (name, call) => {
  const prefix = `first-${name}`
  const store = new RedisStore(redis.server.url)
  const limiter = gcraOf(store, prefix)
  await limiter.ready()
  expect(await texts(prefix)).toEqual([])
  await call(limiter)
  const text = 'default: gcra limit=100 period=1m'
  await until('the policies are registered', async () => (await texts(prefix)).join() === text)
  await store.close()
})

// promise: policies-differ
test('permits register their policies, and `ready` then sees other algorithms', async () => {
  const store = new RedisStore(redis.server.url)
  const limiter = new RateLimiter(concurrency({ limit: 2, ttl: '10s' }), { store, prefix: 'permits' })
  const permit = await limiter.acquire('key')
  await until('the policies are registered', async () => (await texts('permits')).length === 1)
  expect(await texts('permits')).toEqual(['default: concurrency limit=2 ttl=10s'])
  const other = opened(gcra({ limit: 100, period: '1m' }), 'permits')
  expect((await rejectionOf(other.limiter.ready())).code).toBe('INVALID_POLICY')
  if (permit.allowed) {
    await permit.release()
  }
  await Promise.all([store.close(), other.store.close()])
})

test('a rule for bans is registered, and a limiter without it causes no warning', async () => {
  const policy = gcra({ limit: 100, period: '1m' })
  const store = new RedisStore(redis.server.url)
  const ban = { after: 5, period: '10m', for: ['1h', '1d'] } as const
  const banning = new RateLimiter(policy, { store, prefix: 'bans', ban })
  await registered({ limiter: banning })
  const text = 'default: gcra limit=100 period=1m; ~ban: after=5 period=10m for=1h,1d ttl=1d'
  await until('the policies are registered', async () => (await texts('bans')).join() === text)
  const plain = opened(policy, 'bans')
  await plain.limiter.ready()
  await registered(plain)
  await until('both are registered', async () => (await texts('bans')).length === 2)
  expect(plain.warnings).toEqual([])
  await Promise.all([store.close(), plain.store.close()])
})

test('a limiter that is opened again registers nothing again', async () => {
  const { store, limiter } = opened(gcra({ limit: 100, period: '1m' }), 'again')
  await registered({ limiter })
  await until('the policies are registered', async () => (await texts('again')).length === 1)
  await limiter.close()
  await redis.server.command('DEL', 'again:~policies')
  const again = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store, prefix: 'again' })
  await registered({ limiter: again })
  expect(await texts('again')).toEqual([])
  await store.close()
})

// promise: policies-differ
test('a user without the permission to register still gets decisions', async () => {
  await redis.server.command('ACL', 'SETUSER', 'few', 'on', '>few', '~few:default:*', '+@all')
  const url = redis.server.url.replace('//', '//few:few@')
  const few = opened(gcra({ limit: 100, period: '1h' }), 'few', { url })
  await registered(few)
  expect(await few.limiter.take('key')).toMatchObject({ allowed: true, remaining: 97 })
  expect(await texts('few')).toEqual([])
  expect(few.store.status().state).toBe('up')
  expect(few.warnings).toEqual([])
  await few.store.close()
})

test('a foreign key in its place stays untouched', async () => {
  await redis.server.command('SET', 'foreign:~policies', 'mine')
  const foreign = opened(gcra({ limit: 100, period: '1h' }), 'foreign')
  await registered(foreign)
  expect(await foreign.limiter.take('key')).toMatchObject({ allowed: true, remaining: 97 })
  expect(await redis.server.command('GET', 'foreign:~policies')).toBe('mine')
  await foreign.store.close()
})

test('in a cluster', async () => {
  await using cluster = await RedisCluster.start()
  const options = { cluster: { nodes: cluster.nodes.map(({ port }) => `127.0.0.1:${port}`) } }
  for (const prefix of ['a', 'b', 'c', 'd']) {
    const one = opened(gcra({ limit: 100, period: '1m' }), prefix, options)
    const other = opened(gcra({ limit: 50, period: '1m' }), prefix, options)
    await registered(one)
    await registered(other)
    await waitForWarnings(other.warnings)
    expect(other.warnings).toMatchObject([{ prefix, sharesStates: true }])
    await Promise.all([one, other].map(({ store }) => store.close()))
  }
})

describe('ready', () => {
  const window = fixedWindow({ limit: 100, window: '1m' })

  test('rejects while another process uses another algorithm or other names, and registers nothing', async () => {
    const old = opened(gcra({ limit: 100, period: '1m' }), 'kinds')
    await registered(old)
    await until('the policies are registered', async () => (await texts('kinds')).length === 1)
    const next = opened(window, 'kinds')
    const { code, message } = await rejectionOf(next.limiter.ready())
    expect(code).toBe('INVALID_POLICY')
    expect(message).toContain('neither sees the counts of the other')
    expect(message).toContain('or pass takeOver: true')
    expect(await texts('kinds')).toHaveLength(1)
    const several = new RateLimiter(
      { default: gcra({ limit: 100, period: '1m' }), day: window },
      { store: new RedisStore(redis.server.url), prefix: 'kinds' },
    )
    expect((await rejectionOf(several.ready())).code).toBe('INVALID_POLICY')
    // Calls are decided all the same, and a limiter that takes over is ready.
    expect((await next.limiter.take('a')).allowed).toBe(true)
    const takeOver = new RateLimiter(window, {
      store: new RedisStore(redis.server.url),
      prefix: 'kinds',
      takeOver: true,
    })
    await takeOver.ready()
    await Promise.all([several, takeOver].map((limiter) => limiter.close()))
    await Promise.all([old, next].map(({ store }) => store.close()))
  })

  test('resolves under other numbers, and under tiers and updates of the same policies', async () => {
    const old = opened(gcra({ limit: 100, period: '1m' }), 'others')
    await registered(old)
    await until('the policies are registered', async () => (await texts('others')).length === 1)
    const next = opened(gcra({ limit: 200, period: '1m' }), 'others')
    await next.limiter.ready()
    next.limiter.update(gcra({ limit: 300, period: '1m' }))
    await next.limiter.ready()
    const store = new RedisStore(redis.server.url)
    const plans = tiers({ free: gcra({ limit: 10, period: '1m' }), pro: gcra({ limit: 100, period: '1m' }) })
    const tiered = new RateLimiter(plans, { store, prefix: 'others' })
    await tiered.ready()
    await Promise.all([old.store, next.store, store].map((store) => store.close()))
  })

  test('resolves if the registry cannot be read', async () => {
    const config = ['user default on nopass ~none:default:* +@all']
    const server = await RedisServer.start({ config })
    const store = new RedisStore(server.url)
    const limiter = new RateLimiter(window, { store, prefix: 'none', takeOver: false })
    await limiter.ready()
    await store.close()
    await server.stop()
  })
})

test('an update is registered, and other processes are warned of it', async () => {
  const [first, second] = [1, 2].map(() => opened(gcra({ limit: 100, period: '1m' }), 'update'))
  if (first === undefined || second === undefined) {
    throw new Error('two limiters')
  }
  await registered(first)
  await registered(second)
  first.limiter.update(gcra({ limit: 200, period: '1m' }))
  await first.limiter.take('key')
  await until('the new policies are registered', async () => (await texts('update')).length === 2)
  await waitForWarnings(first.warnings)
  expect(first.warnings).toMatchObject([{ ours: expect.stringContaining('limit=200'), sharesStates: true }])
  await Promise.all([first, second].map(({ store }) => store.close()))
})
