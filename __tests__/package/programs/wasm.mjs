// A program that uses the installed package as WebAssembly, by `import` and by `require`.
import { createRequire } from 'node:module'
import { TollgateError } from 'tollgate'
import { fixedWindow, gcra, MemoryStore, RateLimiter, tokenBucket } from 'tollgate/wasm'

const store = new MemoryStore({ clock: () => 1_700_000_000_000 })
const smooth = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 3 }), { store, prefix: 'smooth' })
const once = new RateLimiter(fixedWindow({ limit: 1, window: '1m' }), { store, prefix: 'once' })
const bucket = new RateLimiter(tokenBucket({ capacity: 5, refill: { tokens: 1, every: '1s' } }), { store, prefix: 'b' })

const { status, remaining } = await smooth.take('user:42')
const last = once.takeSync('user:42')
await bucket.take('user:42', 5)
const { retryAfterMs } = await bucket.take('user:42')
const error = await smooth.take('').catch((reason) => reason)
const required = createRequire(import.meta.url)('tollgate/wasm')

console.log(
  JSON.stringify({
    smooth: { status, remaining },
    once: last.status,
    bucket: { retryAfterMs },
    error: error instanceof TollgateError && error.code,
    isSame: required.RateLimiter === RateLimiter,
  }),
)
