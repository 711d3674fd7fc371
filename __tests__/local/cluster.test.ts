/** Cached refusals and leases over a Redis Cluster: as over one server, whose tests have the details. */
import { fixedWindow, RateLimiter, RedisStore } from '../../ts/index.js'
import { RedisCluster } from '../servers/cluster.js'

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await RedisCluster.start({ nodeTimeoutMs: 60_000 })
})

afterAll(() => cluster.stop())

test('keys of all nodes are refused without a call', async () => {
  const nodes = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`)
  const store = new RedisStore({ cluster: { nodes }, commandTimeout: 5_000 })
  const options = { store, prefix: 'local', local: { refusals: '10s' } } as const
  const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1h' }), options)
  const keys = Array.from({ length: 30 }, (_, number) => `key-${number}`)
  const sources = async () => new Set((await limiter.takeMany(keys)).map(({ status, source }) => `${status} ${source}`))
  expect(await sources()).toEqual(new Set(['allowed-last store']))
  expect(await sources()).toEqual(new Set(['refused store']))
  expect(await sources()).toEqual(new Set(['refused cache']))
  await Promise.all(keys.map((key) => limiter.reset(key)))
  expect(await sources()).toEqual(new Set(['allowed-last store']))
  await store.close()
})

test('hot keys of all nodes have leases, and what is left goes back', async () => {
  const nodes = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`)
  const store = new RedisStore({ cluster: { nodes }, commandTimeout: 5_000 })
  const policy = fixedWindow({ limit: 100_000, window: '1h' })
  const limiter = new RateLimiter(policy, { store, prefix: 'leased', local: { lease: '1m' } })
  const keys = Array.from({ length: 12 }, (_, number) => `key-${number}`)
  const last: string[] = []
  for (let calls = 0; calls < 400; calls++) {
    last.splice(0, keys.length, ...(await limiter.takeMany(keys)).map(({ source }) => source))
  }
  expect(last).toEqual(keys.map(() => 'lease'))
  expect(store.status().leases.keys).toBe(12)
  await limiter.close()
  const plain = new RateLimiter(policy, { store, prefix: 'leased' })
  const left = await Promise.all(keys.map(async (key) => (await plain.peek(key)).remaining))
  expect(left).toEqual(keys.map(() => 100_000 - 400))
  await store.close()
})
