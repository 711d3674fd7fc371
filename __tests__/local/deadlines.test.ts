/** A call that waits for the answer to another call keeps its own deadline. Deadlines are in virtual time. */
import { setImmediate as turn } from 'node:timers/promises'
import { fixedWindow, gcra, type OnStoreFailure, RateLimiter, RedisStore } from '../../ts/index.js'
import { timers } from '../../ts/platform/timers.js'
import { timeOf } from '../../ts/platform/waiting-time.js'
import { TestClock } from '../../ts/testing/index.js'
import { type DrivenTime, startDriven } from '../driven-redis.js'
import type { RedisServer } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import { until } from '../servers/until.js'

/** By the virtual clock. The engine waits as long in real time, so that its deadlines do not matter. */
const TIMEOUT_MS = 120_000

/** When the connection of the first call breaks. */
const BREAK_MS = 80_000

/** How late a call may settle: the batcher waits for the engine's reason for up to 40 ms. */
const GRACE_MS = 50

let server: RedisServer
let time: DrivenTime
let proxy: TcpProxy
let store: RedisStore

beforeEach(async () => {
  ;({ server, time } = await startDriven())
  proxy = await TcpProxy.start(server)
  store = time.drive(new RedisStore({ url: proxy.url, commandTimeout: TIMEOUT_MS }))
})

afterEach(async () => {
  proxy.release()
  await store.close()
  await proxy.stop()
  await server.stop()
})

/** The results of two calls of one tick, of which the first fails with its connection, by their deadline. */
async function twoCalls(take: () => Promise<unknown>) {
  const clock = new TestClock()
  const { setTimeout, clearTimeout, setInterval, clearInterval, now } = timers
  Object.assign(timers, timeOf(clock))
  try {
    const results: ({ readonly source?: string; readonly code?: string } | undefined)[] = [undefined, undefined]
    const settle = (index: number) => (result: unknown) => {
      results[index] = result as { readonly source: string }
    }
    proxy.hold()
    const calls = [take(), take()]
    for (const [index, call] of calls.entries()) {
      call.then(settle(index), settle(index))
    }
    await clock.advance(BREAK_MS)
    // New connections are accepted, and never answered.
    proxy.cut()
    await until('the first call fails', async () => results[0] !== undefined)
    for (let turns = 0; turns < 10; turns++) {
      await turn()
    }
    await clock.advance(TIMEOUT_MS - BREAK_MS + GRACE_MS)
    await until('the second call settles', async () => results[1] !== undefined)
    return results
  } finally {
    Object.assign(timers, { setTimeout, clearTimeout, setInterval, clearInterval, now })
  }
}

/** A limiter with a key whose long refusal has ended. */
async function afterRefusal(onStoreFailure: OnStoreFailure) {
  const policy = fixedWindow({ limit: 1, window: '1s' })
  const limiter = new RateLimiter(policy, { store, prefix: 'refused', local: { refusals: '1m' }, onStoreFailure })
  await limiter.ready()
  await limiter.take('key')
  expect(await limiter.take('key')).toMatchObject({ allowed: false, source: 'store' })
  await time.pass(1_000)
  return limiter
}

// promise: deadline-with-local-decisions
test('a call behind the first one after a refusal', async () => {
  const limiter = await afterRefusal('throw')
  const [first, second] = await twoCalls(() => limiter.take('key'))
  expect(first).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  expect(second).toMatchObject({ code: expect.stringMatching('^STORE_') })
})

test('the same with an answer in place of the failure', async () => {
  const limiter = await afterRefusal('refuse')
  expect(await twoCalls(() => limiter.take('key'))).toMatchObject([{ source: 'none' }, { source: 'none' }])
})

const LEASE_MS = 100

/** A limiter with a hot key. */
async function withLeases() {
  const policy = gcra({ limit: 100_000, period: '1s' })
  const limiter = new RateLimiter(policy, { store, prefix: 'leased', local: { lease: LEASE_MS } })
  await until('the key has leases', async () => {
    const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.take('key')))
    return decisions.some(({ source }) => source === 'lease')
  })
  await time.idle()
  return limiter
}

// promise: deadline-with-local-decisions
test('a call of a group on a hot key', async () => {
  const limiter = await withLeases()
  // The units of its leases may not be used any more.
  time.skip(LEASE_MS)
  const [first, second] = await twoCalls(() => limiter.take('key'))
  expect(first).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  expect(second).toMatchObject({ code: expect.stringMatching('^STORE_') })
})

test('calls of a group wait for one answer only, also if answers take longer than a lease', async () => {
  const limiter = await withLeases()
  const commands = async () => {
    const stats = await server.command<string>('INFO', 'commandstats')
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
  }
  const before = await commands()
  proxy.latencyMs = 20
  // While an answer is on its way, several leases end.
  const passing = setInterval(() => time.skip(LEASE_MS), 5)
  try {
    const decisions = await Promise.all(Array.from({ length: 500 }, () => limiter.take('key')))
    expect(new Set(decisions.map(({ status }) => status))).toEqual(new Set(['allowed']))
  } finally {
    clearInterval(passing)
  }
  // A group after another would decide one call each.
  expect((await commands()) - before).toBeLessThan(50)
})
