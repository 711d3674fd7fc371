// A process that takes more units of one key than several policies over Redis admit, with a share
// of them as the fallback. An unhandled rejection ends it, and so fails the test.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { RateLimiter, RedisStore } from 'tollgate'
import { ready } from '../redis/programs/ready.mjs'

const { url, policies, share, inFlight, pauseMs, ms, commandTimeout } = JSON.parse(process.argv[2])
const store = new RedisStore({ url, commandTimeout, connectTimeout: 500 })
const onStoreFailure = { embedded: { share } }
const limiters = policies.map(({ name, policy }) => new RateLimiter(policy, { store, prefix: name, onStoreFailure }))

await Promise.all(limiters.map(ready))
process.send('ready')
process.once('message', async () => {
  /** By policy: the microsecond, the cost and the source of each admitted call. */
  const admitted = policies.map(() => [])
  const end = performance.now() + ms
  let slowest = 0
  // On a busy machine a process may stall, and its calls with it.
  const stalls = monitorEventLoopDelay({ resolution: 10 })
  stalls.enable()

  async function loop(which, worker) {
    for (let start = performance.now(); start < end; start = performance.now()) {
      const cost = 1 + (worker % 2)
      const { allowed, at, source } = await limiters[which].take('key', cost)
      slowest = Math.max(slowest, performance.now() - start)
      if (allowed) {
        admitted[which].push([Math.round(at * 1_000), cost, source])
      }
      await sleep(pauseMs)
    }
  }

  const workers = Array.from({ length: inFlight }, (_, worker) => worker)
  await Promise.all(limiters.flatMap((_, which) => workers.map((worker) => loop(which, worker))))
  await store.close()
  process.send({ admitted, slowest, longestStall: stalls.max / 1e6 }, () => process.disconnect())
})
