// An Express app whose callers get 20 requests at once and then 10 per second.
// Run it:  node examples/express.mjs   then   curl -i http://localhost:3000
import { fileURLToPath } from 'node:url'
import express from 'express'
import { gcra, RateLimiter } from 'tollgate'

const policy = gcra({ limit: 10, period: '1s', burst: 20 })

// Behind a proxy, tell Express so ('trust proxy'): else all callers have the proxy's address.
export function createApp(limiter = new RateLimiter(policy), keyOf = (req) => req.ip) {
  const app = express()
  app.use(rateLimit(limiter, keyOf))
  app.get('/', (_req, res) => res.json({ hello: 'world' }))
  return app
}

// The header fields are those of draft-ietf-httpapi-ratelimit-headers (from -08 on).
function rateLimit(limiter, keyOf) {
  const { limit, period, burst } = limiter.policies.default
  const quota = `"default";q=${burst};w=${seconds((burst * period) / limit)}`
  return async (req, res, next) => {
    const decision = await limiter.take(keyOf(req))
    const wait = seconds(decision.allowed ? decision.resetAfterMs : decision.retryAfterMs)
    res.set({ 'RateLimit-Policy': quota, RateLimit: `"default";r=${decision.remaining};t=${wait}` })
    if (decision.allowed) return next()
    res.set('Retry-After', wait)
    res.status(429).json({ error: 'Too many requests', retryAfterMs: decision.retryAfterMs })
  }
}

// HTTP counts in whole seconds; rounded up, so that nobody is called back too early.
function seconds(ms) {
  return Math.ceil(ms / 1000)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = createApp().listen(process.env.PORT ?? 3000, (error) => {
    if (error) throw error
    console.log(`http://localhost:${server.address().port}`)
  })
}
