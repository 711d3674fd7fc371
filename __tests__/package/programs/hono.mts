// A strict TypeScript program in ECMAScript modules that limits a Hono application.
import { gcra, RateLimiter } from 'tollgate'
import { ipKey, rateLimit } from 'tollgate/hono'

const limiter = new RateLimiter(gcra({ limit: 1, period: '1m' }))

export const middlewares = [
  rateLimit({ limiter, key: (context) => ipKey(context.req.header('cf-connecting-ip') ?? '') }),
  // @ts-expect-error the types are found: Hono has no client address
  rateLimit({ limiter }),
]
