// The README's app: each client gets 20 requests at once, and then 10 per second.
// Run it:  node examples/express.mjs   then   curl -i http://localhost:3000
import express from 'express'
import { gcra, RateLimiter } from 'tollgate'
import { rateLimit } from 'tollgate/express'

const limiter = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 20 }))

const app = express()
app.use(rateLimit({ limiter }))
app.get('/', (req, res) => res.json({ hello: 'world' }))
const server = app.listen(process.env.PORT ?? 3000, (error) => {
  if (error) throw error
  console.log(`http://localhost:${server.address().port}`)
})

// Without `key`, each client's address is its key. Behind a proxy, add app.set('trust proxy', 1):
// otherwise all clients have the proxy's address, and share one limit.

// Ends after the requests in flight are answered. The counts are in this process, so there is
// nothing else to close.
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => server.close())
}
