// An Express app whose limiter is monitored by Prometheus.
// Run it:  node examples/prometheus/server.mjs   then   curl http://localhost:3000; curl http://localhost:9464
//   REDIS_URL=redis://localhost node examples/prometheus/server.mjs    counts in Redis, and shows its health
import { once } from 'node:events'
import express from 'express'
import { fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'
import { instrument, instrumentStore } from 'tollgate/metrics'
import { serveMetrics } from './telemetry.mjs'

const { PORT = 3000, METRICS_PORT = 9464, REDIS_URL } = process.env

const policies = {
  client: gcra({ limit: 5, period: '1h', per: 'client' }),
  everyone: fixedWindow({ limit: 20, window: '1h', per: 'global' }),
}

const limiter = instrument(REDIS_URL ? overRedis(REDIS_URL) : new RateLimiter(policies), { name: 'api' })

function overRedis(url) {
  const store = new RedisStore({ url, commandTimeout: '500ms' })
  instrumentStore(store, { name: 'main' })
  // One of two processes: while Redis is unreachable, each decides with half of the limit.
  return new RateLimiter(policies, { store, prefix: 'api', onStoreFailure: { embedded: { share: 0.5 } } })
}

const app = express()

// A real service would take the key from verified data, such as a session or an API key.
app.use(async (req, res, next) => {
  const decision = await limiter.take({ client: req.get('x-client') ?? req.ip ?? '' })
  if (decision.allowed) return next()
  res.set('Retry-After', String(Math.ceil((decision.retryAfterMs ?? 0) / 1000)))
  res.status(429).json({ error: 'Too many requests', policy: decision.policy })
})

app.get('/', (_req, res) => res.json({ hello: 'world' }))

// A failure is not a refusal: here, an invalid key, or a failure of Redis.
app.use((error, _req, res, _next) => {
  res.status(error.code === 'INVALID_KEY' ? 400 : 503).json({ error: error.code })
})

const server = app.listen(PORT)
await once(server, 'listening')
const metricsServer = await serveMetrics(METRICS_PORT)
console.log(`http://localhost:${server.address().port}`)
console.log(`http://localhost:${metricsServer.address().port}/metrics`)
