// A client of an API with a limit of requests per second. It waits for its slots instead of being
// refused. If the API answers 429 with Retry-After, all processes of the client pause for that
// time.
// Run it:  node examples/api-client.mjs    against its own API, which allows less than the client expects
//   API_URL=https://api.example.com REDIS_URL=redis://localhost node examples/api-client.mjs
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'

const { API_URL, REDIS_URL } = process.env
const store = REDIS_URL ? new RedisStore(REDIS_URL) : undefined

// A burst of 1 spaces requests evenly. Over Redis, all processes take their slots from one queue.
const pacer = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }), { store, prefix: 'out' })

/**
 * GETs a URL at its slot. Rejects if the slot is beyond `patienceMs`, or if the signal is aborted.
 */
async function get(url, { patienceMs = 10_000, signal }) {
  const { host } = new URL(url)
  const deadline = performance.now() + patienceMs
  for (;;) {
    const maxWaitMs = Math.max(0, Math.ceil(deadline - performance.now()))
    // An abort rejects immediately, and gives the slot back if no later call has reserved one.
    // A refusal would also reject; here it is a value, because this code handles blocks itself.
    let turn = await pacer.wait(host, { maxWaitMs, signal, onTooLong: 'resolve' })
    // While this call slept until its slot, another may have received a 429.
    if (turn.allowed && turn.waitedMs > 0) {
      const now = await pacer.peek(host, 0)
      if (now.status === 'blocked') turn = { ...now, waitedMs: 0 }
    }
    if (turn.allowed) {
      const response = await fetch(url, { signal })
      if (response.status !== 429) return response
      await response.body?.cancel()
      // The API names a time, and a block is a time. The units for a `penalize` would be a guess,
      // and never more than the bucket holds: with a burst of 1, a tenth of a second.
      await pacer.block(host, retryAfterMs(response))
    } else if (turn.status === 'blocked' && turn.retryAfterMs <= maxWaitMs) {
      // `wait` answers immediately for a blocked key, because a block may be long. This code
      // decides whether to wait until its end.
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
  // Without a time, pause for a second. Never pause for more than a day.
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
  // All start at once, and each resolves at its slot.
  await Promise.all(
    Array.from({ length: 16 }, async (_, index) => {
      const { status } = await get(`${url}/items/${index}`, { signal: stop.signal })
      console.log(`item ${index}: ${status} after ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
    }),
  )
} catch (error) {
  // The others stop waiting.
  stop.abort()
  console.log(error.name === 'AbortError' ? 'stopped' : error.message)
  process.exitCode = 1
} finally {
  await pacer.close()
  await store?.close()
  api?.close()
}

/** Simulates another company's API: it allows 8 requests in 2 seconds, fewer than 10 per second. */
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
