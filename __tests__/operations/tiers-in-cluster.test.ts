/** Tiers over a Redis Cluster: calls are split by tier and by slot, and keep their order on each key. */
import { gcra, RateLimiter, RedisStore, tiers } from '../../ts/index.js'
import { RedisCluster } from '../servers/cluster.js'

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await RedisCluster.start({ nodeTimeoutMs: 60_000 })
})

afterAll(() => cluster.stop())

test.each([undefined, 64])('calls of one tick on keys of all nodes, with tags: %p', async (tags) => {
  const nodes = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`)
  const store = new RedisStore({ cluster: tags === undefined ? { nodes } : { nodes, tags }, commandTimeout: 5_000 })
  const plans = tiers({
    free: gcra({ limit: 1, period: '1h', burst: 2 }),
    pro: gcra({ limit: 1, period: '1h', burst: 4 }),
    team: gcra({ limit: 1, period: '1h', burst: 7 }),
  })
  const limiter = new RateLimiter(plans, { store, prefix: `tiers-${tags}` })
  const keys = Array.from({ length: 100 }, (_, number) => `key-${number}`)
  const calls = keys.flatMap((key) => [
    limiter.take(key, { tier: 'free', cost: 2 }),
    limiter.take(key, { tier: 'free' }),
    limiter.take(key, { tier: 'pro', cost: 2 }),
    limiter.take(key, { tier: 'free' }),
    limiter.take(key, { tier: 'team', cost: 2 }),
    limiter.take(key, { tier: 'pro' }),
    limiter.take(key, { tier: 'team' }),
  ])
  const answers = (await Promise.all(calls)).map(({ status, capacity }) => `${status} ${capacity}`)
  const expected = [
    'allowed-last 2',
    'refused 2',
    'allowed-last 4',
    'refused 2',
    'allowed 7',
    'refused 4',
    'allowed-last 7',
  ]
  expect(answers).toEqual(keys.flatMap(() => expected))
  await limiter.close()
  await store.close()
})
