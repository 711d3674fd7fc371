// A login that cannot be guessed: limits per address and per account in one decision, failures cost more, successes
// nothing, and who fails too often is blocked. Nothing in an answer tells whether an account exists.
// Run it:  node examples/login.mjs
//   curl -i http://localhost:3000/login --json '{"account":"ann@example.com","password":"correct horse"}'
//   REDIS_URL=redis://localhost node examples/login.mjs    for any number of processes
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import express from 'express'
import { RateLimiter, RedisStore, slidingLog, TollgateError } from 'tollgate'
import { ipKey } from 'tollgate/express'

const { PORT = 3000, REDIS_URL } = process.env
const store = REDIS_URL ? new RedisStore(REDIS_URL) : undefined

// What a wrong password costs. One after another, an account has 5 of them in any 15 minutes, and an address 10. Those
// that are tried at once cost 1 until they are found wrong: so never more than 15 and 30.
const FAILURE = 3

const policies = {
  ip: slidingLog({ limit: 10 * FAILURE, window: '15m', per: 'ip' }),
  account: slidingLog({ limit: 5 * FAILURE, window: '15m', per: 'account' }),
}

// No `onStoreFailure`: without Redis nobody can log in (503). The other choice would let passwords be guessed.
const logins = new RateLimiter(policies, { store, prefix: 'logins' })

const app = express()
app.use(express.json({ limit: '2kb' }))

app.post('/login', async (req, res) => {
  const { account, password } = req.body ?? {}
  if (typeof account !== 'string' || typeof password !== 'string') {
    return res.status(400).json({ error: 'account and password are texts' })
  }
  // One account has one key, however it is written, and so has one that does not exist. (Behind a proxy, set Express's
  // 'trust proxy': else all clients have its address.)
  const key = { ip: ipKey(req.ip), account: account.trim().toLowerCase() }

  // Before the password is looked at, so that guesses made at once are counted, too.
  const decision = await logins.take(key)
  if (!decision.allowed) {
    res.set('Retry-After', String(Math.ceil((decision.retryAfterMs ?? 0) / 1000)))
    // The right password is refused as well: a guess must not be confirmed.
    return res.status(429).json({ error: 'Too many attempts' })
  }

  if (await isRight(key.account, password)) {
    // What this attempt took comes back, and no more. A `reset` of the address would let an attacker guess for ever,
    // with a login to an account of their own now and then.
    await logins.refund(decision)
    return res.json({ welcome: key.account })
  }

  await logins.penalize(key, FAILURE - 1)
  const { policies: left } = await logins.peek(key)
  if (left.ip.remaining < FAILURE) {
    // The address alone. Were accounts blocked, anybody could lock out whomever they like, and for longer than the
    // minutes that an account's limit takes.
    await logins.block({ ip: key.ip }, '1h')
  }
  return res.status(401).json({ error: 'Wrong account or password' })
})

app.use((error, _req, res, _next) => {
  if (!TollgateError.is(error)) return res.status(error.status ?? 500).json({ error: 'Bad request' })
  // An account's name that cannot be a key is the caller's mistake; anything else is ours.
  return error.code === 'INVALID_KEY'
    ? res.status(400).json({ error: 'account is empty or too long' })
    : res.status(503).json({ error: 'Try again later' })
})

// Stands for your database.
const hash = promisify(scrypt)
const hashed = async (password, salt = randomBytes(16)) => ({ salt, digest: await hash(password, salt, 32) })
const accounts = new Map([['ann@example.com', await hashed('correct horse')]])
const nobody = await hashed(randomBytes(16))

async function isRight(account, password) {
  // A name that nobody has takes as long as any other: whoever measures learns nothing.
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
      await store?.close()
    })
  })
}
