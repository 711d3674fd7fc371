// Free and pro customers, with numbers that operators change while the program runs.
// All tiers count on one state for each customer, so a change of plan takes effect with the next
// request, and used units stay charged.
// Run it:  node examples/tiers.mjs
//   curl -i http://localhost:3000/reports -H 'x-customer: ann'
//   curl -X PUT http://localhost:3000/customers/ann --json '{"plan":"pro"}'
//   LIMITS=limits.json node examples/tiers.mjs             with numbers from a file, such as
//     { "tiers": { "free": { "algorithm": "fixedWindow", "limit": 5, "window": 3600000 }, "pro": … } }
//   REDIS_URL=redis://localhost node examples/tiers.mjs    for any number of processes
import { readFile } from 'node:fs/promises'
import express from 'express'
import { fixedWindow, MemoryStore, RateLimiter, RedisStore, TollgateError, tiers, watchPolicies } from 'tollgate'
import { rateLimit } from 'tollgate/express'

const { PORT = 3000, REDIS_URL, LIMITS, WATCH_EVERY_MS = 5_000 } = process.env
const store = REDIS_URL ? new RedisStore(REDIS_URL) : new MemoryStore()

/**
 * Simulates your database.
 *
 * @type {Map<string, 'free' | 'pro'>}
 */
const plans = new Map([
  ['ann', 'free'],
  ['bob', 'pro'],
])
// Simulates your authentication: count by the authenticated customer.
const customerOf = (req) => req.get('x-customer') ?? 'nobody'

const limiter = new RateLimiter(
  tiers({
    free: fixedWindow({ limit: 3, window: '1h' }),
    pro: fixedWindow({ limit: 30, window: '1h' }),
  }),
  { store, prefix: 'reports' },
)

// A file that cannot be read, or that has other tiers, changes nothing and causes a process warning.
const watch =
  LIMITS &&
  watchPolicies(limiter, async () => JSON.parse(await readFile(LIMITS, 'utf8')), { every: Number(WATCH_EVERY_MS) })
if (watch) await watch.refresh()

const app = express()
const limited = rateLimit({ limiter, key: customerOf, tier: (req) => plans.get(customerOf(req)) ?? 'free' })
app.get('/reports', limited, (_req, res) => res.json({ report: '…' }))

// Simulates the webhook of a payment provider.
app.put('/customers/:customer', express.json(), (req, res) => {
  const { plan } = req.body ?? {}
  if (!Object.hasOwn(limiter.tiers, plan)) {
    return res.status(400).json({ error: `plan is one of ${Object.keys(limiter.tiers).join(', ')}` })
  }
  plans.set(req.params.customer, plan)
  res.json({ plan })
})

// One customer's own numbers: they decide in any tier, until they end.
app.put('/customers/:customer/limit', express.json(), async (req, res, next) => {
  try {
    const { customer } = req.params
    const tier = plans.get(customer) ?? 'free'
    await limiter.override(customer, { limit: req.body?.limit }, { ttl: '30d', tier })
    res.json({ limit: req.body.limit })
  } catch (error) {
    // Numbers that are no policy, and a customer that is no key, are errors of the request.
    if (!TollgateError.is(error) || !error.code.startsWith('INVALID_')) return next(error)
    res.status(400).json({ error: error.message })
  }
})

const server = app.listen(PORT, (error) => {
  if (error) throw error
  console.log(`http://localhost:${server.address().port}`)
})

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    if (watch) watch.stop()
    server.close(async () => {
      await limiter.close()
      if (store instanceof RedisStore) await store.close()
    })
  })
}
