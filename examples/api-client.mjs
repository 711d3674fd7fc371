// A client of an API that allows so many requests a second: it waits for its turns, instead of being refused, and when
// the API says 429 with Retry-After, all of its processes are silent for so long.
// Run it:  node examples/api-client.mjs    against an API of its own, which allows less than the client was told
//   API_URL=https://api.example.com REDIS_URL=redis://localhost node examples/api-client.mjs
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'

const { API_URL, REDIS_URL } = process.env
const store = REDIS_URL ? new RedisStore(REDIS_URL) : undefined

// A burst of 1: turns are spread evenly. Over Redis all processes take theirs from one queue.
const pacer = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }), { store, prefix: 'out' })

/** GETs a URL in its turn. Rejects if that cannot be within `patienceMs`, or when the signal is aborted. */
async function get(url, { patienceMs = 10_000, signal }) {
  const { host } = new URL(url)
  const deadline = performance.now() + patienceMs
  for (;;) {
    const maxWaitMs = Math.max(0, Math.ceil(deadline - performance.now()))
    // An abort rejects at once, and gives the turn back if nobody has booked behind it. A refusal would reject, too; here
    // it is a value, as what to do about a block is ours to say.
    let turn = await pacer.wait(host, { maxWaitMs, signal, onTooLong: 'resolve' })
    // While others slept until their turns, one may have been told to be silent.
    if (turn.allowed && turn.waitedMs > 0) {
      const now = await pacer.peek(host, 0)
      if (now.status === 'blocked') turn = { ...now, waitedMs: 0 }
    }
    if (turn.allowed) {
      const response = await fetch(url, { signal })
      if (response.status !== 429) return response
      await response.body?.cancel()
      // A time is what the API names, and a block is just that. Units to `penalize` would be a guess at it, and never
      // more than the bucket holds: with a burst of 1 a tenth of a second.
      await pacer.block(host, retryAfterMs(response))
    } else if (turn.status === 'blocked' && turn.retryAfterMs <= maxWaitMs) {
      // `wait` answers a blocked key at once, since a block may be long: whether to sit it out is ours to say.
      await sleep(turn.retryAfterMs, undefined, { signal })
    } else {
      throw new Error(`${host} is busy: try again in ${turn.retryAfterMs} ms`)
    }
  }
}

/** Retry-After is a number of seconds or a date. */
function retryAfterMs({ headers }) {
  const text = headers.get('retry-after') ?? ''
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  // Of an API that names no time we ask for a second; a day is the most that we believe.
  return ms > 0 ? Math.min(ms, 86_400_000) : 1000
}

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => stop.abort())
}

const api = API_URL ? undefined : await startApi()
const url = api ? `http://localhost:${api.address().port}` : API_URL
const startedAt = performance.now()
try {
  // All at once: each resolves in its turn.
  await Promise.all(
    Array.from({ length: 16 }, async (_, index) => {
      const { status } = await get(`${url}/items/${index}`, { signal: stop.signal })
      console.log(`item ${index}: ${status} after ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
    }),
  )
} catch (error) {
  // The others need not wait any longer.
  stop.abort()
  console.log(error.name === 'AbortError' ? 'stopped' : error.message)
  process.exitCode = 1
} finally {
  await pacer.close()
  await store?.close()
  api?.close()
}

/** Stands for somebody else's API: 8 requests in 2 seconds are fewer than 10 per second. */
async function startApi() {
  const limiter = new RateLimiter(fixedWindow({ limit: 8, window: '2s' }))
  const server = createServer((_req, res) => {
    const { allowed, retryAfterMs } = limiter.takeSync('everyone')
    res.writeHead(allowed ? 200 : 429, allowed ? {} : { 'Retry-After': String(Math.ceil((retryAfterMs ?? 0) / 1000)) })
    res.end()
  })
  await once(server.listen(0), 'listening')
  return server
}
