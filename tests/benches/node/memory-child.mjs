// A fresh process that measures the memory of keys in an embedded store, and reports it.
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { MemoryStore, RateLimiter } from 'tollgate'
import { keyOf } from './memory.mjs'

const { policy, peer, limit, seconds, uses, keys, stepMs } = JSON.parse(process.argv[2])
let now = Date.UTC(2026, 5, 1)

/** Creates a function that makes a call with a key, on a store with space for `maxKeys` keys. */
function callOf(maxKeys) {
  if (peer === undefined) {
    const limiter = new RateLimiter(policy, { store: new MemoryStore({ maxKeys, clock: () => now }) })
    return (key) => limiter.takeSync(key)
  }
  const limiter = new RateLimiterMemory({ points: limit, duration: seconds })
  // It has no bound: a single key replaces the store with space for one key.
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

/** Resident memory of the process, and the part outside of V8's heap, whose size varies. */
function memory() {
  global.gc()
  const { rss, heapTotal } = process.memoryUsage()
  return { resident: rss, beside: rss - heapTotal }
}

// Warm up with space for one key, so that V8's own memory for the calls is not counted.
await use(callOf(1), Math.min(uses, 3))
const before = memory()
const call = callOf(keys)
await use(call, uses)
const after = memory()
const told = { resident: (after.resident - before.resident) / keys, beside: (after.beside - before.beside) / keys }
// Keeps the store alive until after the measurement.
process.send(told, () => process.exit(call === undefined ? 1 : 0))
