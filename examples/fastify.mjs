// A Fastify app: one limit for all routes, and a tighter one for an expensive route.
// Run it:  node examples/fastify.mjs   then   curl -i http://localhost:3000   and   curl -i http://localhost:3000/report
//   REDIS_URL=redis://localhost node examples/fastify.mjs    counts in Redis, for any number of processes
import fastify from 'fastify'
import { fixedWindow, gcra, MemoryStore, RateLimiter, RedisStore } from 'tollgate'
import rateLimitPlugin, { rateLimit } from 'tollgate/fastify'

const { PORT = 3000, REDIS_URL } = process.env

// Without Redis each process counts for itself, which is correct for a single process.
const store = REDIS_URL ? new RedisStore(REDIS_URL) : new MemoryStore()

// While Redis is unreachable, each process decides by itself, here with half of the limit, for two
// processes. So an outage of Redis is no outage of the app.
const onStoreFailure = { embedded: { share: 0.5 } }

// The prefix separates the keys of the limiters, and names them in the response headers.
const limiterOf = (prefix, policy) => new RateLimiter(policy, { store, prefix, onStoreFailure })

const api = limiterOf('api', gcra({ limit: 100, period: '1m', burst: 50 }))
const reports = limiterOf('reports', fixedWindow({ limit: 4, window: '1h' }))

// Behind a proxy, add `trustProxy`: otherwise all clients have the proxy's address.
const app = fastify()

// The plugin limits all routes of the app, because it is registered before them.
await app.register(rateLimitPlugin, {
  limiter: api,
  message: (request, reply, { retryAfterMs }) => ({ error: 'Too many requests', retryAfterMs }),
})

app.get('/', async () => ({ hello: 'world' }))

// A hook adds a limit to one route. A failed report does not count: its unit is refunded.
app.get('/report', { onRequest: rateLimit({ limiter: reports, refundWhen: 'failed' }) }, async (request, reply) => {
  const { month } = Object(request.query)
  if (month === undefined) return reply.code(400).send({ error: 'month is missing' })
  // This is the decision of the hook; in routes without a hook, that of the plugin.
  return { month, remaining: request.rateLimit?.remaining }
})

await app.listen({ port: Number(PORT) })
console.log(`http://localhost:${app.server.address().port}`)

// In this order, because requests in flight need the limiters, and the limiters need the store.
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, async () => {
    await app.close()
    await Promise.all([api.close(), reports.close()])
    if (store instanceof RedisStore) await store.close()
  })
}
