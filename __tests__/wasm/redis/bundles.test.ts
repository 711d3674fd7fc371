/** `RedisStore.from` as browsers, Deno and workerd are given it, run where nothing of Node's is, over a real server. */
import { type Context, runInContext } from 'node:vm'
import { browser, worker } from '../bundled.js'
import { aServer, ioredis } from './stores.js'

const opened = aServer()

const NAMES = ['calendarWindow', 'gcra', 'RateLimiter', 'RedisStore', 'TollgateError']

/** What a program answers that reaches the server. */
async function told(context: Context): Promise<unknown> {
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
      const silent = RedisStore.from(() => new Promise(() => {}), { commandTimeoutMs: 50 })
      const late = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store: silent, prefix: 'a' })
      const error = await late.take('a').catch((reason) => TollgateError.is(reason) && [reason.code, reason.charged])
      await store.close()
      return JSON.stringify([statuses, error])
    }`,
    context,
  )
  const answer = JSON.parse(await program(run))
  client.disconnect()
  // The first call is not known to the server; all that come together are one call.
  return [...answer, sent]
}

const TOLD = [['allowed', 'allowed-last', 'refused', 'allowed'], ['STORE_TIMEOUT', 'unknown'], 3]

test('browsers and Deno', async () => {
  const { context, imported } = await browser(NAMES)
  expect(imported).toEqual(['dist/wasm/web-redis.mjs'])
  expect(await told(context)).toEqual(TOLD)
})

test('workerd', async () => {
  const { context, handling, imported } = await worker(NAMES)
  expect(imported).toEqual(['compiled:../../wasm/tollgate.wasm', 'compiled:../../wasm/redis.wasm'])
  runInContext('tollgate.RedisStore.from(() => new Promise(() => {}))', context)
  handling.isRequest = true
  expect(await told(context)).toEqual(TOLD)
})
