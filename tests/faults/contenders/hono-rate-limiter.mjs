/**
 * hono-rate-limiter with its Redis store over @upstash/redis: https://honohub.dev/docs/rate-limiter/stores/redis.
 * harness/upstash-rest.mjs stands in for Upstash's service, in front of a real Redis.
 */
import { serve } from '@hono/node-server'
import { Redis } from '@upstash/redis'
import { Hono } from 'hono'
import { RedisStore, rateLimiter } from 'hono-rate-limiter'
import { KEY, ONE_PER_REQUEST, requesting } from '../harness/http.mjs'

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: 'hono-rate-limiter, `RedisStore`',
  packages: ['hono-rate-limiter', '@upstash/redis', 'hono'],
  unsupported: ONE_PER_REQUEST,
  isService: true,
  async open({ port, limit, windowMs }) {
    const redis = new Redis({ url: `http://127.0.0.1:${port}`, token: 'secret' })
    const app = new Hono()
    app.use(
      rateLimiter({
        windowMs,
        limit,
        keyGenerator: (context) => context.req.header(KEY),
        store: new RedisStore({ client: redis }),
      }),
    )
    app.get('/', (context) => context.text('ok'))
    app.onError((_, context) => context.text('failed', 500))
    const own = await new Promise((resolve) => serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }, resolve))
    return requesting(own.port)
  },
}
