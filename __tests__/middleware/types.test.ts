/** What the types of the middlewares let through: `npm run check:types` is what runs these tests. */
import type { Request as ExpressRequest } from 'express'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Hono } from 'hono'
import type { Context as KoaContext } from 'koa'
import {
  type Decision,
  gcra,
  type RateLimiter as Limiter,
  type Policies,
  type Policy,
  RateLimiter,
} from '../../ts/index.js'
import { rateLimit as forExpress } from '../../ts/middleware/express.js'
import fastifyPlugin, { rateLimit as forFastify } from '../../ts/middleware/fastify.js'
import { type LimitedRequest, withRateLimit } from '../../ts/middleware/fetch.js'
import { rateLimit as forHono } from '../../ts/middleware/hono.js'
import { rateLimit as forKoa } from '../../ts/middleware/koa.js'
import { RateLimit as forHandler, RateLimitModule } from '../../ts/middleware/nest.js'
import type { NotAllowed } from '../../ts/middleware/shared/options.js'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

const holds = <T extends true>(_proof?: T) => expect(true).toBe(true)

const plain = new RateLimiter({ burst: gcra({ limit: 1, period: 1 }), daily: gcra({ limit: 1, period: 1 }) })
const parts = new RateLimiter(gcra({ limit: 1, period: 1, per: 'account' }))
const twoParts = new RateLimiter({
  ip: gcra({ limit: 1, period: 1, per: 'ip' }),
  account: gcra({ limit: 1, period: 1, per: 'account' }),
  all: gcra({ limit: 1, period: 1, per: 'global' }),
})
const global = new RateLimiter(gcra({ limit: 1, period: 1, per: 'global' }))
const policies: Policies = { a: gcra({ limit: 1, period: 1 }) }
const widened = new RateLimiter(policies)
const policy: Policy = gcra({ limit: 1, period: 1 })
const widenedOne = new RateLimiter(policy)

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

/** What a request may tell of its client. */
const address = (): string | undefined => undefined

test('the limiter alone says what its keys are: Express', () => {
  const never = () => {
    forExpress({ limiter: plain, key: ({ ip }) => ip ?? '' })
    forExpress({ limiter: plain, key: async () => 'ann' })
    // @ts-expect-error a request may have no address
    forExpress({ limiter: plain, key: ({ ip }) => ip })
    // @ts-expect-error nor may a promise bring none
    forExpress({ limiter: plain, key: async () => address() })
    // @ts-expect-error it has no parts
    forExpress({ limiter: plain, key: () => ({ account: 'ann' }) })
    // @ts-expect-error it is no text
    forExpress({ limiter: parts, key: () => 'ann' })
    // @ts-expect-error the part may be missing
    forExpress({ limiter: parts, key: ({ ip }) => ({ account: ip }) })
    forExpress({ limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error a part is missing
    forExpress({ limiter: twoParts, key: () => ({ ip: '1' }) })
    // @ts-expect-error sometimes
    forExpress({ limiter: twoParts, key: ({ ip }) => (ip ? { ip, account: 'ann' } : { account: 'ann' }) })
    forExpress({ limiter: global, key: () => ({}) })
    // @ts-expect-error all requests together have no key
    forExpress({ limiter: global, key: () => 'ann' })
    // @ts-expect-error nor one that says so
    forExpress({ limiter: global, key: () => ({ global: true }) })
    forExpress({ limiter: widened, key: () => 'ann' })
    forExpress({ limiter: widened, key: () => ({ account: 'ann' }) })
    forExpress({ limiter: widenedOne, key: () => ({ account: 'ann' }) })
    // @ts-expect-error whatever its policies, a key is something
    forExpress({ limiter: widened, key: address })
    // @ts-expect-error and its parts are texts
    forExpress({ limiter: widenedOne, key: () => ({ account: 5 }) })
  }
  expect(never).toBeInstanceOf(Function)
})

test('the limiter alone says what its keys are: a hook of Fastify', () => {
  const never = () => {
    forFastify({ limiter: plain, key: ({ ip }) => ip })
    // @ts-expect-error there may be none
    forFastify({ limiter: plain, key: address })
    // @ts-expect-error the part may be missing
    forFastify({ limiter: parts, key: () => ({ account: address() }) })
    forFastify({ limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error a part is missing
    forFastify({ limiter: twoParts, key: () => ({ ip: '1' }) })
    forFastify({ limiter: global, key: () => ({}) })
    // @ts-expect-error all requests together have no key
    forFastify({ limiter: global, key: () => 'ann' })
    forFastify({ limiter: widened, key: () => ({ account: 'ann' }) })
    // @ts-expect-error there may be none
    forFastify({ limiter: widened, key: address })
  }
  expect(never).toBeInstanceOf(Function)
})

test('the limiter alone says what its keys are: Koa', () => {
  const never = () => {
    forKoa({ limiter: plain, key: ({ ip }) => ip })
    // @ts-expect-error there may be none
    forKoa({ limiter: plain, key: address })
    // @ts-expect-error the part may be missing
    forKoa({ limiter: parts, key: () => ({ account: address() }) })
    forKoa({ limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error a part is missing
    forKoa({ limiter: twoParts, key: () => ({ ip: '1' }) })
    forKoa({ limiter: global, key: () => ({}) })
    // @ts-expect-error all requests together have no key
    forKoa({ limiter: global, key: () => 'ann' })
    forKoa({ limiter: widened, key: () => ({ account: 'ann' }) })
    // @ts-expect-error there may be none
    forKoa({ limiter: widened, key: address })
  }
  expect(never).toBeInstanceOf(Function)
})

test('the limiter alone says what its keys are: Hono', () => {
  const never = () => {
    forHono({ limiter: plain, key: (c) => c.req.header('x-user') ?? '' })
    // @ts-expect-error there may be no such field
    forHono({ limiter: plain, key: (c) => c.req.header('x-user') })
    // @ts-expect-error the part may be missing
    forHono({ limiter: parts, key: (c) => ({ account: c.req.header('x-user') }) })
    forHono({ limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error a part is missing
    forHono({ limiter: twoParts, key: () => ({ ip: '1' }) })
    forHono({ limiter: global, key: () => ({}) })
    // @ts-expect-error all requests together have no key
    forHono({ limiter: global, key: () => 'ann' })
    forHono({ limiter: widened, key: () => ({ account: 'ann' }) })
    // @ts-expect-error there may be none
    forHono({ limiter: widened, key: address })
  }
  expect(never).toBeInstanceOf(Function)
})

test('the limiter alone says what its keys are: Web handlers', () => {
  const never = (answer: () => Response) => {
    withRateLimit(answer, { limiter: plain, key: ({ headers }) => headers.get('x-user') ?? '' })
    // @ts-expect-error there may be no such field
    withRateLimit(answer, { limiter: plain, key: ({ headers }) => headers.get('x-user') })
    // @ts-expect-error the part may be missing
    withRateLimit(answer, { limiter: parts, key: () => ({ account: address() }) })
    withRateLimit(answer, { limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error a part is missing
    withRateLimit(answer, { limiter: twoParts, key: () => ({ ip: '1' }) })
    withRateLimit(answer, { limiter: global, key: () => ({}) })
    // @ts-expect-error all requests together have no key
    withRateLimit(answer, { limiter: global, key: () => 'ann' })
    withRateLimit(answer, { limiter: widened, key: () => ({ account: 'ann' }) })
    // @ts-expect-error there may be none
    withRateLimit(answer, { limiter: widened, key: address })
  }
  expect(never).toBeInstanceOf(Function)
})

test('the limiter alone says what its keys are: Nest', () => {
  const never = () => {
    RateLimitModule.forRoot({ limiter: plain, key: () => 'ann' })
    // @ts-expect-error there may be none
    RateLimitModule.forRoot({ limiter: plain, key: address })
    // @ts-expect-error the part may be missing
    RateLimitModule.forRoot({ limiter: parts, key: () => ({ account: address() }) })
    RateLimitModule.forRoot({ limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error a part is missing
    RateLimitModule.forRoot({ limiter: twoParts, key: () => ({ ip: '1' }) })
    RateLimitModule.forRoot({ limiter: global, key: () => ({}) })
    // @ts-expect-error all requests together have no key
    RateLimitModule.forRoot({ limiter: global, key: () => 'ann' })
    RateLimitModule.forRoot({ limiter: widened, key: () => ({ account: 'ann' }) })
    // @ts-expect-error there may be none
    RateLimitModule.forRoot({ limiter: widened, key: address })
    RateLimitModule.forRootAsync({ useFactory: async () => ({ limiter: plain, key: () => 'ann' }) })
    RateLimitModule.forRootAsync({ useFactory: () => ({ limiter: parts, key: () => ({ account: 'ann' }) }) })
    // @ts-expect-error there may be none
    RateLimitModule.forRootAsync({ useFactory: () => ({ limiter: plain, key: address }) })
    // @ts-expect-error nor may a promise bring none
    RateLimitModule.forRootAsync({ useFactory: async () => ({ limiter: plain, key: address }) })
    // @ts-expect-error the part has another name
    RateLimitModule.forRootAsync({ useFactory: async () => ({ limiter: parts, key: () => ({ user: 'ann' }) }) })
    forHandler(false)
    forHandler({ limiter: plain, key: () => 'ann' })
    forHandler({ limiter: plain })
    // Its key may be the module's.
    forHandler({ limiter: parts })
    // @ts-expect-error there may be none
    forHandler({ limiter: plain, key: address })
    // @ts-expect-error the part has another name
    forHandler({ limiter: parts, key: () => ({ user: 'ann' }) })
    // The limiter is the module's, so that its keys are not known.
    forHandler({ cost: 5, statusCode: 420 })
    forHandler({ key: () => 'ann' })
    forHandler({ key: () => ({ account: 'ann' }) })
    // @ts-expect-error whatever they are, there is one
    forHandler({ key: address })
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
    forExpress({
      limiter: plain,
      onInvalidInput: async (_error, request) => ({ key: request.ip ?? 'nobody', cost: 1 }),
    })
    forExpress({ limiter: plain, onInvalidInput: (error) => console.error(error) })
    forExpress({ limiter: parts, key: () => ({ account: 'ann' }), onInvalidInput: () => ({ key: { account: 'x' } }) })
    // @ts-expect-error a key is a text
    forExpress({ limiter: plain, onInvalidInput: () => ({ key: 5 }) })
    const key = () => ''
    forHono({
      limiter: plain,
      key,
      onInvalidInput: (_error, c) => (c.req.path === '/' ? undefined : c.text('no', 400)),
    })
    withRateLimit(async () => new Response(), { limiter: plain, key, onInvalidInput: () => ({ statusCode: 401 }) })
    forKoa({ limiter: plain, message: (ctx, { policy }) => `${ctx.path} ${policy}` })
    withRateLimit(async (_request, env: { readonly id: string }) => new Response(env.id), {
      limiter: plain,
      key: (_, env) => env.id,
      handler: (_request, _env, decision) => new Response(decision.policy, { status: 402 }),
    })
  }
  expect(never).toBeInstanceOf(Function)
})

test('a function of another kind is neither a message nor told of refusals', () => {
  const never = (told: { readonly error: string }) => {
    forExpress({ limiter: plain, message: { error: 'later', allowed: [1] } })
    forExpress({ limiter: plain, message: told })
    forExpress({ limiter: plain, message: [told] })
    forExpress({ limiter: plain, message: async (_request, _response, { policy }) => ({ policy }) })
    // @ts-expect-error a number is no message
    forExpress({ limiter: plain, message: () => 5 })
    // @ts-expect-error the limiter has another limit, too
    forExpress({ limiter: plain, message: (_request, _response, { policy }: NotAllowed<'burst'>) => policy })
    // @ts-expect-error the limiter has no such limit
    forExpress({ limiter: plain, onRefused: (_request, _response, _decision: NotAllowed<'other'>) => {} })
    withRateLimit((request: LimitedRequest<'other'>) => new Response(request.rateLimit?.policy), {
      // @ts-expect-error nor for a handler
      limiter: plain,
      key: () => 'ann',
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
  const never = (app: FastifyInstance) => {
    app.register(fastifyPlugin, { limiter: plain })
    app.register(fastifyPlugin, { limiter: parts, key: (request) => ({ account: request.hostname }) })
    app.register(fastifyPlugin, { limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    app.register(fastifyPlugin, { limiter: global, key: () => ({}) })
    app.register(fastifyPlugin, { limiter: widened, key: () => 'ann' })
    app.register(fastifyPlugin, { limiter: widened, key: () => ({ account: 'ann' }) })
    // @ts-expect-error its keys have parts
    app.register(fastifyPlugin, { limiter: parts })
    // @ts-expect-error there may be none
    app.register(fastifyPlugin, { limiter: plain, key: address })
    // @ts-expect-error it has no parts
    app.register(fastifyPlugin, { limiter: plain, key: () => ({ account: 'ann' }) })
    // @ts-expect-error it is no text
    app.register(fastifyPlugin, { limiter: parts, key: () => 'ann' })
    // @ts-expect-error the part may be missing
    app.register(fastifyPlugin, { limiter: parts, key: () => ({ account: address() }) })
    // Fastify gives a plugin's options one type, so the names of parts are compared for a hook alone.
    app.register(fastifyPlugin, { limiter: parts, key: () => ({ user: 'ann' }) })
    // @ts-expect-error the part has another name
    app.addHook('onRequest', forFastify({ limiter: parts, key: () => ({ user: 'ann' }) }))
  }
  expect(never).toBeInstanceOf(Function)
})
