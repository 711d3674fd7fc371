// A Web handler with the middlewares, for any runtime that has `Request` and `Response`.
import { Hono } from 'hono'
import { withRateLimit } from 'tollgate/fetch'
import { ipKey, rateLimit } from 'tollgate/hono'
import * as tollgate from 'tollgate/wasm'
import { answersOf } from './trace.mjs'

// Created before any request, when a Worker has few capabilities.
const limiterOf = (options) => new tollgate.RateLimiter(tollgate.gcra(options))
const hourly = limiterOf({ limit: 3, period: '1h' })
const soon = limiterOf({ limit: 10, period: '3s', burst: 1 })
const pacer = limiterOf({ limit: 20, period: '1s', burst: 1 })

const keyOf = (request) => request.headers.get('x-api-key') ?? 'nobody'
const respond = ({ rateLimit }) => Response.json({ remaining: rateLimit.remaining })

/** A store over HTTP, through the bridge that the first request names. */
let shared
const limitedByRedis = (request) => {
  if (shared === undefined) {
    const url = request.headers.get('x-bridge')
    const store = tollgate.RedisStore.from(async (command) => {
      const { result, error } = await (await fetch(url, { method: 'POST', body: JSON.stringify(command) })).json()
      if (error !== undefined) throw new Error(error)
      return result
    })
    const limiter = new tollgate.RateLimiter(tollgate.gcra({ limit: 5, period: '1h' }), { store, prefix: 'web' })
    shared = withRateLimit(respond, { limiter, key: keyOf })
  }
  return shared(request)
}

const hono = new Hono()
hono.use('/hono', rateLimit({ limiter: hourly, key: (c) => ipKey(c.req.header('x-address') ?? '') }))
hono.get('/hono', (c) => c.json({ remaining: c.get('rateLimit').remaining }))

const routes = {
  '/hono': (request) => hono.fetch(request),
  '/fetch': withRateLimit(respond, { limiter: hourly, key: keyOf }),
  '/soon': withRateLimit(respond, { limiter: soon, key: keyOf }),
  '/refunded': withRateLimit(() => new Response('broken', { status: 500 }), {
    limiter: hourly,
    key: keyOf,
    refundWhen: 'failed',
  }),
  '/observed': withRateLimit(() => new Response('ok'), { limiter: hourly, key: () => '', observe: true }),
  '/redis': limitedByRedis,
  '/wait': async () => {
    const waited = await Promise.all([1, 2, 3].map(() => pacer.wait('api.example.com')))
    return Response.json(waited.map(({ waitedMs }) => Math.round(waitedMs)))
  },
  '/trace': async () => Response.json(await answersOf(tollgate)),
}

export default {
  fetch(request) {
    const route = routes[new URL(request.url).pathname]
    return route === undefined ? new Response('not found', { status: 404 }) : route(request)
  },
}
