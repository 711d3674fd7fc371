/** A store's status and events. */

import { AsyncLocalStorage } from 'node:async_hooks'
import { gcra, RateLimiter, RedisStore, type StoreStatus } from '../../../ts/index.js'
import { freePort } from '../../servers/ports.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { outcome, PATIENT_MS, recovery } from '../help.js'

const POLICY = gcra({ limit: 1_000, period: '1h' })
/** An outage is noticed after this time. */
const TIMEOUT_MS = 1_000

async function stored(
  server: RedisServer,
  run: (store: RedisStore, limiter: RateLimiter) => Promise<void>,
): Promise<void> {
  await using store = new RedisStore({ url: server.url, commandTimeout: TIMEOUT_MS })
  await run(store, new RateLimiter(POLICY, { store, prefix: 'status' }))
}

/** Records all events of a store, in short form. */
function recordEvents(store: RedisStore): string[] {
  const events: string[] = []
  store.on('up', ({ address, version }) => events.push(`up ${address} ${version}`))
  store.on('down', ({ reason }) => events.push(`down ${reason}`))
  store.on('warning', ({ code, message }) => code !== 'VULNERABLE_SERVER' && events.push(`${code} ${message}`))
  return events
}

function reached(store: RedisStore, state: StoreStatus['state']): Promise<unknown> {
  return until(`the store is ${state}`, async () => store.status().state === state || undefined)
}

// promise: down-calls-do-not-wait
test('from connecting to up, down and closed', async () => {
  await using server = await RedisServer.reserve()
  await stored(server, async (store, limiter) => {
    const events = recordEvents(store)
    const made = Date.now()
    const leases = { keys: 0, units: 0 }
    expect(store.status()).toEqual({ state: 'connecting', since: expect.any(Number), pending: 0, leases })
    const first = outcome(limiter.take('key'))
    expect(store.status().pending).toBe(1)
    await server.begin()
    // Valkey has its own version field; its `redis_version` is the compatible Redis.
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
    await recovery(limiter, 'key')
    await reached(store, 'up')
    expect(store.status()).toMatchObject({ state: 'up', address, pending: 0 })
    await store.close()
    expect(store.status()).toEqual({ state: 'closed', since: expect.any(Number), pending: 0, leases })
    // A slow machine may start the server after the store has given it up.
    const [up, ...later] = events.slice(events.findIndex((event) => event.startsWith('up')))
    expect(up).toBe(`up ${address} ${version}`)
    expect(later[0]).toMatch(/^down /)
    expect(later.at(-1)).toBe(up)
  })
})

test('a store is up after ready()', async () => {
  await using server = await RedisServer.start()
  for (let time = 0; time < 50; time++) {
    await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
    const events = recordEvents(store)
    await new RateLimiter(POLICY, { store, prefix: 'status' }).ready()
    expect(store.status().state).toBe('up')
    expect(events).toHaveLength(1)
  }
})

test('a short interruption is not an outage: no call is refused, and no event is emitted', async () => {
  await using server = await RedisServer.start()
  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(POLICY, { store, prefix: 'status' })
  await limiter.ready()
  const events = recordEvents(store)
  await server.kill()
  // Those that are sent before the store notices that the connection broke have an unknown result. The others wait.
  const calls = [limiter.take('key'), limiter.take('key')].map(outcome)
  await server.begin()
  for (const { error } of await Promise.all(calls)) {
    expect(error?.charged ?? 'unknown').toBe('unknown')
  }
  expect((await outcome(limiter.take('key'))).error).toBeUndefined()
  expect(store.status().state).toBe('up')
  expect(events).toEqual([])
})

test('the store detects an outage and the recovery without calls, too', async () => {
  await using server = await RedisServer.start()
  await stored(server, async (store, limiter) => {
    await reached(store, 'up')
    for (const [stop, start] of [
      [() => server.freeze(), () => server.thaw()],
      [() => server.kill(), () => server.begin()],
    ] as const) {
      await stop()
      await reached(store, 'down')
      const { error } = await outcome(limiter.take('key'))
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', charged: false })
      await start()
      await reached(store, 'up')
    }
  })
})

// promise: flood-evicts-nothing
test('a server that may evict keys causes a warning, and others do not', async () => {
  for (const [config, codes] of [
    [['maxmemory 50mb', 'maxmemory-policy allkeys-lru'], ['EVICTING']],
    [['maxmemory 50mb', 'maxmemory-policy noeviction'], []],
  ] as const) {
    await using server = await RedisServer.start({ config })
    await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
    const warnings: string[] = []
    store.on('warning', ({ code, message }) => {
      // Of some of the versions that the tests run on.
      if (code === 'VULNERABLE_SERVER') {
        return
      }
      warnings.push(code)
      expect(message).toBe(
        'maxmemory-policy must be noeviction, got allkeys-lru: a key that Redis evicts loses its count',
      )
    })
    const limiter = new RateLimiter(POLICY, { store, prefix: 'status' })
    await limiter.ready()
    // The check's requests are sent before any call's reply arrives.
    await limiter.ready()
    expect(warnings).toEqual(codes)
  }
})

test("listeners run outside of the caller's async context", async () => {
  await using server = await RedisServer.start()
  const context = new AsyncLocalStorage<string>()
  const stores: unknown[] = []
  await context.run('a caller', async () => {
    await stored(server, async (store, limiter) => {
      store.on('up', () => stores.push(context.getStore()))
      await recovery(limiter, 'key')
      await reached(store, 'up')
    })
  })
  expect(stores).toEqual([undefined])
})

test('a removed listener receives nothing', async () => {
  await using server = await RedisServer.start()
  await stored(server, async (store, limiter) => {
    const events: string[] = []
    const off = store.on('up', () => events.push('up'))
    off()
    await recovery(limiter, 'key')
    await reached(store, 'up')
    expect(events).toEqual([])
  })
})

test('a closed store emits nothing', async () => {
  await using server = await RedisServer.start()
  const store = new RedisStore({ url: server.url, commandTimeout: TIMEOUT_MS })
  await reached(store, 'up')
  const events = recordEvents(store)
  await store.close()
  const closed = store.status()
  // Another store notices the outage; the closed one had the same time, or more.
  await using other = new RedisStore({ url: server.url, commandTimeout: TIMEOUT_MS })
  await reached(other, 'up')
  await server.kill()
  await store.close()
  await reached(other, 'down')
  expect(store.status()).toEqual(closed)
  expect(events).toEqual([])
})

test('the reason of a cluster that was never reached is that of its nodes', async () => {
  await using server = await RedisServer.start({
    config: ['cluster-enabled yes', 'requirepass right'],
    credentials: { password: 'right' },
  })
  const absent = await freePort()
  for (const [port, why] of [
    [absent, /no node of the cluster answers: 127\.0\.0\.1:\d+: .*refused/i],
    [server.port, /no node of the cluster answers: 127\.0\.0\.1:\d+: .*authentication failed/i],
  ] as const) {
    const cluster = { nodes: [`127.0.0.1:${port}`] }
    await using store = new RedisStore({ cluster, password: 'wrong', commandTimeout: TIMEOUT_MS })
    const limiter = new RateLimiter(POLICY, { store, prefix: 'status' })
    await until(`${why}`, async () => why.test(store.status().reason ?? ''))
    expect((await outcome(limiter.take('key'))).error?.message).toMatch(why)
  }
})
