// A process with its own time zone data (TZDIR) that takes units over Redis on command. It prints
// for each unit when it was taken and when its window ends.
import { calendarWindow, RateLimiter, RedisStore } from 'tollgate'

const { url, prefix, options } = JSON.parse(process.argv[2])
const store = new RedisStore({ url, commandTimeout: 60_000 })
const limiter = new RateLimiter(calendarWindow(options), { store, prefix })

async function take(key) {
  const { status, at, resetAfterMs } = await limiter.take(key)
  return { status, at, end: at + resetAfterMs }
}

await limiter.ready()
process.send('ready')
process.on('message', async ({ key, times }) => {
  if (key === undefined) {
    await store.close()
    process.disconnect()
  } else {
    process.send(await Promise.all(Array.from({ length: times }, () => take(key))))
  }
})
