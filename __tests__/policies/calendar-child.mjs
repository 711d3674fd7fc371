// A process with its own time zone data (TZDIR) that takes units over Redis on command. It prints
// for each unit when it was taken and when its window ends.
import { calendarWindow, RateLimiter, RedisStore } from 'tollgate'

const { url, prefix, options } = JSON.parse(process.argv[2])
const store = new RedisStore({ url, commandTimeoutMs: 5_000 })
const limiter = new RateLimiter(calendarWindow(options), { store, prefix })

async function take(key) {
  const { status, at, resetAfterMs } = await limiter.take(key)
  return { status, at, end: at + resetAfterMs }
}

async function hammer(key, ms) {
  const end = performance.now() + ms
  const taken = []
  async function loop() {
    while (performance.now() < end) {
      const one = await take(key)
      if (one.status !== 'refused') {
        taken.push(one)
      }
    }
  }
  await Promise.all(Array.from({ length: 8 }, loop))
  return taken
}

await limiter.ready()
process.send('ready')
process.on('message', async ({ key, times, ms }) => {
  if (key === undefined) {
    await store.close()
    process.disconnect()
  } else if (ms === undefined) {
    process.send(await Promise.all(Array.from({ length: times }, () => take(key))))
  } else {
    process.send(await hammer(key, ms))
  }
})
