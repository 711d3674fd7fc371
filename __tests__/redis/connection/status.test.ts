/** What a store tells of itself: its status, and events. */

import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { gcra, RateLimiter, RedisStore, type StoreStatus } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { outcome, recovery } from '../help.js'

const POLICY = gcra({ limit: 1_000, period: '1h' })
const TIMEOUT_MS = 1_000

async function stored(
  server: RedisServer,
  run: (store: RedisStore, limiter: RateLimiter) => Promise<void>,
): Promise<void> {
  await using store = new RedisStore({ url: server.url, commandTimeoutMs: TIMEOUT_MS })
  await run(store, new RateLimiter(POLICY, { store, prefix: 'status' }))
}

/** Notes all events of a store, shortly. */
function heard(store: RedisStore): string[] {
  const events: string[] = []
  store.on('up', ({ address, version }) => events.push(`up ${address} ${version}`))
  store.on('down', ({ reason }) => events.push(`down ${reason}`))
  store.on('warning', ({ code, message }) => events.push(`${code} ${message}`))
  return events
}

function reached(store: RedisStore, state: StoreStatus['state']): Promise<unknown> {
  return until(`the store is ${state}`, async () => store.status().state === state || undefined)
}

test('from connecting to up, down and closed', async () => {
  await using server = await RedisServer.reserve()
  await stored(server, async (store, limiter) => {
    const events = heard(store)
    const made = Date.now()
    expect(store.status()).toEqual({ state: 'connecting', since: expect.any(Number), pending: 0 })
    const first = outcome(limiter.take('key'))
    expect(store.status().pending).toBe(1)
    await server.begin()
    // Valkey tells its own; what it calls `redis_version` is the Redis that it is like.
    const version = (await server.info('valkey_version')) ?? (await server.info('redis_version'))
    const address = `127.0.0.1:${server.port}`
    await reached(store, 'up')
    expect(store.status()).toMatchObject({ state: 'up', address, version })
    expect(store.status().since).toBeGreaterThanOrEqual(made)
    await first
    await server.kill()
    await reached(store, 'down')
    expect(store.status().reason).toMatch(/refused|closed|reset|broke|hang/i)
    await server.begin()
    expect(await recovery(limiter, 'key')).toBeLessThan(1_000)
    expect(store.status()).toMatchObject({ state: 'up', address, pending: 0 })
    await store.close()
    expect(store.status()).toEqual({ state: 'closed', since: expect.any(Number), pending: 0 })
    const [up, down, again] = events
    expect(up).toBe(`up ${address} ${version}`)
    expect(down).toMatch(/^down /)
    expect(again).toBe(up)
    expect(events.length).toBe(3)
  })
})

test('a store that is ready is up', async () => {
  await using server = await RedisServer.start()
  for (let time = 0; time < 50; time++) {
    await using store = new RedisStore(server.url)
    const events = heard(store)
    await new RateLimiter(POLICY, { store, prefix: 'status' }).ready()
    expect(store.status().state).toBe('up')
    expect(events).toHaveLength(1)
  }
})

test('a short break is no outage: calls wait, and nothing is told', async () => {
  await using server = await RedisServer.start()
  await using store = new RedisStore({ url: server.url, commandTimeoutMs: 5_000 })
  const limiter = new RateLimiter(POLICY, { store, prefix: 'status' })
  await limiter.ready()
  const events = heard(store)
  await server.kill()
  await sleep(50)
  const call = outcome(limiter.take('key'))
  await server.begin()
  expect((await call).error).toBeUndefined()
  expect(store.status().state).toBe('up')
  expect(events).toEqual([])
})

test('while nobody calls, too, it is noticed that the store is down, and that it is back', async () => {
  await using server = await RedisServer.start()
  await stored(server, async (store, limiter) => {
    await limiter.ready()
    for (const [stop, start] of [
      [() => server.freeze(), () => server.thaw()],
      [() => server.kill(), () => server.begin()],
    ] as const) {
      await stop()
      await reached(store, 'down')
      const { error, ms } = await outcome(limiter.take('key'))
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', charged: false })
      expect(ms).toBeLessThan(TIMEOUT_MS / 2)
      await start()
      const began = performance.now()
      await reached(store, 'up')
      expect(performance.now() - began).toBeLessThan(1_000)
    }
  })
})

test('a server that may drop keys before their time is warned of, and one that may not is not', async () => {
  for (const [config, codes] of [
    [['maxmemory 50mb', 'maxmemory-policy allkeys-lru'], ['EVICTING']],
    [['maxmemory 50mb', 'maxmemory-policy noeviction'], []],
  ] as const) {
    await using server = await RedisServer.start({ config })
    await using store = new RedisStore(server.url)
    const warnings: string[] = []
    store.on('warning', ({ code, message }) => {
      warnings.push(code)
      expect(message).toBe(
        'maxmemory-policy must be noeviction, got allkeys-lru: a key that Redis evicts loses its count',
      )
    })
    const limiter = new RateLimiter(POLICY, { store, prefix: 'status' })
    await limiter.ready()
    // What is looked after is asked for before any call's answer comes.
    await limiter.ready()
    expect(warnings).toEqual(codes)
  }
})

test('listeners are called in nobody’s context', async () => {
  await using server = await RedisServer.start()
  const context = new AsyncLocalStorage<string>()
  const stores: unknown[] = []
  await context.run('a caller', async () => {
    await stored(server, async (store, limiter) => {
      store.on('up', () => stores.push(context.getStore()))
      await limiter.take('key')
      await reached(store, 'up')
    })
  })
  expect(stores).toEqual([undefined])
})

test('what is heard after the end of listening is nothing', async () => {
  await using server = await RedisServer.start()
  await stored(server, async (store, limiter) => {
    const events: string[] = []
    const off = store.on('up', () => events.push('up'))
    off()
    await limiter.ready()
    await reached(store, 'up')
    expect(events).toEqual([])
  })
})

test('a store that is closed tells nothing more', async () => {
  await using server = await RedisServer.start()
  const store = new RedisStore({ url: server.url, commandTimeoutMs: TIMEOUT_MS })
  const limiter = new RateLimiter(POLICY, { store, prefix: 'status' })
  await limiter.ready()
  const events = heard(store)
  await store.close()
  const closed = store.status()
  await server.kill()
  await store.close()
  await sleep(2 * TIMEOUT_MS)
  expect(store.status()).toEqual(closed)
  expect(events).toEqual([])
})
