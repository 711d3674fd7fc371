// Takes a unit over TLS, and prints the status, or the reason of a failure.
import { gcra, RateLimiter, RedisStore } from 'tollgate'

const [url, tls] = process.argv.slice(2)
const store = new RedisStore({ url, tls: JSON.parse(tls) })
const limiter = new RateLimiter(gcra({ limit: 10, period: '1h' }), { store, prefix: 'ways' })
// On a busy machine, the deadline may pass before the reason is known.
let text = ''
for (const end = Date.now() + 30_000; text === '' && Date.now() < end; ) {
  text = await limiter.take('key').then(
    ({ status }) => status,
    ({ code, message }) => (code === 'STORE_UNAVAILABLE' && /ertificate/.test(message) ? message : ''),
  )
}
console.log(text)
await store.close()
