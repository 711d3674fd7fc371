/** Calls with an id over a network that loses answers: each is charged once, however often it is repeated. */

import { setTimeout as sleep } from 'node:timers/promises'
import { type Decision, fixedWindow, RateLimiter, RedisStore, TollgateError } from '../../../ts/index.js'
import { Random } from '../../random.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { PATIENT_MS } from '../help.js'
import { openedRedis } from '../opened.js'

const opened = openedRedis()

/** The stores, each as in a process of its own; the jobs, and how often each is delivered. */
const [STORES, JOBS, DELIVERIES] = [3, 50, 3]

const TIMEOUT_MS = 300

/** How long answers are lost, and the time within which the deliveries begin. */
const [LOSING_MS, DELIVERING_MS] = [2_000, 1_500]

const POLICY = fixedWindow({ limit: 1_000_000, window: '1d' })

type WindowLimiter = RateLimiter<typeof POLICY>

/** Repeats a call, by any of the limiters, until the store has answered. Returns the answer and the failures. */
async function repeated<T>(
  limiters: readonly WindowLimiter[],
  random: Random,
  call: (limiter: WindowLimiter) => Promise<T>,
): Promise<readonly [T, unknowns: number]> {
  for (let unknowns = 0; ; ) {
    try {
      return [await call(random.one(limiters)), unknowns]
    } catch (error) {
      if (!TollgateError.is(error)) {
        throw error
      }
      unknowns += error.charged === 'unknown' ? 1 : 0
      await sleep(random.whole(20, 150))
    }
  }
}

// promise: charged-once-by-id
test('lost answers neither charge a call twice nor lose a charge', async () => {
  const random = new Random(17)
  const proxies = await Promise.all(Array.from({ length: STORES }, () => TcpProxy.start(opened.server)))
  const stores = proxies.map(({ url }) => new RedisStore({ url, commandTimeout: TIMEOUT_MS }))
  const limiters = stores.map((store) => new RateLimiter(POLICY, { store, prefix: 'repeated' }))
  const losing = async (): Promise<void> => {
    const end = performance.now() + LOSING_MS
    while (performance.now() < end) {
      const proxy = random.one(proxies)
      proxy.hold('down')
      await sleep(15)
      proxy.cut()
      proxy.release()
      await sleep(30)
    }
  }
  const lost = losing()
  const decidedAt = new Map<number, number>()
  let unknownCount = 0
  const costOf = (job: number): number => 1 + (job % 4)
  const deliveries = Array.from({ length: JOBS * DELIVERIES }, async (_, number) => {
    await sleep(random.whole(0, DELIVERING_MS))
    const job = number % JOBS
    const options = { id: `job:${job}` }
    const [decision, unknowns] = await repeated(limiters, random, async (limiter): Promise<Decision> => {
      return job % 2 === 0
        ? limiter.take('a', { cost: costOf(job), ...options })
        : (await limiter.reserve('a', costOf(job), options)).decision
    })
    unknownCount += unknowns
    expect(decision.allowed).toBe(true)
    expect(decidedAt.get(job) ?? decision.at).toBe(decision.at)
    decidedAt.set(job, decision.at)
  })
  await Promise.all(deliveries)
  await lost
  const store = new RedisStore({ url: opened.server.url, commandTimeout: PATIENT_MS })
  const { used } = await new RateLimiter(POLICY, { store, prefix: 'repeated' }).peek('a', 0)
  expect(used).toBe(Array.from({ length: JOBS }, (_, job) => costOf(job)).reduce((sum, cost) => sum + cost))
  // Each of them may have been charged.
  expect(unknownCount).toBeGreaterThan(20)
  await Promise.all([...stores, store].map((one) => one.close()))
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
  await using store = new RedisStore({ url: proxy.url, commandTimeout: TIMEOUT_MS })
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
  // The store does not know the calls of the share.
  await sleep(1_500)
  const later = await shared.take('a', { cost: 3, id: 'x' })
  expect(later).toMatchObject({ source: 'store', used: 3 })
  expect(later).not.toHaveProperty('repeated')
  await shared.close()
  await allowing.close()
  await proxy.stop()
}, 20_000)
