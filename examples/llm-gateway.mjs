// A gateway to a language model: customers have limits of tokens per minute and per month. The
// number of tokens is known only after the answer. So the gateway reserves the first tokens, extends
// the reservation while it streams the answer, and commits the actual number.
// Run it:  node examples/llm-gateway.mjs
//   curl -N http://localhost:3000/complete -H 'x-customer: ann' --json '{"prompt":"Say hello.","maxTokens":20}'
//   curl http://localhost:3000/usage -H 'x-customer: ann'
//   REDIS_URL=redis://localhost node examples/llm-gateway.mjs    for any number of processes
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import { calendarWindow, gcra, MemoryStore, RateLimiter, RedisStore, TollgateError } from 'tollgate'

const { PORT = 3000, REDIS_URL } = process.env
const store = REDIS_URL ? new RedisStore(REDIS_URL) : new MemoryStore()

// Both limits are charged, or none. A refusal names the limit that refused.
const policies = {
  minute: gcra({ limit: 2_000, period: '1m' }),
  month: calendarWindow({ limit: 10_000, every: 'month', timeZone: 'UTC' }),
}
/** The tokens of an answer that are reserved at a time. */
const PART = 200

const tokens = new RateLimiter(policies, { store, prefix: 'tokens' })

const app = express()
app.use(express.json())

// Simulates your authentication: count by the authenticated customer.
const customerOf = (req) => req.get('x-customer') ?? 'nobody'

app.post('/complete', async (req, res) => {
  const { prompt, maxTokens = 500 } = req.body ?? {}
  if (typeof prompt !== 'string' || !Number.isInteger(maxTokens) || maxTokens < 1) {
    return res.status(400).json({ error: 'prompt is a text, maxTokens a whole number from 1' })
  }

  // Reserved units count as taken, so parallel answers cannot exceed the limits together. A short
  // answer should not need the units of a long one, so the rest is reserved during the answer.
  const prompted = countTokens(prompt)
  const first = prompted + Math.min(maxTokens, PART)
  const reservation = await tokens.reserve(customerOf(req), first, { ttl: '1m' })
  if (!reservation.allowed) {
    const { policy, limit, retryAfterMs } = reservation.decision
    // The request is above the limit at any time: waiting does not help.
    if (retryAfterMs === null) return res.status(413).json({ error: 'Too many tokens', policy, limit })
    res.set('Retry-After', String(Math.ceil(retryAfterMs / 1000)))
    return res.status(429).json({ error: 'No tokens left', policy })
  }

  // If the client disconnects, the model stops, too.
  const hungUp = new AbortController()
  res.on('close', () => hungUp.abort())
  let generated = 0
  try {
    for await (const token of model(prompt, maxTokens, hungUp.signal)) {
      if (prompted + generated === reservation.units) {
        // This also keeps the reservation open for another minute.
        const extension = await reservation.extend(Math.min(maxTokens - generated, PART))
        if (!extension.extended) {
          res.write(`[stopped: ${extension.reason}]`)
          break
        }
      }
      generated++
      res.write(token)
    }
  } catch (error) {
    // The gateway's failure costs the customer nothing. But a customer who disconnects pays for the
    // generated tokens: otherwise answers would be free for clients that leave just before the end.
    const isPaid = hungUp.signal.aborted && generated > 0
    await (isPaid ? reservation.commit(prompted + generated) : reservation.cancel()).catch(report)
    if (hungUp.signal.aborted) return
    // After a partial answer, only a broken connection can show that the answer is incomplete.
    if (res.headersSent) return res.destroy(error)
    return res.status(502).json({ error: 'The model failed' })
  }
  await reservation.commit(prompted + generated).catch(report)
  res.end()
})

// A reservation that cannot be settled stays charged in full. No request waits for this.
const report = ({ code }) => console.error(`a reservation was not settled: ${code}`)

app.get('/usage', async (req, res) => {
  const { policies } = await tokens.peek(customerOf(req), 0)
  res.json({ minute: policies.minute.remaining, month: policies.month.remaining })
})

// Without a decision there is no answer, because the provider bills without our limits. A body that
// is not JSON and a customer name that is no valid key are client errors; all others are server
// errors.
app.use((error, _req, res, _next) => {
  const isTheirs = TollgateError.is(error) ? error.code === 'INVALID_KEY' : error.status < 500
  res.status(isTheirs ? 400 : 503).json({ error: isTheirs ? 'Bad request' : 'Try again later' })
})

// Simulates a tokenizer, and the client of a model, which takes an AbortSignal.
const countTokens = (text) => text.split(/\s+/).filter(Boolean).length

async function* model(prompt, maxTokens, signal) {
  const words = prompt.split(/\s+/).filter(Boolean)
  for (let count = 0; count < maxTokens; count++) {
    await sleep(5, undefined, { signal })
    const word = words[count % words.length]
    // Simulates a failure.
    if (word === 'FAIL') throw new Error('the model failed')
    // It repeats itself until it is aborted.
    if (word === 'STOP') return
    yield `${word} `
  }
}

const server = app.listen(PORT, (error) => {
  if (error) throw error
  console.log(`http://localhost:${server.address().port}`)
})

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    // Answers in flight are completed and committed before the limiter is closed.
    server.close(async () => {
      await tokens.close()
      if (store instanceof RedisStore) await store.close()
    })
  })
}
