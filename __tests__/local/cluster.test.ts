/** Cached refusals over a Redis Cluster: as over one server, whose tests have the details. */
import { fixedWindow, RateLimiter, RedisStore } from '../../ts/index.js'
import { RedisCluster } from '../servers/cluster.js'

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await RedisCluster.start({ nodeTimeoutMs: 60_000 })
}, 30_000)

afterAll(() => cluster.stop())

test('keys of all nodes are refused without a call', async () => {
  const nodes = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`)
  const store = new RedisStore({ cluster: { nodes }, commandTimeoutMs: 5_000 })
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
