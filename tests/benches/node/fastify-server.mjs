/**
 * A Fastify server with one plugin for all requests, in its own process, which `middleware.mjs`
 * starts.
 *
 * Arguments: the name of the plugin, and Redis's URL.
 */
import Fastify from 'fastify'
import { serve } from './serving.mjs'

/** As in `middleware-server.mjs`. */
const LIMIT = 8_000
const WINDOW_MS = 3_600_000

/** Registers the plugins by name. Each loads only its own packages. */
const PLUGINS = {
  'Fastify, no limiter': () => undefined,
  'Fastify, tollgate': (app) => tollgate(app),
  'Fastify, @fastify/rate-limit': (app) => peer(app),
  'Fastify, tollgate, Redis': (app, url) => tollgate(app, url),
  async 'Fastify, @fastify/rate-limit, ioredis'(app, url) {
    const { Redis } = await import('ioredis')
    await peer(app, { redis: new Redis(url) })
  },
}

const apiKeyOf = (request) => request.headers['x-api-key']

async function tollgate(app, url) {
  const { fixedWindow, RateLimiter } = await import('tollgate')
  const { default: fastifyRateLimit } = await import('tollgate/fastify')
  const policy = fixedWindow({ limit: LIMIT, window: WINDOW_MS })
  const limiter = new RateLimiter(policy, url === undefined ? {} : { store: url, prefix: 'fastify' })
  await limiter.ready()
  await app.register(fastifyRateLimit, { limiter, key: apiKeyOf })
}

async function peer(app, options = {}) {
  const { default: rateLimit } = await import('@fastify/rate-limit')
  const all = { max: LIMIT, timeWindow: WINDOW_MS, keyGenerator: apiKeyOf, cache: 20_000, enableDraftSpec: true }
  await app.register(rateLimit, { ...all, ...options })
}

const [name, url] = process.argv.slice(2)

const app = Fastify()
await PLUGINS[name](app, url)
app.get('/', async (_request, reply) => reply.type('text/plain').send('ok'))
await app.ready()
serve(app.server)
