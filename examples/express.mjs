// An Express app whose callers get 20 requests at once and then 10 per second.
// Run it:  node examples/express.mjs   then   curl -i http://localhost:3000
import { fileURLToPath } from 'node:url'
import express from 'express'
import { gcra, RateLimiter } from 'tollgate'
import { rateLimit } from 'tollgate/express'

const policy = gcra({ limit: 10, period: '1s', burst: 20 })

// Without a key, callers are told apart by their addresses. Behind a proxy, tell Express so
// ('trust proxy'): else all callers have the proxy's address.
export function createApp(limiter = new RateLimiter(policy), key) {
  const app = express()
  app.use(rateLimit({ limiter, key, message }))
  app.get('/', (_req, res) => res.json({ hello: 'world' }))
  return app
}

// What a refused caller is told, beside the RateLimit and Retry-After fields.
function message(_req, _res, { retryAfterMs }) {
  return { error: 'Too many requests', retryAfterMs }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = createApp().listen(process.env.PORT ?? 3000, (error) => {
    if (error) throw error
    console.log(`http://localhost:${server.address().port}`)
  })
}
