// Uses the installed addon with a running Redis, and with a missing one.
import { fixedWindow, gcra, RateLimiter, RedisStore, TollgateError } from 'tollgate'

const [port, freePort] = process.argv.slice(2).map(Number)
const store = new RedisStore({ host: '127.0.0.1', port })
const limiter = new RateLimiter(gcra({ limit: 5, period: '1h' }), { store, prefix: 'few' })
const crowd = new RateLimiter(fixedWindow({ limit: 4_000, window: '1h' }), { store, prefix: 'crowd' })
const pacer = new RateLimiter(gcra({ limit: 20, period: '1s', burst: 1 }), { store, prefix: 'pace' })

await limiter.ready()
const statuses = []
for (let call = 0; call < 6; call++) statuses.push((await limiter.take('user:42')).status)
let admitted = 0
for (let turn = 0; turn < 10; turn++) {
  const decisions = await Promise.all(Array.from({ length: 500 }, () => crowd.take('user:42')))
  admitted += decisions.filter(({ allowed }) => allowed).length
}
const [, { waitedMs }] = await Promise.all([pacer.wait('user:42'), pacer.wait('user:42')])
const error = await limiter.take('').catch((reason) => reason)
const { state } = store.status()
await store.close()

const away = new RedisStore({ host: '127.0.0.1', port: freePort, commandTimeout: 200 })
const failing = new RateLimiter(gcra({ limit: 5, period: '1h' }), { store: away, prefix: 'few' })
const failed = await failing.take('user:42').catch(({ code, charged }) => ({ code, charged }))
// It is not closed: an open store does not keep a program alive.

console.log(
  JSON.stringify({
    statuses,
    admitted,
    hasWaited: waitedMs > 0,
    error: error instanceof TollgateError && error.code,
    state,
    failed,
  }),
)
