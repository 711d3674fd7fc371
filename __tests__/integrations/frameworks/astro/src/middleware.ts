// src/middleware.ts
import { ActionError, getActionContext } from 'astro:actions'
import type { APIContext, MiddlewareHandler, MiddlewareNext } from 'astro'
import { fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'
import { ipKey, withRateLimit } from 'tollgate/fetch'

const store = new RedisStore({ url: process.env['REDIS_URL'] ?? 'redis://localhost:6379' })
const pages = new RateLimiter(gcra({ limit: 100, period: '1m', burst: 20 }), { store, prefix: 'pages' })
const actions = new RateLimiter(fixedWindow({ limit: 5, window: '1h' }), { store, prefix: 'actions' })

const limitedBy = (limiter: RateLimiter) =>
  withRateLimit((_, __: APIContext, next: MiddlewareNext) => next(), {
    limiter,
    key: (_, context) => ipKey(context.clientAddress),
    // The build renders some pages. For an error page, Astro calls the middleware a second time.
    skip: (request, context) => context.isPrerendered || 'rateLimit' in request,
    handler: (_, context, next) => {
      const { action, setActionResult, serializeActionResult } = getActionContext(context)
      const error = new ActionError({ code: 'TOO_MANY_REQUESTS' })
      if (action?.calledFrom === 'rpc') {
        return Response.json({ ...error, message: error.message }, { status: error.status })
      }
      if (action !== undefined) {
        // Without this result, Astro would run the refused action.
        setActionResult(action.name, serializeActionResult({ data: undefined, error }))
      }
      return next('/429')
    },
  })
const limitPages = limitedBy(pages)
const limitActions = limitedBy(actions)

export const onRequest: MiddlewareHandler = (context, next) => {
  const { action } = getActionContext(context)
  return (action === undefined ? limitPages : limitActions)(context.request, context, next)
}
