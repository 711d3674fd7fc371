// Ten million distinct keys on a store for a hundred thousand, in a separate process, so that its
// memory is measured alone. Prints the result as JSON.
import { fixedWindow, MemoryStore, RateLimiter } from 'tollgate'

const KEYS = 10_000_000
const store = new MemoryStore({ maxKeys: 100_000 })
const limiter = new RateLimiter(fixedWindow({ limit: 10, window: '1h' }), { store })

limiter.takeSync('spent', 10)
limiter.takeSync('nearly spent', 9)

// The process's memory outside of JavaScript's heap, whose young generation fluctuates.
const megabytes = () => {
  const { rss, heapTotal } = process.memoryUsage()
  return Math.round((rss - heapTotal) / 2 ** 20)
}
let early = 0
for (let key = 0; key < KEYS; key++) {
  limiter.takeSync(`flood:${key}`)
  if (key === KEYS / 10) {
    globalThis.gc()
    early = megabytes()
  }
}
globalThis.gc()

console.log(
  JSON.stringify({
    size: store.size,
    grownMegabytes: megabytes() - early,
    spent: limiter.takeSync('spent').status,
    nearlySpent: [limiter.takeSync('nearly spent').status, limiter.takeSync('nearly spent').status],
  }),
)
