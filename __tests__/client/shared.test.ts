/** `OutgoingClient` over Redis: what the limiters of other processes do. */
import { OutgoingClient } from '../../ts/client/index.js'
import { concurrency, fixedWindow, gcra, type Policies, type Policy, RateLimiter, RedisStore } from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'

let server: RedisServer
let stores: RedisStore[] = []

beforeAll(async () => {
  server = await RedisServer.start()
})

afterAll(() => server.stop())

afterEach(async () => {
  await Promise.all(stores.map((store) => store.close()))
  stores = []
  await server.command('FLUSHALL')
})

/** A limiter with a connection of its own, as that of another process. */
function limiterOf<const P extends Policy | Policies>(policy: P) {
  const store = new RedisStore(server.url)
  stores.push(store)
  return new RateLimiter(policy, { store, prefix: 'shared' })
}

test('a refusal pauses the clients of other processes, and unblock by another process ends their pauses', async () => {
  const policy = fixedWindow({ limit: 100, window: '1s' })
  const [own, other, operator] = [limiterOf(policy), limiterOf(policy), limiterOf(policy)] as const
  const clocks = [new TestClock(), new TestClock()] as const
  const refused = new OutgoingClient({ limiter: own, clock: clocks[0], key: 'k', retries: 0 })
  const waiting = new OutgoingClient({ limiter: other, clock: clocks[1], key: 'k', maxWait: '2h' })
  let isBlocked = false
  refused.on('block', ({ applied }) => {
    isBlocked = applied === 'store'
  })
  await refused.schedule(() => new Response(null, { status: 429, headers: { 'Retry-After': '3600' } }))
  await until('the key is blocked', async () => isBlocked)
  let hasRun = false
  const call = waiting.schedule(() => {
    hasRun = true
  })
  await until('the other client pauses', async () => clocks[1].timerCount === 2)
  await clocks[1].advance('1s')
  expect(hasRun).toBe(false)
  await operator.unblock('k')
  await until('the call runs', async () => {
    await clocks[1].advance('5s')
    return hasRun
  })
  await call
  // The clock of this client stands still, so only `resume` ends its pause.
  await expect(refused.schedule(() => {})).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
  refused.resume()
  expect(await refused.schedule(() => 'next')).toBe('next')
})

test('two processes that share a rate beside concurrency never exceed it together', async () => {
  const policy = { rate: gcra({ limit: 200, period: '1s', burst: 1 }), most: concurrency({ limit: 20 }) }
  const clients = [limiterOf(policy), limiterOf(policy)].map((limiter) => {
    return new OutgoingClient({ limiter, key: 'k' })
  })
  const starts = await Promise.all(
    clients.flatMap((client) => Array.from({ length: 40 }, () => client.schedule(({ decision }) => decision.at))),
  )
  const times = starts.map(Number).sort((a, b) => a - b)
  expect(times).toHaveLength(80)
  // By the clock of the server, no two are closer than the rate allows; times are whole milliseconds.
  const first = times[0] as number
  expect(times.every((time, index) => time - first >= index * 5 - 2)).toBe(true)
})
