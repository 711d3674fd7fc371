/** Calls with an id over a network that loses answers: each is charged once, however often it is repeated. */

import { setImmediate } from 'node:timers/promises'
import { type Decision, fixedWindow, RateLimiter, RedisStore, TollgateError } from '../../../ts/index.js'
import { Random } from '../../random.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { until } from '../../servers/until.js'
import { PATIENT_MS } from '../help.js'
import { openedRedis } from '../opened.js'

const opened = openedRedis()

/** The stores, each as in a process of its own; the jobs of a round, and how often each is delivered. */
const [STORES, ROUNDS, JOBS, DELIVERIES] = [3, 5, 10, 3]

const POLICY = fixedWindow({ limit: 1_000_000, window: '1d' })

/** Repeats a call until the store has answered. Returns the answer, and how many outcomes were unknown. */
async function repeated<T>(call: () => Promise<T>): Promise<readonly [T, unknowns: number]> {
  for (let unknowns = 0; ; ) {
    try {
      return [await call(), unknowns]
    } catch (error) {
      if (!TollgateError.is(error)) {
        throw error
      }
      unknowns += error.charged === 'unknown' ? 1 : 0
      await setImmediate()
    }
  }
}

// promise: charged-once-by-id
test('lost answers neither charge a call twice nor lose a charge', async () => {
  const random = new Random(17)
  const proxies = await Promise.all(Array.from({ length: STORES }, () => TcpProxy.start(opened.server)))
  const stores = proxies.map(({ url }) => new RedisStore({ url, commandTimeout: PATIENT_MS }))
  const limiters = stores.map((store) => new RateLimiter(POLICY, { store, prefix: 'repeated' }))
  const near = new RateLimiter(POLICY, { store: opened.store, prefix: 'repeated' })
  let [charged, unknownCount] = [0, 0]
  for (let round = 0; round < ROUNDS; round++) {
    // A client may see only by its next call that its connection is broken.
    await Promise.all(limiters.map((limiter) => repeated(() => limiter.peek('a', 0))))
    for (const proxy of proxies) proxy.hold('down')
    const decidedAt = new Map<number, number>()
    const deliveries = Array.from({ length: JOBS * DELIVERIES }, async (_, number) => {
      const job = number % JOBS
      const [cost, options] = [1 + (job % 4), { id: `job:${round}:${job}` }]
      const [decision, unknowns] = await repeated(async (): Promise<Decision> => {
        const limiter = random.one(limiters)
        return job % 2 === 0
          ? limiter.take('a', { cost, ...options })
          : (await limiter.reserve('a', cost, options)).decision
      })
      unknownCount += unknowns
      expect(decision.allowed).toBe(true)
      expect(decidedAt.get(job) ?? decision.at).toBe(decision.at)
      decidedAt.set(job, decision.at)
    })
    charged += Array.from({ length: JOBS }, (_, job) => 1 + (job % 4)).reduce((sum, cost) => sum + cost)
    await until('all jobs are charged', async () => (await near.peek('a', 0)).used === charged)
    for (const proxy of proxies) {
      proxy.cut()
      proxy.release()
    }
    await Promise.all(deliveries)
    expect((await near.peek('a', 0)).used).toBe(charged)
  }
  // The answers to the calls that were charged are lost.
  expect(unknownCount).toBeGreaterThanOrEqual(ROUNDS * JOBS)
  await Promise.all([near, ...limiters].map((one) => one.close()))
  await Promise.all(stores.map((one) => one.close()))
  await Promise.all(proxies.map((proxy) => proxy.stop()))
}, 60_000)

test('neither a cached refusal nor a lease answers a call with an id', async () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 10, window: '1h' }), {
    store: opened.store,
    prefix: 'local',
    local: { refusals: '10s', lease: '500ms' },
  })
  const first = await limiter.take('a', { cost: 2, id: 'x' })
  for (let taken = 0; taken < 8; taken++) {
    await limiter.take('a')
  }
  const reservation = await limiter.reserve('b', 10, { id: 'x' })
  await Promise.all([limiter.take('a'), limiter.take('b')])
  expect((await limiter.take('a')).source).toBe('cache')
  expect((await limiter.take('b')).source).toBe('cache')
  expect(await limiter.take('a', { cost: 2, id: 'x' })).toEqual({ ...first, repeated: true })
  const repeated = await limiter.reserve('b', 10, { id: 'x' })
  expect(repeated.decision).toEqual({ ...reservation.decision, repeated: true })
  expect(await limiter.refund(await limiter.take('a', { id: 'x' }))).toBe(2)
  expect((await limiter.take('a', { cost: 2, id: 'y' })).source).toBe('store')
  await limiter.close()
})

test('while Redis is away a share remembers ids, and a fixed answer does not', async () => {
  const proxy = await TcpProxy.start(opened.server)
  await proxy.refuse()
  proxy.cut()
  await using store = new RedisStore({ url: proxy.url, commandTimeout: 300 })
  const shared = new RateLimiter(POLICY, { store, prefix: 'away', onStoreFailure: { embedded: { share: 1 } } })
  const first = await shared.take('a', { cost: 3, id: 'x' })
  expect(first).toMatchObject({ source: 'fallback', used: 3 })
  expect(await shared.take('a', { cost: 3, id: 'x' })).toEqual({ ...first, repeated: true })
  const reservation = await shared.reserve('a', 4, { id: 'x' })
  const again = await shared.reserve('a', 4, { id: 'x' })
  expect(again.decision).toEqual({ ...reservation.decision, repeated: true })
  const allowing = new RateLimiter(POLICY, { store, prefix: 'away', onStoreFailure: 'allow' })
  for (const _ of [1, 2]) {
    const allowed = await allowing.take('a', { id: 'x' })
    expect(allowed).toMatchObject({ allowed: true, source: 'none' })
    expect(allowed).not.toHaveProperty('repeated')
  }
  await proxy.accept()
  await until('the store decides again', async () => (await shared.peek('b', 0)).source === 'store')
  // It does not know the calls of the share.
  const later = await shared.take('a', { cost: 3, id: 'x' })
  expect(later).toMatchObject({ source: 'store', used: 3 })
  expect(later).not.toHaveProperty('repeated')
  await shared.close()
  await allowing.close()
  await proxy.stop()
}, 20_000)
