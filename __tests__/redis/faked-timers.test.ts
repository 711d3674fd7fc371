/** A test that fakes timers, as users of this package write them: calls go on, and keep their deadlines. */
import { gcra, RateLimiter, RedisStore } from '../../ts/index.js'
import { timers } from '../../ts/timers.js'
import { RedisServer } from '../servers/redis-server.js'
import { openedRedis } from './opened.js'

const opened = openedRedis()

/** Fakes timers only while a function runs: the servers of these tests need real ones. */
async function withFakedTimers<T>(run: () => Promise<T>): Promise<T> {
  jest.useFakeTimers()
  try {
    return await run()
  } finally {
    jest.useRealTimers()
  }
}

test('the timers are faked, and those of the package are not', async () => {
  await withFakedTimers(async () => {
    let rang = false
    setTimeout(() => {
      rang = true
    }, 1)
    const [fakeStart, start] = [performance.now(), timers.now()]
    await new Promise<void>((resolve) => timers.setTimeout(resolve, 20))
    expect(rang).toBe(false)
    expect(performance.now()).toBe(fakeStart)
    expect(timers.now()).toBeGreaterThan(start)
  })
})

test('a call is decided', async () => {
  const limiter = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store: opened.store, prefix: 'faked' })
  const decisions = await withFakedTimers(async () => [
    await limiter.take('a'),
    ...(await limiter.takeMany(['a', 'b'])),
  ])
  expect(decisions.map(({ status }) => status)).toEqual(['allowed', 'allowed-last', 'allowed'])
})

test('a call that Redis does not answer fails by its deadline', async () => {
  const server = await RedisServer.start()
  const store = new RedisStore({ url: server.url, commandTimeoutMs: 100 })
  try {
    const limiter = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store, prefix: 'faked' })
    await limiter.take('a')
    server.freeze()
    const error = await withFakedTimers(() => limiter.take('a').catch((error: unknown) => error))
    expect(error).toMatchObject({ code: 'STORE_TIMEOUT', charged: 'unknown' })
  } finally {
    await store.close()
    await server.stop()
  }
})

test('a wait ends when its slot has come', async () => {
  const pacer = new RateLimiter(gcra({ limit: 20, period: '1s', burst: 1 }))
  const start = timers.now()
  const [, { waitedMs }] = await withFakedTimers(() => Promise.all([pacer.wait('a'), pacer.wait('a')]))
  expect(waitedMs).toBeGreaterThan(0)
  expect(timers.now() - start).toBeGreaterThanOrEqual(waitedMs)
})
