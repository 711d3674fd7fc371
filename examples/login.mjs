// A login protected against guessing: limits per address and per account in one decision. Failures
// cost more, successes nothing, and an address with too many failures is blocked. No answer shows
// whether an account exists.
// Run it:  node examples/login.mjs
//   curl -i http://localhost:3000/login --json '{"account":"ann@example.com","password":"correct horse"}'
//   REDIS_URL=redis://localhost node examples/login.mjs    for any number of processes
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import express from 'express'
import { MemoryStore, RateLimiter, RedisStore, slidingLog, TollgateError } from 'tollgate'
import { ipKey } from 'tollgate/express'

const { PORT = 3000, REDIS_URL } = process.env
const store = REDIS_URL ? new RedisStore(REDIS_URL) : new MemoryStore()

// The cost of a wrong password. Of attempts one after another, an account has 5 in any 15 minutes,
// and an address 10. Parallel attempts cost 1 until they fail, so there are never more than 15 and
// 30.
const FAILURE = 3

const policies = {
  ip: slidingLog({ limit: 10 * FAILURE, window: '15m', per: 'ip' }),
  account: slidingLog({ limit: 5 * FAILURE, window: '15m', per: 'account' }),
}

// No `onStoreFailure`: without Redis, logins fail (503). The alternative would allow password
// guessing during an outage.
const logins = new RateLimiter(policies, { store, prefix: 'logins' })

const app = express()
app.use(express.json({ limit: '2kb' }))

app.post('/login', async (req, res) => {
  const { account, password } = req.body ?? {}
  if (typeof account !== 'string' || typeof password !== 'string') {
    return res.status(400).json({ error: 'account and password are texts' })
  }
  // All spellings of an account share one key. An account that does not exist also has a key.
  // (Behind a proxy, set Express's 'trust proxy': otherwise all clients have its address.)
  const key = { ip: ipKey(req.ip), account: account.trim().toLowerCase() }

  // Take before checking the password, so that parallel guesses count, too.
  const decision = await logins.take(key)
  if (!decision.allowed) {
    res.set('Retry-After', String(Math.ceil((decision.retryAfterMs ?? 0) / 1000)))
    // This also refuses the right password, because a refusal must not confirm a guess.
    return res.status(429).json({ error: 'Too many attempts' })
  }

  if (await isRight(key.account, password)) {
    // Refund only this attempt. A `reset` of the address would let an attacker guess for ever, with
    // an occasional login to their own account.
    await logins.refund(decision)
    return res.json({ welcome: key.account })
  }

  await logins.penalize(key, FAILURE - 1)
  const { policies: left } = await logins.peek(key)
  if (left.ip.remaining < FAILURE) {
    // Block only the address. If accounts were blocked, an attacker could lock out any user, and
    // for longer than the minutes of the account's limit.
    await logins.block({ ip: key.ip }, '1h')
  }
  return res.status(401).json({ error: 'Wrong account or password' })
})

app.use((error, _req, res, _next) => {
  if (!TollgateError.is(error)) return res.status(error.status ?? 500).json({ error: 'Bad request' })
  // An account name that is no valid key is a client error; all others are server errors.
  return error.code === 'INVALID_KEY'
    ? res.status(400).json({ error: 'account is empty or too long' })
    : res.status(503).json({ error: 'Try again later' })
})

// Simulates your database.
const hash = promisify(scrypt)
const hashed = async (password, salt = randomBytes(16)) => ({ salt, digest: await hash(password, salt, 32) })
const accounts = new Map([['ann@example.com', await hashed('correct horse')]])
const nobody = await hashed(randomBytes(16))

async function isRight(account, password) {
  // An unknown account takes as long as any other, so response times show nothing.
  const { salt, digest } = accounts.get(account) ?? nobody
  return timingSafeEqual(await hash(password, salt, 32), digest) && accounts.has(account)
}

const server = app.listen(PORT, (error) => {
  if (error) throw error
  console.log(`http://localhost:${server.address().port}`)
})

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    server.close(async () => {
      await logins.close()
      if (store instanceof RedisStore) await store.close()
    })
  })
}
