// The server side of the demo: the app of examples/express.mjs, with the client's name as its key.
import { once } from 'node:events'
import { inspect } from 'node:util'
import { gcra, RateLimiter } from 'tollgate'
import { createApp } from '../express.mjs'

const options = { limit: 10, period: '1s', burst: 20 }
const policy = gcra(options)
const perSecond = (policy.limit * 1000) / policy.period

/** The limit and its law, for people. */
export const POLICY = `gcra(${inspect(options)})`
export const LAW = `at most ${policy.burst} + ${perSecond} per second`

/** The law in numbers: the most that one client can get in any span of so many seconds. */
export function bound(seconds) {
  return Math.floor(policy.burst + perSecond * seconds)
}

/**
 * Starts the app on a free port of this machine only.
 *
 * @param redis - Where its limiter keeps the counts: `{ store, prefix }`; in this process if not given.
 * @returns Its URL, and a function that ends it.
 */
export async function startServer(redis) {
  const limiter = new RateLimiter(policy, redis)
  // A real service would take the key from something proven, such as a session or an API key.
  const app = createApp(limiter, (req) => req.get('x-client') ?? req.ip)
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    async close() {
      server.close()
      // fetch keeps its connections open for a next request, which will not come.
      server.closeAllConnections()
      await once(server, 'close')
      await limiter.close()
    },
  }
}
