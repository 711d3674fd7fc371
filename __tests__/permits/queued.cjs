/** Waits for many permits of one key at once, holds each for a moment, and reports their times. */
const { setTimeout: sleep } = require('node:timers/promises')
const { concurrency, RateLimiter, RedisStore } = require('../../dist/index.js')

const [url, waiters, holdMs] = process.argv.slice(2)
const store = new RedisStore({ url, commandTimeout: 30_000 })
const limiter = new RateLimiter(concurrency({ limit: 1 }), { store, prefix: 'queued' })
const now = () => performance.timeOrigin + performance.now()
const releasedAt = new WeakMap()

async function wait() {
  const since = now()
  const permit = await limiter.acquire('key', { maxWait: 60_000 })
  const granted = now()
  // A permit that another call of this process has passed on has the same decision.
  const passedAt = releasedAt.get(permit.decision)
  await sleep(Number(holdMs))
  const released = now()
  releasedAt.set(permit.decision, released)
  await permit.release()
  return { since, granted, released, passedAt }
}

process.once('message', async () => {
  const grants = await Promise.all(Array.from({ length: Number(waiters) }, wait))
  await limiter.close()
  await store.close()
  process.send(grants)
  process.disconnect()
})
void limiter.ready().then(() => process.send('ready'))
