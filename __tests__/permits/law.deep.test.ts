/**
 * The law of permits under faults: at most `limit` units at any time, over processes and threads that
 * are killed and stopped, and a server that freezes, restarts, and whose answers are lost.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { concurrency, RateLimiter, RedisStore } from '../../ts/index.js'
import { RedisServer } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import { EXPIRES_MS, Holding, KEYS, LIMIT } from './holding-process.js'
import { findExcess } from './trace.js'

// promise: permits-law
test('eight processes and threads, faults of all kinds: never more than the limit, and nothing leaks', async () => {
  await using server = await RedisServer.start({ config: ['appendonly yes', 'appendfsync always'] })
  await using proxy = await TcpProxy.start(server)
  const direct = [1, 2, 3].map(() => new Holding(server.url))
  const threads = new Holding(server.url, 3)
  const proxied = [1, 2].map(() => new Holding(proxy.url))
  const all = [...direct, threads, ...proxied]
  try {
    await sleep(1_500)
    await Promise.all([direct[0]?.stopBeyondExpiry(), sleep(700).then(() => threads.stopBeyondExpiry())])
    // Calls arrive, and their answers are lost.
    proxy.hold('down')
    await sleep(400)
    proxy.cut()
    proxy.release()
    await sleep(500)
    server.freeze()
    await sleep(EXPIRES_MS / 2)
    server.thaw()
    await sleep(500)
    await direct[1]?.kill()
    const another = new Holding(server.url)
    all.push(another)
    await sleep(1_000)
    server.freeze()
    await sleep(EXPIRES_MS + 500)
    server.thaw()
    await sleep(1_000)
    await server.kill()
    await sleep(200)
    await server.begin()
    await sleep(2_000)
    await another.kill()
  } finally {
    await Promise.all(all.map((one) => one.end()))
  }
  const traces = all.map(({ trace }) => trace)
  for (const one of all) {
    one.remove()
  }
  const starts = traces.flatMap(({ events }) => events.filter(({ kind }) => kind === 'start'))
  expect(starts.length).toBeGreaterThan(0)
  expect(findExcess(traces, LIMIT)).toBeUndefined()
  // The trace is dense enough to find an excess.
  expect(findExcess(traces, LIMIT - 1)).toMatchObject({ units: LIMIT })
  await using store = new RedisStore(server.url)
  const limiter = new RateLimiter(concurrency({ limit: LIMIT, ttl: EXPIRES_MS }), { store, prefix: 'law' })
  await sleep(EXPIRES_MS)
  for (const key of new Set(KEYS)) {
    const whole = await limiter.acquire(key, { cost: LIMIT })
    expect(whole.allowed).toBe(true)
  }
  await limiter.close()
})
