/**
 * An Express server with one middleware for all requests, in its own process, which
 * `middleware.mjs` starts.
 *
 * Arguments: the name of the middleware, and Redis's URL.
 */
import express from 'express'
import { serve } from './serving.mjs'

/** As in `redis-contenders.mjs`: more units than all rounds take from any key. */
const LIMIT = 8_000
const WINDOW_MS = 3_600_000

/** The middlewares by name. Each loads only its own packages. */
const MIDDLEWARE = {
  'no limiter': () => undefined,
  'empty middleware': () => (_request, _response, next) => next(),
  tollgate: () => tollgate(),
  'tollgate, metrics': () => tollgate({ isMetered: true }),
  'express-rate-limit': () => peer(),
  'tollgate, by address': () => tollgate({ key: undefined }),
  'express-rate-limit, by address': () => peer({ keyGenerator: undefined }),
  'tollgate, Redis': (url) => tollgate({ url }),
  'tollgate, Redis, metrics': (url) => tollgate({ url, isMetered: true }),
  async 'rate-limit-redis, ioredis'(url) {
    const { Redis } = await import('ioredis')
    const client = new Redis(url)
    return peer({}, { prefix: 'ioredis:', sendCommand: (...words) => client.call(...words) })
  },
  async 'rate-limit-redis, node-redis'(url) {
    const { createClient } = await import('redis')
    const client = createClient({ url })
    await client.connect()
    return peer({}, { prefix: 'node-redis:', sendCommand: (...words) => client.sendCommand(words) })
  },
}

const apiKeyOf = (request) => request.headers['x-api-key']

async function tollgate({ url, isMetered = false, ...options } = {}) {
  const { fixedWindow, RateLimiter } = await import('tollgate')
  const { rateLimit } = await import('tollgate/express')
  const policy = fixedWindow({ limit: LIMIT, window: WINDOW_MS })
  const prefix = isMetered ? 'metered' : 'plain'
  const limiter = new RateLimiter(policy, url === undefined ? {} : { store: url, prefix })
  await limiter.ready()
  if (!isMetered) return rateLimit({ key: apiKeyOf, ...options, limiter })
  const { instrument } = await import('tollgate/metrics')
  return rateLimit({ key: apiKeyOf, ...options, limiter: instrument(limiter, { name: 'bench' }) })
}

/** Uses Redis if there are options for its store. */
async function peer(options = {}, store = undefined) {
  const { rateLimit } = await import('express-rate-limit')
  const all = {
    windowMs: WINDOW_MS,
    limit: LIMIT,
    standardHeaders: 'draft-8',
    legacyHeaders: false,
    keyGenerator: apiKeyOf,
    ...options,
  }
  if (store === undefined) return rateLimit(all)
  const { RedisStore } = await import('rate-limit-redis')
  return rateLimit({ ...all, store: new RedisStore(store) })
}

const [name, url] = process.argv.slice(2)

const app = express()
app.disable('x-powered-by')
app.disable('etag')
if (name.endsWith('by address')) {
  // The benchmark acts as a proxy that names the addresses of its clients.
  app.set('trust proxy', 1)
}
const middleware = await MIDDLEWARE[name](url)
if (middleware !== undefined) {
  app.use(middleware)
}
app.get('/', (_request, response) => {
  response.type('text/plain').send('ok')
})
serve(app)
