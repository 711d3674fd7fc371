/** A call that waits for the answers to other calls keeps its own deadline, over a slow network. */
import { setTimeout as sleep } from 'node:timers/promises'
import { gcra, RateLimiter, RedisStore } from '../../ts/index.js'
import { RedisServer } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import { until } from '../servers/until.js'

const TIMEOUT_MS = 16_000

/** When the connection of the first call breaks. */
const BREAK_MS = 13_000

/** A call that starts anew after the first one failed would end at `BREAK_MS + TIMEOUT_MS`. */
const LATEST_MS = TIMEOUT_MS + 6_000

let server: RedisServer
let proxy: TcpProxy
let store: RedisStore

beforeEach(async () => {
  server = await RedisServer.start()
  proxy = await TcpProxy.start(server)
  store = new RedisStore({ url: proxy.url, commandTimeout: TIMEOUT_MS })
})

afterEach(async () => {
  proxy.release()
  await store.close()
  await proxy.stop()
  await server.stop()
})

/** A limiter with a hot key. */
async function withLeases(limit: number) {
  const local = { lease: '100ms' } as const
  const limiter = new RateLimiter(gcra({ limit, period: '1s' }), { store, prefix: 'leased', local })
  await limiter.ready()
  await until('the key has leases', async () => {
    const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.take('key')))
    return decisions.some(({ source }) => source === 'lease')
  })
  return limiter
}

test('a call that has waited joins no group of later calls', async () => {
  const limiter = await withLeases(100_000)
  proxy.latencyMs = BREAK_MS / 2
  const times: Promise<number>[] = []
  const begin = performance.now()
  // When the first answer comes, its lease is over. Groups of calls with later deadlines are open.
  for (let ms = 0; ms < BREAK_MS + 200; ms = performance.now() - begin) {
    const start = performance.now()
    const end = () => performance.now() - start
    times.push(...[limiter.take('key'), limiter.take('key')].map((call) => call.then(end, end)))
    await sleep(0)
  }
  proxy.hold()
  expect(Math.max(...(await Promise.all(times)))).toBeLessThan(LATEST_MS)
})
