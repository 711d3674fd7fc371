// The server side of the demo: the app of examples/express.mjs, with the client's name as its key.
import { once } from 'node:events'
import { inspect } from 'node:util'
import express from 'express'
import { gcra, RateLimiter } from 'tollgate'
import { rateLimit } from 'tollgate/express'

const options = { limit: 10, period: '1s', burst: 20 }
const policy = gcra(options)
const perSecond = (policy.limit * 1000) / policy.period

/** The limit and its law, as text. */
export const POLICY = `gcra(${inspect(options)})`
export const LAW = `at most ${policy.burst} + ${perSecond} per second`

/** The law in numbers: the most units that a client can get in any span of `seconds`. */
export function bound(seconds) {
  return Math.floor(policy.burst + perSecond * seconds)
}

/** The app, behind a limiter. */
export function createApp(limiter) {
  const app = express()
  // A real service would take the key from verified data, such as a session or an API key.
  app.use(rateLimit({ limiter, key: (req) => req.get('x-client') ?? req.ip, message }))
  app.get('/', (_req, res) => res.json({ hello: 'world' }))
  return app
}

// The response to a refused client, in addition to the RateLimit and Retry-After headers.
function message(_req, _res, { retryAfterMs }) {
  return { error: 'Too many requests', retryAfterMs }
}

/**
 * Starts the app on a free port of the loopback interface.
 *
 * @param redis - `{ store, prefix }` for the limiter's counts; without it, this process keeps them.
 * @returns Its URL, and a function that stops it.
 */
export async function startServer(redis) {
  const limiter = new RateLimiter(policy, redis)
  const server = createApp(limiter).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    async close() {
      server.close()
      // fetch keeps its connections open for further requests, which will not come.
      server.closeAllConnections()
      await once(server, 'close')
      await limiter.close()
    },
  }
}
