/** What the types of the middlewares let through: `npm run check:types` is what runs these tests. */
import type { Request as ExpressRequest } from 'express'
import type { FastifyRequest } from 'fastify'
import { Hono } from 'hono'
import type { Context as KoaContext } from 'koa'
import { type Decision, gcra, type RateLimiter as Limiter, RateLimiter } from '../../ts/index.js'
import { rateLimit as forExpress } from '../../ts/middleware/express.js'
import type fastifyPlugin from '../../ts/middleware/fastify.js'
import { withRateLimit } from '../../ts/middleware/fetch.js'
import { rateLimit as forHono } from '../../ts/middleware/hono.js'
import { rateLimit as forKoa } from '../../ts/middleware/koa.js'
import type { NotAllowed } from '../../ts/middleware/options.js'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

const holds = <T extends true>(_proof?: T) => expect(true).toBe(true)

const plain = new RateLimiter({ burst: gcra({ limit: 1, period: 1 }), daily: gcra({ limit: 1, period: 1 }) })
const parts = new RateLimiter(gcra({ limit: 1, period: 1, per: 'account' }))

declare global {
  namespace Express {
    interface Request {
      quota?: Decision<'burst' | 'daily'>
    }
  }
}

test('the key has a default where the framework knows the address and keys are texts', () => {
  const never = () => {
    forExpress({ limiter: plain })
    forKoa({ limiter: plain })
    // @ts-expect-error its keys have parts
    forExpress({ limiter: parts })
    // @ts-expect-error its keys have parts
    forKoa({ limiter: parts })
    forExpress({ limiter: parts, key: ({ ip }) => ({ account: ip ?? '' }) })
    // @ts-expect-error the part has another name
    forExpress({ limiter: parts, key: () => ({ user: 'ann' }) })
    // @ts-expect-error Hono knows no address
    forHono({ limiter: plain })
    forHono({ limiter: plain, key: async (c) => c.req.header('x-user') ?? '' })
    // @ts-expect-error nor does a Request
    withRateLimit(async () => new Response(), { limiter: plain })
    // @ts-expect-error a key is a text
    forExpress({ limiter: plain, key: () => 5 })
    // @ts-expect-error a limiter that may have parts wants a key
    ;(limiter: Limiter<string | { readonly [part: string]: string }>) => forExpress({ limiter })
  }
  expect(never).toBeInstanceOf(Function)
})

test('functions see what their framework passes, and the names of the limits', () => {
  const never = () => {
    forExpress({
      limiter: plain,
      cost: (request) => request.body.length,
      onRefused: (_request, response, decision) => {
        holds<Equal<typeof decision, NotAllowed<'burst' | 'daily'>>>()
        response.locals = { policy: decision.policy }
      },
      refundWhen: (_request, _response, { status, aborted }) => aborted || status === 404,
      handler: (_request, response, _next, decision) => response.status(402).json({ policy: decision.policy }),
      onError: (_error, _request, _response, next) => next(),
      // @ts-expect-error there is no such form
      headers: 'draft-7',
    })
    forKoa({ limiter: plain, message: (ctx, { policy }) => `${ctx.path} ${policy}` })
    withRateLimit(async (_request, env: { readonly id: string }) => new Response(env.id), {
      limiter: plain,
      key: (_, env) => env.id,
      handler: (_request, _env, decision) => new Response(decision.policy, { status: 402 }),
    })
  }
  expect(never).toBeInstanceOf(Function)
})

test('requests have their decision', () => {
  const never = (express: ExpressRequest, fastify: FastifyRequest, koa: KoaContext) => {
    holds<Equal<typeof express.rateLimit, Decision | undefined>>()
    holds<Equal<typeof express.quota, Decision<'burst' | 'daily'> | undefined>>()
    holds<Equal<typeof fastify.rateLimit, Decision | undefined>>()
    holds<Equal<typeof koa.state.rateLimit, Decision | undefined>>()
    new Hono().use(forHono({ limiter: plain, key: () => 'ann' })).get('/', (c) => {
      const decision = c.get('rateLimit')
      holds<Equal<typeof decision, Decision<'burst' | 'daily'> | undefined>>()
      return c.text(decision?.policy ?? '')
    })
    new Hono().use(forHono({ limiter: plain, key: () => 'ann', requestProperty: 'quota' })).get('/', (c) => {
      const decision = c.get('quota')
      holds<Equal<typeof decision, Decision<'burst' | 'daily'> | undefined>>()
      return c.text('')
    })
    const options = { limiter: plain, key: () => 'ann', requestProperty: 'quota' } as const
    withRateLimit((request) => {
      holds<Equal<typeof request.quota, Decision<'burst' | 'daily'> | undefined>>()
      return new Response(request.quota?.policy)
    }, options)
  }
  expect(never).toBeInstanceOf(Function)
})

test('the plugin of Fastify takes limiters of any keys', () => {
  const never = (register: (plugin: typeof fastifyPlugin, options: Parameters<typeof fastifyPlugin>[1]) => void) => {
    const plugin = {} as typeof fastifyPlugin
    register(plugin, { limiter: plain })
    register(plugin, { limiter: parts, key: (request) => ({ account: request.hostname }) })
    // @ts-expect-error its keys have parts
    register(plugin, { limiter: parts })
  }
  expect(never).toBeInstanceOf(Function)
})
