// A process that never closes anything, and reports the outcomes of its calls.
import { fixedWindow, RateLimiter, RedisStore } from 'tollgate'

const [url, commandTimeout, calls] = process.argv.slice(2)
const store = new RedisStore({ url, commandTimeout: Number(commandTimeout) })
const limiter = new RateLimiter(fixedWindow({ limit: 2, window: '1h' }), { store, prefix: 'exits' })

console.log('started')
for (let call = 0; call < Number(calls); call++) {
  limiter.take('key').then(
    ({ status }) => console.log(status),
    ({ code }) => console.log(code),
  )
}
