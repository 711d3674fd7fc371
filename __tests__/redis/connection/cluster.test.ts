/** A store over a Redis Cluster. */

import { fixedWindow, gcra, RateLimiter, RedisStore, type RedisStoreOptions } from '../../../ts/index.js'
import { failureOf } from '../../failure.js'
import { RedisCluster } from '../../servers/cluster.js'
import type { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { type Outcome, outcome, PATIENT_MS } from '../help.js'

/** The deadline of calls that must fail, in milliseconds. */
const SHORT_MS = 300
const LIMIT = 1_000_000
const ENDLESS = fixedWindow({ limit: LIMIT, window: '1d' })

let cluster: RedisCluster

beforeAll(async () => {
  // A node that is frozen stays a member.
  cluster = await RedisCluster.start({ nodeTimeoutMs: 60_000 })
})

afterAll(() => cluster.stop())

function addresses(): string[] {
  return cluster.nodes.map(({ port }) => `127.0.0.1:${port}`)
}

function opened(options: Partial<RedisStoreOptions> = {}): RedisStore {
  return new RedisStore({ cluster: { nodes: addresses().slice(0, 1) }, commandTimeout: PATIENT_MS, ...options })
}

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, number) => `key-${number}`)
}

function calls(limiter: RateLimiter, keys: readonly string[]): Promise<Outcome[]> {
  return Promise.all(keys.map((key) => outcome(limiter.take(key))))
}

test("errors have the option's name, value and rule", () => {
  const message = (options: unknown) => failureOf(() => new RedisStore(options as RedisStoreOptions)).message
  const nodes = addresses()
  expect(message({ cluster: { nodes }, url: 'redis://localhost' })).toMatch(
    /exactly one of .*cluster, got url and cluster/,
  )
  expect(message({ cluster: {} })).toMatch(/^cluster\.nodes must be an array of 1 to/)
  expect(message({ cluster: { nodes: [] } })).toMatch(/^cluster\.nodes must be an array of 1 to/)
  expect(message({ cluster: { nodes: ['redis://u:hunter2@h'] } })).toMatch(
    /^cluster\.nodes\[0\] must be host(?!.*hunter2)/,
  )
  for (const tags of [0, 16_385, 1.5, '4', null]) {
    expect(message({ cluster: { nodes, tags } })).toMatch(/^cluster\.tags must be a whole number from 1 to 16384/)
  }
  expect(message({ cluster: { nodes, slots: 5 } })).toMatch(/^cluster has no option "slots"/)
  expect(message({ cluster: { nodes }, database: 1 })).toMatch(/^database must be 0 with cluster/)
})

test('keys of all slots are decided, each in call order, and so are operations', async () => {
  await using store = opened()
  const limiter = new RateLimiter(ENDLESS, { store, prefix: 'cluster' })
  await limiter.ready()
  expect(store.status()).toMatchObject({ state: 'up' })
  const keys = [...numbered(300), ...numbered(300)]
  const decisions = await Promise.all(keys.map((key) => limiter.take(key)))
  expect(decisions.map(({ remaining }) => LIMIT - remaining)).toEqual([...Array(300).fill(1), ...Array(300).fill(2)])
  expect(await limiter.peek('key-7')).toMatchObject({ remaining: LIMIT - 2 })
  await limiter.penalize('key-7', 5)
  const reservation = await limiter.reserve('key-7', 10, { ttl: '1m' })
  if (reservation.allowed) {
    await reservation.commit(3)
  }
  expect(await limiter.peek('key-7')).toMatchObject({ remaining: LIMIT - 10 })
  const many = await limiter.takeMany(numbered(50))
  expect(many.map(({ remaining }) => LIMIT - remaining)).toEqual(numbered(50).map((_, key) => (key === 7 ? 11 : 3)))
})

// promise: all-or-none
test('policies with separate keys need a tag, and the error says so', async () => {
  await using store = opened()
  const limiter = new RateLimiter(
    { ip: gcra({ limit: 9, period: '1h', per: 'ip' }), account: gcra({ limit: 5, period: '1h', per: 'account' }) },
    { store, prefix: 'login' },
  )
  const one = { ip: '10.0.0.1', account: 'alice' }
  await expect(limiter.take(one)).rejects.toMatchObject({
    code: 'STORE_ERROR',
    charged: false,
    message: expect.stringContaining('tag'),
  })
  expect(await limiter.take(one, { tag: 'login' })).toMatchObject({ allowed: true, policy: 'account', remaining: 4 })
})

test('with `tags` keys share that number of hash tags, and stores with the same number find the same counts', async () => {
  await Promise.all(cluster.nodes.map((node) => node.command('FLUSHALL')))
  const options = { cluster: { nodes: addresses(), tags: 4 } }
  await using store = opened(options)
  await using other = opened(options)
  const [limiter, same] = [store, other].map((store) => new RateLimiter(ENDLESS, { store, prefix: 'tags' }))
  await calls(limiter as RateLimiter, numbered(100))
  const found = await Promise.all(cluster.nodes.map((node) => node.command<string[]>('KEYS', '*{*')))
  expect(found.flat()).toHaveLength(100)
  const [outcomes, keys] = [await calls(same as RateLimiter, numbered(100)), new Set<string>()]
  expect(outcomes.every(({ decision }) => decision?.remaining === LIMIT - 2)).toBe(true)
  for (const node of cluster.nodes) {
    for (const name of await node.command<string[]>('KEYS', '*{*')) {
      keys.add(name.slice(name.indexOf('{'), name.indexOf('}') + 1))
    }
  }
  expect([...keys].sort()).toEqual(['{%~0}', '{%~1}', '{%~2}', '{%~3}'])
})

test('a frozen node delays only calls on its own keys', async () => {
  await using store = opened()
  const limiter = new RateLimiter(ENDLESS, { store, prefix: 'frozen' })
  const keys = numbered(90)
  const owners = await Promise.all(keys.map(async (key) => cluster.owner(await cluster.slotOf(`{${key}}`))))
  const frozen = cluster.nodes[1] as RedisServer
  const [own, others] = [true, false].map((isFrozen) => keys.filter((_, key) => (owners[key] === frozen) === isFrozen))
  if (own === undefined || others === undefined) {
    throw new Error('keys of the frozen node, and others')
  }
  expect((await calls(limiter, keys)).every(({ error }) => error === undefined)).toBe(true)
  frozen.freeze()
  let settled = 0
  const [delayed, decided]: [Promise<Outcome>[], Promise<Outcome>[]] = [[], []]
  for (let wave = 0; wave < 20; wave++) {
    delayed.push(...own.map((key) => outcome(limiter.take(key)).finally(() => settled++)))
    decided.push(...others.map((key) => outcome(limiter.take(key))))
    await new Promise(setImmediate)
  }
  expect((await Promise.all(decided)).filter(({ decision }) => decision?.allowed !== true)).toEqual([])
  expect(settled).toBe(0)
  frozen.thaw()
  // The node answers before the deadline, so none of them fails.
  expect((await Promise.all(delayed)).filter(({ decision }) => decision?.allowed !== true)).toEqual([])
  expect((await calls(limiter, keys)).map(({ decision }) => decision?.remaining)).toEqual(keys.map(() => LIMIT - 22))
})

test('calls on a frozen node fail by their deadline, also when the store closes meanwhile', async () => {
  const store = opened({ commandTimeout: SHORT_MS })
  const limiter = new RateLimiter(ENDLESS, { store, prefix: 'closing' })
  await until('the store is ready', async () => (await calls(limiter, numbered(30))).every(({ error }) => !error))
  for (const node of cluster.nodes) {
    node.freeze()
  }
  try {
    const waiting = calls(limiter, numbered(30))
    await store.close()
    const codes = (await waiting).map(({ error }) => error?.code)
    expect(codes).toEqual(Array(30).fill('STORE_TIMEOUT'))
    await expect(limiter.take('key-1')).rejects.toMatchObject({ code: 'CLOSED' })
  } finally {
    for (const node of cluster.nodes) {
      node.thaw()
    }
  }
})
