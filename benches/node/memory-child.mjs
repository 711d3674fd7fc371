// A fresh process that measures what keys take in an embedded store, and tells it.
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { MemoryStore, RateLimiter } from 'tollgate'
import { keyOf } from './memory.mjs'

const { policy, peer, limit, seconds, uses, keys, stepMs } = JSON.parse(process.argv[2])
let now = Date.UTC(2026, 5, 1)

/** What makes a call with a key, in a store with room for so many. */
function callOf(maxKeys) {
  if (peer === undefined) {
    const limiter = new RateLimiter(policy, { store: new MemoryStore({ maxKeys, clock: () => now }) })
    return (key) => limiter.takeSync(key)
  }
  const limiter = new RateLimiterMemory({ points: limit, duration: seconds })
  // It has no bound: what makes up for the room of one is one key.
  return maxKeys === 1 ? () => limiter.consume(keyOf(0)).catch(() => {}) : (key) => limiter.consume(key)
}

async function use(call, rounds) {
  for (let round = 0; round < rounds; round++) {
    for (let number = 0; number < keys; number++) {
      await call(keyOf(number))
    }
    now += stepMs
  }
}

/** What the process has in memory, of all and beside V8's heap, which grows and shrinks as it likes. */
function memory() {
  global.gc()
  const { rss, heapTotal } = process.memoryUsage()
  return { resident: rss, beside: rss - heapTotal }
}

// Some of the work with room for one key: what it costs V8 to make calls is not to be counted.
await use(callOf(1), Math.min(uses, 3))
const before = memory()
const call = callOf(keys)
await use(call, uses)
const after = memory()
const told = { resident: (after.resident - before.resident) / keys, beside: (after.beside - before.beside) / keys }
// Whoever measured is still needed here.
process.send(told, () => process.exit(call === undefined ? 1 : 0))
