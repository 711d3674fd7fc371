/** A call that waits for the answer to another call keeps its own deadline. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fixedWindow, gcra, type OnStoreFailure, RateLimiter, RedisStore } from '../../ts/index.js'
import { RedisServer } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import { until } from '../servers/until.js'

const TIMEOUT_MS = 3_000

/** When the connection of the first call breaks. */
const BREAK_MS = 2_000

/** A call that starts anew after the first one failed would end at `BREAK_MS + TIMEOUT_MS`. */
const LATEST_MS = 4_500

let server: RedisServer
let proxy: TcpProxy
let store: RedisStore

beforeEach(async () => {
  server = await RedisServer.start()
  proxy = await TcpProxy.start(server)
  store = new RedisStore({ url: proxy.url, commandTimeoutMs: TIMEOUT_MS })
})

afterEach(async () => {
  proxy.release()
  await store.close()
  await proxy.stop()
  await server.stop()
})

/** The results of two calls of one tick, of which the first fails with its connection. */
async function twoCalls(take: () => Promise<unknown>) {
  const start = performance.now()
  const timed = (call: Promise<unknown>) =>
    call
      .then(
        (decision) => decision as { source: string },
        (error) => ({ code: error.code as string }),
      )
      .then((result) => ({ ...result, ms: performance.now() - start }))
  proxy.hold()
  const calls = [timed(take()), timed(take())]
  await sleep(BREAK_MS)
  // New connections are accepted, and never answered.
  proxy.cut()
  return Promise.all(calls)
}

/** A limiter with a key whose long refusal has ended. */
async function afterRefusal(onStoreFailure: OnStoreFailure) {
  const policy = fixedWindow({ limit: 1, window: '1s' })
  const limiter = new RateLimiter(policy, { store, prefix: 'refused', local: { refusals: '1m' }, onStoreFailure })
  await limiter.ready()
  await limiter.take('key')
  expect(await limiter.take('key')).toMatchObject({ allowed: false, source: 'store' })
  await sleep(1_100)
  return limiter
}

// promise: deadline-with-local-decisions
test('a call behind the first one after a refusal', async () => {
  const limiter = await afterRefusal('throw')
  const [first, second] = await twoCalls(() => limiter.take('key'))
  expect(first).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  expect(second?.ms).toBeLessThan(LATEST_MS)
  expect(second).toMatchObject({ code: expect.stringMatching('^STORE_') })
})

test('the same with an answer in place of the failure', async () => {
  const limiter = await afterRefusal('refuse')
  const [first, second] = await twoCalls(() => limiter.take('key'))
  expect([first, second]).toMatchObject([{ source: 'none' }, { source: 'none' }])
  expect(second?.ms).toBeLessThan(LATEST_MS)
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

// promise: deadline-with-local-decisions
test('a call of a group on a hot key', async () => {
  const limiter = await withLeases(1_000)
  // Its units are used, or their time is over.
  proxy.hold()
  await until('nothing is left', async () => {
    const source = await Promise.race([limiter.take('key').then(({ source }) => source, String), sleep(0, 'none')])
    return source === 'none'
  })
  // No call joins the group of that call any more.
  await sleep(20)
  const [first, second] = await twoCalls(() => limiter.take('key'))
  expect(first).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  expect(second?.ms).toBeLessThan(LATEST_MS)
  expect(second).toMatchObject({ code: expect.stringMatching('^STORE_') })
})

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

test('calls of a group wait for one answer only, also if answers take longer than a lease', async () => {
  const limiter = await withLeases(100_000)
  // A group after another would decide one call each.
  proxy.latencyMs = 200
  const decisions = await Promise.allSettled(Array.from({ length: 500 }, () => limiter.take('key')))
  const results = decisions.map((one) => (one.status === 'fulfilled' ? one.value.status : one.reason.code))
  expect(new Set(results)).toEqual(new Set(['allowed']))
})
