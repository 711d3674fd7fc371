// Ten million distinct keys on a store for a hundred thousand, in a process of its own: its memory
// is nobody else's. Prints what became of it as JSON.
import { fixedWindow, MemoryStore, RateLimiter } from 'tollgate'

const KEYS = 10_000_000
const store = new MemoryStore({ maxKeys: 100_000 })
const limiter = new RateLimiter(fixedWindow({ limit: 10, window: '1h' }), { store })

limiter.takeSync('spent', 10)
limiter.takeSync('nearly spent', 9)

// What the process holds beside JavaScript's heap, whose own young generation comes and goes.
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
