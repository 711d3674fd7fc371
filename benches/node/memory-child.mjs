// A fresh process that measures what keys take in the embedded store, and tells it.
import { MemoryStore, RateLimiter } from 'tollgate'
import { keyOf } from './memory.mjs'

const { policy, uses, keys, stepMs } = JSON.parse(process.argv[2])
let now = Date.UTC(2026, 5, 1)

function limiterOf(maxKeys) {
  return new RateLimiter(policy, { store: new MemoryStore({ maxKeys, clock: () => now }) })
}

function use(limiter, rounds) {
  for (let round = 0; round < rounds; round++) {
    for (let number = 0; number < keys; number++) {
      limiter.takeSync(keyOf(number))
    }
    now += stepMs
  }
}

/** What the process has in memory beside V8's heap, which grows and shrinks as it likes. */
function native() {
  global.gc()
  const { rss, heapTotal } = process.memoryUsage()
  return rss - heapTotal
}

// Some of the work with room for one key: what it costs V8 to make calls is not to be counted.
use(limiterOf(1), Math.min(uses, 3))
const before = native()
const limiter = limiterOf(keys)
use(limiter, uses)
const bytes = (native() - before) / keys
process.send(bytes, () => process.disconnect())
await limiter.close()
