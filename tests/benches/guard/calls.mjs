/**
 * Makes calls of `takeSync` at a given time, with `--tier` under a tier, and prints their number. callgrind counts the
 * instructions of the bound function: it reads the key, decides, and writes the response.
 */
import { gcra, MemoryStore, RateLimiter, tiers } from '../../../dist/index.mjs'

const LAPS = 10

let now = 1_700_000_000_000
const store = new MemoryStore({ clock: () => now })
const policy = gcra({ limit: 1_000, period: '1h' })
const hasTier = process.argv.includes('--tier')
const limiter = new RateLimiter(hasTier ? tiers({ free: policy, pro: policy }) : policy, { store })
const options = hasTier ? [{ tier: 'pro' }] : []
const keys = Array.from({ length: 500 }, (_, number) => `user:${number}`)

for (let lap = 0; lap < LAPS; lap++) {
  for (const key of keys) {
    now++
    if (!limiter.takeSync(key, ...options).allowed) {
      throw new Error('a call was refused')
    }
  }
}
console.log(LAPS * keys.length)
