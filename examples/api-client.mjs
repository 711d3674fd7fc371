// A client of an API with a limit of requests per second. It waits for its slots instead of being
// refused. If the API answers 429 with Retry-After, all processes of the client pause for that
// time.
// Run it:  node examples/api-client.mjs    against its own API, which allows less than the client expects
//   API_URL=https://api.example.com REDIS_URL=redis://localhost node examples/api-client.mjs
import { once } from 'node:events'
import { createServer } from 'node:http'
import { fixedWindow, gcra, MemoryStore, RateLimiter, RedisStore } from 'tollgate'
import { OutgoingClient } from 'tollgate/client'

const { API_URL, REDIS_URL } = process.env
const store = REDIS_URL ? new RedisStore(REDIS_URL) : new MemoryStore()

// A burst of 1 spaces requests evenly. Over Redis, all processes take their slots from one queue.
const pacer = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }), { store, prefix: 'out' })
const client = new OutgoingClient({ limiter: pacer, maxWait: '10s', retries: 10 })

/** GETs a URL at its slot. Rejects if the slot is more than ten seconds away. */
async function get(url, { signal }) {
  const response = await client.fetch(url, { signal })
  if (response.status === 429) {
    // The server asked for a longer time than the client waits.
    const { retryAfterMs } = await pacer.peek(new URL(url).host)
    throw new Error(`${new URL(url).host} is busy: try again in ${retryAfterMs} ms`)
  }
  return response
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
  await client.close()
  await pacer.close()
  if (store instanceof RedisStore) await store.close()
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
