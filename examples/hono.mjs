// A Hono app on Node.js: callers with an API key have a limit of their own, others one for each address.
// Run it:  node examples/hono.mjs   then   curl -i http://localhost:3000/words -H 'x-api-key: secret-of-ann'
import { serve } from '@hono/node-server'
import { getConnInfo } from '@hono/node-server/conninfo'
import { Hono } from 'hono'
import { gcra, RateLimiter } from 'tollgate'
import { ipKey, rateLimit } from 'tollgate/hono'

// Stands for your database.
const customers = new Map([
  ['secret-of-ann', 'ann'],
  ['secret-of-bob', 'bob'],
])

const known = new RateLimiter(gcra({ limit: 60, period: '1h' }))
const unknown = new RateLimiter(gcra({ limit: 6, period: '1h' }))

const message = (c, { retryAfterMs }) => ({ error: 'Too many requests', retryAfterMs })

/** @type {Hono<{ Variables: { customer?: string } }>} */
const app = new Hono()

// Monitoring asks often, and is not limited: what comes before a limiter does not pass it.
app.get('/health', (c) => c.text('ok'))

app.use(async (c, next) => {
  c.set('customer', customers.get(c.req.header('x-api-key') ?? ''))
  await next()
})

app.use(
  rateLimit({
    limiter: known,
    skip: (c) => c.get('customer') === undefined,
    // Not the API key as it came: whoever counts by what nobody has checked lets callers choose a new count each time.
    key: (c) => c.get('customer'),
    // One limit for everything, in units: to write costs five times what it costs to read.
    cost: (c) => (c.req.method === 'GET' ? 1 : 5),
    message,
  }),
)

app.use(
  rateLimit({
    limiter: unknown,
    // A wrong API key is counted by address, as none: else keys could be guessed without a limit.
    skip: (c) => c.get('customer') !== undefined,
    // Hono runs on many platforms and knows no address; on this one node-server does. Behind a proxy, take what the
    // proxy writes, and nothing that a client can write itself.
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
