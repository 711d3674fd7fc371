// A process that decides calls by a gcra with a given limit per hour until its input ends, and reports its warnings.
import { setTimeout as sleep } from 'node:timers/promises'
import { gcra, RateLimiter, RedisStore } from 'tollgate'

const [url, limit] = process.argv.slice(2)
const store = new RedisStore({ url, commandTimeout: 30_000 })
store.on('warning', (warning) => console.log(JSON.stringify(warning)))
const limiter = new RateLimiter(gcra({ limit: Number(limit), period: '1h' }), { store, prefix: 'shared' })
let isOver = false
process.stdin.resume().once('end', () => {
  isOver = true
})
while (!isOver) {
  await limiter.take('key')
  await sleep(20)
}
await store.close()
