/**
 * `RedisStore.from` in the bundles for browsers, Deno and workerd, run in environments without
 * Node, with a real server.
 */
import { type Context, runInContext } from 'node:vm'
import { browser, worker } from '../bundled.js'
import { ioredis, openedServer } from './stores.js'

const opened = openedServer()

const NAMES = ['calendarWindow', 'gcra', 'RateLimiter', 'RedisStore', 'TollgateError']

/** The result of a program that calls the server. */
async function resultOf(context: Context): Promise<unknown> {
  const client = ioredis(opened.server.port)
  await client.call('FLUSHALL')
  await client.call('SCRIPT', 'FLUSH')
  let sent = 0
  const run = ([name = '', ...args]: string[]) => {
    sent++
    return client.call(name, ...args)
  }
  const program = runInContext(
    `async (run) => {
      const { calendarWindow, gcra, RateLimiter, RedisStore, TollgateError } = tollgate
      const store = RedisStore.from(run)
      const limiter = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store, prefix: 'a' })
      const berlin = calendarWindow({ limit: 5, every: 'day', timeZone: 'Europe/Berlin' })
      const day = new RateLimiter(berlin, { store, prefix: 'day' })
      await limiter.ready()
      const calls = [limiter.take('ключ'), limiter.take('ключ'), limiter.take('ключ'), day.take('a')]
      const statuses = (await Promise.all(calls)).map(({ status }) => status)
      const silent = RedisStore.from(() => new Promise(() => {}), { commandTimeout: 50 })
      const late = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store: silent, prefix: 'a' })
      const error = await late.take('a').catch((reason) => TollgateError.is(reason) && [reason.code, reason.charged])
      await store.close()
      return JSON.stringify([statuses, error])
    }`,
    context,
  )
  const answer = JSON.parse(await program(run))
  client.disconnect()
  // The server does not know the script of the first call; `ready` also reads the registry of policies;
  // all calls of one tick are one script call, and their answer registers the policies of both limiters.
  return [...answer, sent]
}

const EXPECTED = [['allowed', 'allowed-last', 'refused', 'allowed'], ['STORE_TIMEOUT', 'unknown'], 6]

test('browsers and Deno', async () => {
  const { context, imported } = await browser(NAMES)
  const files = ['engine', 'inlined', 'redis-engine', 'redis-inlined']
  expect(imported).toEqual(files.map((name) => `generated/wasm/${name}.js`))
  expect(await resultOf(context)).toEqual(EXPECTED)
})

test('workerd', async () => {
  const { context, handling, imported } = await worker(NAMES)
  const glue = ['engine', 'redis-engine'].map((name) => `generated/wasm/${name}.js`)
  expect(imported).toEqual(['compiled:redis.wasm', 'compiled:tollgate.wasm', ...glue])
  runInContext('tollgate.RedisStore.from(() => new Promise(() => {}))', context)
  handling.isRequest = true
  expect(await resultOf(context)).toEqual(EXPECTED)
})
