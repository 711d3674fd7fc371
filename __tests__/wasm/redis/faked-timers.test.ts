/** Tests of users with fake timers, over a client: calls proceed, and keep their deadlines. */
import { createClient } from 'redis'
import { timers } from '../../../ts/platform/timers.js'
import { gcra, RateLimiter, RedisStore } from '../../../ts/wasm/index.js'
import { withFakedTimers } from '../../redis/programs/with-faked-timers.js'
import { CLIENT_STORES, openedServer } from './stores.js'

const over = openedServer()

const REAL = ['setImmediate'] as const

/** For each client the timers that it needs: node-redis writes in the global `setImmediate`. */
const CASES = Object.entries(CLIENT_STORES).map(
  ([name, open]) => [name, open, name.includes('node-redis') ? REAL : []] as const,
)

test.each(CASES)('calls are decided: %s', async (name, open, real) => {
  const { store, close } = await open(over.server.port)
  try {
    const limiter = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store, prefix: 'faked' })
    // The client is connected, and the script loaded, as in a test that fakes timers later.
    await limiter.take(`${name} before`)
    const decisions = await withFakedTimers(
      async () => [
        await limiter.take(name),
        ...(await limiter.takeMany([name, `${name} too`])),
        await limiter.peek(name),
      ],
      real,
    )
    expect(decisions.map(({ status }) => status)).toEqual(['allowed', 'allowed-last', 'allowed', 'refused'])
  } finally {
    await store.close()
    await close()
  }
})

test.each(CASES)('the first call is decided while the client connects: %s', async (name, open, real) => {
  const { store, close } = await open(over.server.port)
  try {
    await over.server.command('SCRIPT', 'FLUSH')
    const limiter = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store, prefix: 'first' })
    const { status } = await withFakedTimers(() => limiter.take(name), real)
    expect(status).toBe('allowed')
  } finally {
    await store.close()
    await close()
  }
})

// promise: faked-timers
test('a client that fake timers stop, such as node-redis, delays no call beyond its deadline', async () => {
  const client = createClient({ socket: { port: over.server.port } })
  await client.connect()
  const store = RedisStore.from(client, { commandTimeout: 50 })
  try {
    const limiter = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store, prefix: 'stopped' })
    const [error, own] = await withFakedTimers(() =>
      Promise.all([
        limiter.take('a').catch((error: unknown) => error),
        Promise.race([client.ping(), new Promise((resolve) => timers.setTimeout(() => resolve('stopped'), 100))]),
      ]),
    )
    expect([error, own]).toEqual([expect.objectContaining({ code: 'STORE_TIMEOUT' }), 'stopped'])
  } finally {
    await store.close()
    client.destroy()
  }
})

test('a call that the client does not answer fails by its deadline', async () => {
  const store = RedisStore.from(() => new Promise(() => {}), { commandTimeout: 50 })
  const limiter = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store, prefix: 'silent' })
  const error = await withFakedTimers(() => limiter.take('a').catch((error: unknown) => error))
  expect(error).toMatchObject({ code: 'STORE_TIMEOUT', charged: 'unknown' })
  await store.close()
})

test('a server that temporarily cannot run scripts is retried', async () => {
  let attempts = 0
  const store = RedisStore.from(async () => {
    attempts++
    throw new Error(attempts < 3 ? 'LOADING Redis is loading the dataset in memory' : 'ERR it has gone')
  })
  const limiter = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store, prefix: 'loading' })
  const start = timers.now()
  const error = await withFakedTimers(() => limiter.take('a').catch((error: unknown) => error))
  expect([attempts, error]).toEqual([3, expect.objectContaining({ code: 'STORE_ERROR' })])
  expect(timers.now() - start).toBeGreaterThan(40)
  await store.close()
})
