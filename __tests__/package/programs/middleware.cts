// A strict TypeScript program in CommonJS that uses all middlewares but Hono's.
import { gcra, MemoryStore, RateLimiter } from 'tollgate'
import { rateLimit as forExpress, ipKey } from 'tollgate/express'
import fastifyPlugin, { rateLimit as forFastify } from 'tollgate/fastify'
import { withRateLimit } from 'tollgate/fetch'
import { rateLimit as forKoa } from 'tollgate/koa'
import { RateLimitGuard, RateLimitModule } from 'tollgate/nest'

async function main(): Promise<void> {
  const store = new MemoryStore({ clock: () => 1_700_000_000_000 })
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1m' }), { store })
  const handler = withRateLimit(async () => new Response('ok'), { limiter, key: () => ipKey('::ffff:192.0.2.1') })

  const answers = [await handler(new Request('http://here/')), await handler(new Request('http://here/'))]
  const middlewares: readonly unknown[] = [
    forExpress({ limiter, key: (request) => request.get('x-user') ?? '' }),
    forFastify({ limiter, key: ({ hostname }) => hostname }),
    forKoa({ limiter, key: (context) => context.path }),
    fastifyPlugin,
    RateLimitGuard,
    RateLimitModule.forRoot({ limiter }).module,
    // @ts-expect-error the types are found: missing limiter
    () => [forExpress({}), forFastify({}), forKoa({})],
    // @ts-expect-error the address may be undefined, and the keys are strings
    () => forExpress({ limiter, key: ({ ip }) => ip }),
  ]

  console.log(
    JSON.stringify({
      statuses: answers.map(({ status }) => status),
      retryAfter: answers[1]?.headers.get('Retry-After'),
      functions: middlewares.every((middleware) => typeof middleware === 'function'),
    }),
  )
}

void main()
