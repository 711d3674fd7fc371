// Free and pro customers, in two ways.
// /reports: one limiter with the numbers of the free tier, and an `override` for each pro customer.
// The store keeps the numbers, so the caller need not know the tier. Used units stay charged when
//     the tier changes, and each customer can have individual numbers. But overrides have a ttl, so
//     they must be renewed.
//   /searches: one limiter per tier. There is nothing to renew, and tiers may differ in more than
// numbers. But the caller must know the tier of each request, and a new tier starts with a fresh
// key. So use one limiter per tier if there are few tiers and a session or token contains the tier;
// otherwise use `override`.
// Run it:  node examples/tiers.mjs
//   curl -i http://localhost:3000/reports -H 'x-customer: ann'
//   curl -X PUT http://localhost:3000/customers/ann --json '{"tier":"pro"}'
//   REDIS_URL=redis://localhost node examples/tiers.mjs    for any number of processes
import express from 'express'
import { fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'
import { rateLimit } from 'tollgate/express'

const { PORT = 3000, REDIS_URL, RENEW_EVERY_MS = 86_400_000 } = process.env
const store = REDIS_URL ? new RedisStore(REDIS_URL) : undefined

// Simulates your database.
const tiers = new Map([
  ['ann', 'free'],
  ['bob', 'pro'],
])
// Simulates your authentication: count by the authenticated customer.
const customerOf = (req) => req.get('x-customer') ?? 'nobody'

// The first way. Each limiter has its own prefix, which separates their keys.
const reports = new RateLimiter(fixedWindow({ limit: 3, window: '1h' }), { store, prefix: 'reports' })
const PRO = { limit: 30 }

const applyTier = (customer) =>
  tiers.get(customer) === 'pro'
    ? // Twice the renewal interval, so one renewal may fail. If all fail, the customer gets the free
      // tier, not unlimited use.
      reports.override(customer, PRO, { ttl: Number(RENEW_EVERY_MS) * 2 })
    : reports.clearOverride(customer)

const renewAll = async () => {
  const pro = [...tiers.keys()].filter((customer) => tiers.get(customer) === 'pro')
  const results = await Promise.allSettled(pro.map(applyTier))
  for (const result of results) {
    if (result.status === 'rejected') console.error(`a tier was not renewed: ${result.reason.message}`)
  }
}
await renewAll()
const renewal = setInterval(renewAll, Number(RENEW_EVERY_MS))

// The second way.
const searches = {
  free: new RateLimiter(fixedWindow({ limit: 3, window: '1h' }), { store, prefix: 'searches-free' }),
  // Pro customers also get another algorithm, without a window that ends.
  pro: new RateLimiter(gcra({ limit: 30, period: '1h' }), { store, prefix: 'searches-pro' }),
}
const limitSearches = {
  free: rateLimit({ limiter: searches.free, key: customerOf }),
  pro: rateLimit({ limiter: searches.pro, key: customerOf }),
}

const app = express()
app.get('/reports', rateLimit({ limiter: reports, key: customerOf }), (_req, res) => res.json({ report: '…' }))
app.get(
  '/searches',
  (req, res, next) => limitSearches[tiers.get(customerOf(req)) ?? 'free'](req, res, next),
  (_req, res) => res.json({ found: [] }),
)

// Simulates the webhook of a payment provider. Both ways react immediately.
app.put('/customers/:customer', express.json(), async (req, res) => {
  const { tier } = req.body ?? {}
  if (!Object.hasOwn(searches, tier)) return res.status(400).json({ error: 'tier is free or pro' })
  tiers.set(req.params.customer, tier)
  await applyTier(req.params.customer)
  res.json({ tier })
})

const server = app.listen(PORT, (error) => {
  if (error) throw error
  console.log(`http://localhost:${server.address().port}`)
})

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    clearInterval(renewal)
    server.close(async () => {
      await Promise.all([reports, searches.free, searches.pro].map((limiter) => limiter.close()))
      await store?.close()
    })
  })
}
