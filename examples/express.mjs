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

// Without a key, clients are told apart by their addresses. Behind a proxy, tell Express so, by
// app.set('trust proxy', 1): else all of them have the proxy's address, and share one limit.

// Ends when the requests under way are answered. The counts were in this process: there is nothing to close.
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => server.close())
}
