// app/rate-limit.server.ts
import { createContext, data, type MiddlewareFunction, type RouterContextProvider } from 'react-router'
import { fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'
import { ipKey, withRateLimit } from 'tollgate/fetch'

const store = new RedisStore({ url: process.env['REDIS_URL'] ?? 'redis://localhost:6379' })
const pages = new RateLimiter(gcra({ limit: 100, period: '1m', burst: 20 }), { store, prefix: 'pages' })
const logins = new RateLimiter(fixedWindow({ limit: 5, window: '1h' }), { store, prefix: 'logins' })

const refused = createContext(false)

function limitedBy(limiter: RateLimiter, countsReads = true): MiddlewareFunction<Response>[] {
  const limited = withRateLimit((_, __: Readonly<RouterContextProvider>, next: () => Promise<Response>) => next(), {
    limiter,
    // The address that the only proxy adds at the end.
    key: ({ headers }) => ipKey(headers.get('x-forwarded-for')?.split(',').at(-1)),
    skip: ({ method }) => !countsReads && ['GET', 'HEAD'].includes(method),
    handler: (_, context, next) => {
      context.set(refused, true)
      return next()
    },
  })
  return [
    ({ request, context }, next) => limited(request, context, next),
    // React Router renders this error as a page. The first middleware adds its headers to the page.
    ({ context }) => {
      if (context.get(refused)) {
        throw data('Too many requests', { status: 429, statusText: 'Too Many Requests' })
      }
    },
  ]
}

export const pageLimits = limitedBy(pages)
export const loginLimits = limitedBy(logins, false)
