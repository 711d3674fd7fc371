// A process that decides calls by a gcra with a given limit per hour until it is stopped, and
// reports its warnings.
import { gcra, RateLimiter, RedisStore } from 'tollgate'

const [url, limit, ms] = process.argv.slice(2)
const store = new RedisStore(url)
store.on('warning', (warning) => console.log(JSON.stringify(warning)))
const limiter = new RateLimiter(gcra({ limit: Number(limit), period: '1h' }), { store, prefix: 'shared' })
const end = Date.now() + Number(ms)
while (Date.now() < end) {
  await limiter.take('key')
  await new Promise((resolve) => setTimeout(resolve, 50))
}
await store.close()
