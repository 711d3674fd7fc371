// A Hono app on Node.js: each API key has its own limit, and other clients have one per address.
// Run it:  node examples/hono.mjs   then   curl -i http://localhost:3000/words -H 'x-api-key: secret-of-ann'
import { serve } from '@hono/node-server'
import { getConnInfo } from '@hono/node-server/conninfo'
import { Hono } from 'hono'
import { gcra, RateLimiter } from 'tollgate'
import { ipKey, rateLimit } from 'tollgate/hono'

// Simulates your database.
const customers = new Map([
  ['secret-of-ann', 'ann'],
  ['secret-of-bob', 'bob'],
])

const known = new RateLimiter(gcra({ limit: 60, period: '1h' }))
const unknown = new RateLimiter(gcra({ limit: 6, period: '1h' }))

const message = (c, { retryAfterMs }) => ({ error: 'Too many requests', retryAfterMs })

/** @type {Hono<{ Variables: { customer?: string } }>} */
const app = new Hono()

// Monitoring is not limited: this route comes before the limiter.
app.get('/health', (c) => c.text('ok'))

app.use(async (c, next) => {
  c.set('customer', customers.get(c.req.header('x-api-key') ?? ''))
  await next()
})

app.use(
  rateLimit({
    limiter: known,
    skip: (c) => c.get('customer') === undefined,
    // Never count by an unchecked API key: clients could send a new one, and get a new count, with
    // every request.
    key: (c) => c.get('customer'),
    // One limit for all requests, in units: a write costs five times as much as a read.
    cost: (c) => (c.req.method === 'GET' ? 1 : 5),
    message,
  }),
)

app.use(
  rateLimit({
    limiter: unknown,
    // A wrong API key counts by address, like no key: otherwise guessing keys would have no limit.
    skip: (c) => c.get('customer') !== undefined,
    // Hono runs on many platforms and does not know the address; here node-server does. Behind a
    // proxy, use the header that the proxy writes, and none that a client can write.
    key: (c) => ipKey(getConnInfo(c).remote.address),
    message,
  }),
)

app.get('/words', (c) => c.json({ words: ['toll', 'gate'], customer: c.get('customer') ?? null }))
app.post('/words', (c) => c.json({ added: true }, 201))

const server = serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000) }, ({ port }) => {
  console.log(`http://localhost:${port}`)
})

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => server.close())
}
