/**
 * Makes calls of `takeSync` at a given time, and prints their number. callgrind counts the
 * instructions of the bound function: it reads the key, decides, and writes the response.
 */
import { gcra, MemoryStore, RateLimiter } from '../../dist/index.mjs'

const LAPS = 10

let now = 1_700_000_000_000
const store = new MemoryStore({ clock: () => now })
const limiter = new RateLimiter(gcra({ limit: 1_000, period: '1h' }), { store })
const keys = Array.from({ length: 500 }, (_, number) => `user:${number}`)

for (let lap = 0; lap < LAPS; lap++) {
  for (const key of keys) {
    now++
    if (!limiter.takeSync(key).allowed) {
      throw new Error('a call was refused')
    }
  }
}
console.log(LAPS * keys.length)
