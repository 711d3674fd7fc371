// A process that takes units of a few hot keys over Redis, as fast as it can, for a while. An
// unhandled rejection ends it, and so fails the test.
import { RateLimiter, RedisStore } from 'tollgate'
import { ready } from './ready.mjs'

const { url, policy, prefix, keys, inFlight, ms, commandTimeoutMs = 5_000 } = JSON.parse(process.argv[2])
const store = new RedisStore({ url, commandTimeoutMs })
const limiter = new RateLimiter(policy, { store, prefix })

await ready(limiter)
process.send('ready')
process.once('message', async ({ now }) => {
  const skew = Date.now() - now
  const admitted = Object.fromEntries(keys.map((key) => [key, []]))
  const failures = []
  const end = performance.now() + ms
  let calls = 0

  async function take(key) {
    const start = performance.now()
    try {
      const decision = await limiter.take(key)
      if (decision.allowed) {
        admitted[key].push(Math.round(decision.at * 1_000))
      }
    } catch ({ code, charged }) {
      failures.push({ code, charged, ms: performance.now() - start, at: Date.now() })
      // While the store is known to be down calls fail immediately, hundreds of thousands of them.
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }

  async function loop() {
    while (performance.now() < end) {
      await take(keys[calls++ % keys.length])
    }
  }

  await Promise.all(Array.from({ length: inFlight }, loop))
  await store.close()
  process.send({ admitted, calls, failures, skew }, () => process.disconnect())
})
