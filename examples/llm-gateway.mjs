// A gateway to a language model. One limiter counts requests, tokens and answers at once, by plan.
// Run it:  node examples/llm-gateway.mjs
//   curl -N localhost:3000/complete -H 'x-customer: ann' --json '{"prompt":"Say hello.","maxTokens":20}'
import express from 'express'
import { calendarWindow, concurrency, gcra, MemoryStore, RateLimiter, RedisStore, tiers } from 'tollgate'
import { rateLimitHeaders } from 'tollgate/headers'
import { model } from './simulated-model.mjs'

const perMinute = (limit) => gcra({ limit, period: '1m', meter: 'tokens' })
const perMonth = (limit) => calendarWindow({ limit, every: 'month', meter: 'tokens' })
const atOnce = (limit) => concurrency({ limit, ttl: '30s', meter: 'answers', defaultCost: 1 })
const policies = {
  requests: gcra({ limit: 60, period: '1m' }),
  minute: tiers({ free: perMinute(2_000), pro: perMinute(200_000) }),
  month: tiers({ free: perMonth(10_000), pro: perMonth(5_000_000) }),
  answers: tiers({ free: atOnce(10), pro: atOnce(100) }),
}
const { REDIS_URL, PORT = 3000 } = process.env
const store = REDIS_URL ? new RedisStore(REDIS_URL) : new MemoryStore()
const limiter = new RateLimiter(policies, { store, prefix: 'gateway' })
const PART = 200 // The tokens of an answer that are reserved at a time.
/** Your authentication: the customer and the plan. */
const callerOf = (req) => [req.get('x-customer') ?? 'nobody', req.get('x-plan') === 'pro' ? 'pro' : 'free']

const app = express().use(express.json())
app.post('/complete', async (req, res) => {
  const { prompt, maxTokens = 500 } = req.body ?? {}
  if (typeof prompt !== 'string' || !(Number.isInteger(maxTokens) && maxTokens > 0)) return res.sendStatus(400)
  const [customer, tier] = callerOf(req)
  let used = prompt.split(' ').length // Use the tokenizer of your model.
  const permit = await limiter.acquire(customer, { tier, cost: { tokens: used + Math.min(maxTokens, PART) } })
  if (!permit.allowed) {
    const status = permit.decision.retryAfterMs === null ? 413 : 429 // 413: it can never fit.
    return res.set(rateLimitHeaders(limiter, permit.decision, { tier })).sendStatus(status)
  }
  const hungUp = new AbortController()
  res.on('close', () => hungUp.abort())
  try {
    for await (const token of model(prompt, maxTokens, AbortSignal.any([permit.signal, hungUp.signal]))) {
      if (used === permit.units.tokens && !(await permit.extend({ tokens: PART })).extended) break
      used++
      res.write(token)
    }
  } catch {
    if (!hungUp.signal.aborted) used = 0 // The model failed. Customers who disconnect pay for their tokens.
    res.headersSent ? res.destroy() : res.sendStatus(502)
  }
  await permit.commit({ tokens: used }).catch(({ code }) => console.error(`charged as reserved: ${code}`))
  res.end()
})
app.get('/usage', async (req, res) => {
  const [customer, tier] = callerOf(req)
  const { at, policies } = await limiter.peek(customer, { tier, cost: { tokens: 0 } })
  const usageOf = ({ used, remaining, resetAfterMs }) => ({ used, remaining, resetAt: new Date(at + resetAfterMs) })
  res.json({ minute: usageOf(policies.minute), month: usageOf(policies.month) })
})
// Without a decision there is no answer: the provider bills without our limits.
app.use((error, _req, res, _next) => res.sendStatus(error.code === 'INVALID_KEY' ? 400 : (error.status ?? 503)))
const server = app.listen(PORT, () => console.log(`http://localhost:${server.address().port}`))
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => server.close(() => limiter.close().then(() => process.exit())))
