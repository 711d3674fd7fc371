// src/middleware.ts
import type { APIContext, MiddlewareHandler, MiddlewareNext } from 'astro'
import { getActionContext } from 'astro:actions'
import { fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'
import { ipKey, withRateLimit } from 'tollgate/fetch'

const store = new RedisStore({ url: process.env['REDIS_URL'] ?? 'redis://localhost:6379' })
const pages = new RateLimiter(gcra({ limit: 100, period: '1m', burst: 20 }), { store, prefix: 'pages' })
const logins = new RateLimiter(fixedWindow({ limit: 5, window: '1h' }), { store, prefix: 'logins' })

const options = {
  key: (_: Request, context: APIContext) => ipKey(context.clientAddress),
  // The build renders these pages, and no request reaches the middleware later.
  skip: (_: Request, context: APIContext) => context.isPrerendered,
  handler: (_: Request, __: APIContext, next: MiddlewareNext) => next('/429'),
}
const limitPages = withRateLimit((_, __: APIContext, next: MiddlewareNext) => next(), { ...options, limiter: pages })
const limitLogins = withRateLimit((_, __: APIContext, next: MiddlewareNext) => next(), { ...options, limiter: logins })

export const onRequest: MiddlewareHandler = (context, next) => {
  const { action } = getActionContext(context)
  return (action?.name === 'login' ? limitLogins : limitPages)(context.request, context, next)
}
