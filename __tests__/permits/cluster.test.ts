/** Permits over a Redis Cluster. */
import { concurrency, gcra, RateLimiter, RedisStore } from '../../ts/index.js'
import { RedisCluster } from '../servers/cluster.js'
import { until } from '../servers/until.js'
import { byClock, settledBy } from './by-clock.js'

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await RedisCluster.start({ nodeTimeoutMs: 60_000 })
})

afterAll(() => cluster.stop())

test.each([undefined, 64])(
  'keys of all nodes: limits, renewals and releases, with tags: %p',
  async (tags) => {
    const nodes = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`)
    const store = new RedisStore({
      cluster: tags === undefined ? { nodes } : { nodes, tags },
      commandTimeout: 30_000,
    })
    const clock = byClock(store)
    const policies = { most: concurrency({ limit: 2, ttl: '1m' }), rate: gcra({ limit: 100, period: '1h' }) }
    const limiter = new RateLimiter(policies, { store, prefix: `permits-${tags}` })
    const keys = Array.from({ length: 30 }, (_, number) => `key-${number}`)
    const permits = await Promise.all(keys.flatMap((key) => [0, 1, 2].map(() => limiter.acquire(key))))
    expect(permits.map(({ allowed }) => allowed)).toEqual(keys.flatMap(() => [true, true, false]))
    // By the clocks of the nodes, in whole milliseconds.
    const lives = () => Promise.all(keys.map((key) => limiter.peek(key, 0)))
    const endsOf = async () => (await lives()).map(({ at, policies }) => at + policies.most.resetAfterMs)
    await until('some of each life is over', async () =>
      (await lives()).every(({ policies }) => policies.most.resetAfterMs < 60_000 - 10),
    )
    const before = await endsOf()
    await clock.advance('21s')
    await until('all are renewed', async () =>
      (await endsOf()).every((end, index) => end > (before[index] as number) + 2),
    )
    expect((await limiter.acquire('key-0')).allowed).toBe(false)
    const waiting = keys.map((key) => limiter.acquire(key, { maxWait: 10_000 }))
    const released = await Promise.all(permits.map(async (permit) => (permit.allowed ? permit.release() : undefined)))
    expect(released.filter((wasHeld) => wasHeld === true)).toHaveLength(60)
    const passed = await settledBy(clock, Promise.all(waiting))
    expect(passed.every(({ allowed }) => allowed)).toBe(true)
    await limiter.close()
    const other = new RateLimiter(policies, { store, prefix: `permits-${tags}` })
    expect((await other.acquire('key-7', { cost: 2 })).allowed).toBe(true)
    await other.close()
    await store.close()
  },
  60_000,
)
