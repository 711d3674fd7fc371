// A process whose calls wait for slots on one key over Redis. An unhandled rejection ends it, and
// so fails the test.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { RateLimiter, RedisStore } from 'tollgate'
import { skewOfClock } from './random.mjs'

const { url, policy, prefix, waiters } = JSON.parse(process.argv[2])
const store = new RedisStore({ url, commandTimeout: 30_000 })
const limiter = new RateLimiter(policy, { store, prefix })

/** By the machine's clock: this process's own time is wrong (`skew.mjs`). */
const ORIGIN_MS = performance.timeOrigin - Number(process.env.SKEW_MS)

/** The histogram measures the time between its ticks. */
const TICK_MS = 1

await limiter.ready()
// The compilation during the first calls must not count.
for (let round = 0; round < 5; round++) {
  await Promise.all(waiters.map((_, index) => limiter.wait(`warm-${round}-${index}`)))
}
process.send('ready')
process.once('message', async () => {
  const skew = skewOfClock()
  const delay = monitorEventLoopDelay({ resolution: TICK_MS })
  delay.enable()
  const started = []
  let [refused, aborted] = [0, 0]

  async function wait({ abortAfterMs, ...options }, number) {
    const signal = abortAfterMs === undefined ? undefined : AbortSignal.timeout(abortAfterMs)
    try {
      const { at, waitedMs } = await limiter.wait('one', { ...options, signal })
      const start = Math.round((ORIGIN_MS + performance.now()) * 1_000)
      started.push({ number, at: Math.round(at * 1_000), waited: Math.round(waitedMs * 1_000), start })
    } catch (error) {
      if (error.code === 'WAIT_TOO_LONG') {
        refused++
      } else if (error.code === 'ABORTED') {
        aborted++
      } else {
        throw error
      }
    }
  }

  await Promise.all(waiters.map(wait))
  delay.disable()
  const loopMs = Math.max(0, delay.max / 1e6 - TICK_MS)
  await limiter.close()
  await store.close()
  process.send({ started, refused, aborted, loopMs, skew }, () => process.disconnect())
})
