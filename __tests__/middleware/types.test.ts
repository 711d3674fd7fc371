/** The types of the middlewares. These tests run through `npm run check:types`. */
import type { Request as ExpressRequest } from 'express'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Hono } from 'hono'
import type { Context as KoaContext } from 'koa'
import type { NotAllowed } from '../../ts/api/decision.js'
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
import { type Equal, holds } from '../type-proof.js'

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
const withParts: { readonly [name: string]: Policy & { readonly per: string } } = {
  a: gcra({ limit: 1, period: 1, per: 'account' }),
}
const widenedParts = new RateLimiter(withParts)
const policy: Policy = gcra({ limit: 1, period: 1 })
const widenedOne = new RateLimiter(policy)

declare global {
  namespace Express {
    interface Request {
      quota?: Decision<'burst' | 'daily'>
    }
  }
}

test('the key has a default where the framework knows the address and keys are strings', () => {
  const never = () => {
    forExpress({ limiter: plain })
    forKoa({ limiter: plain })
    // @ts-expect-error its keys have parts
    forExpress({ limiter: parts })
    // @ts-expect-error its keys have parts
    forKoa({ limiter: parts })
    forExpress({ limiter: parts, key: ({ ip }) => ({ account: ip ?? '' }) })
    // @ts-expect-error wrong name of the part
    forExpress({ limiter: parts, key: () => ({ user: 'ann' }) })
    // @ts-expect-error Hono has no client address
    forHono({ limiter: plain })
    forHono({ limiter: plain, key: async (c) => c.req.header('x-user') ?? '' })
    // @ts-expect-error a Request has no address
    withRateLimit(async () => new Response(), { limiter: plain })
    // @ts-expect-error a key is a string
    forExpress({ limiter: plain, key: () => 5 })
    // @ts-expect-error the limiter's keys may have parts
    ;(limiter: Limiter<string | { readonly [part: string]: string }>) => forExpress({ limiter })
  }
  expect(never).toBeInstanceOf(Function)
})

/** The client's data in a request, which may be missing. */
const address = (): string | undefined => undefined

test('only the limiter determines the key type: Express', () => {
  const never = () => {
    forExpress({ limiter: plain, key: ({ ip }) => ip ?? '' })
    forExpress({ limiter: plain, key: async () => 'ann' })
    // @ts-expect-error a request may have no address
    forExpress({ limiter: plain, key: ({ ip }) => ip })
    // @ts-expect-error the promise may resolve to undefined
    forExpress({ limiter: plain, key: async () => address() })
    // @ts-expect-error the key has no parts
    forExpress({ limiter: plain, key: () => ({ account: 'ann' }) })
    // @ts-expect-error the key is not a string
    forExpress({ limiter: parts, key: () => 'ann' })
    // @ts-expect-error the part may be undefined
    forExpress({ limiter: parts, key: ({ ip }) => ({ account: ip }) })
    forExpress({ limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error missing part
    forExpress({ limiter: twoParts, key: () => ({ ip: '1' }) })
    // @ts-expect-error the part may be missing
    forExpress({ limiter: twoParts, key: ({ ip }) => (ip ? { ip, account: 'ann' } : { account: 'ann' }) })
    forExpress({ limiter: global, key: () => ({}) })
    // @ts-expect-error a global policy has no key
    forExpress({ limiter: global, key: () => 'ann' })
    // @ts-expect-error a global policy has no key, and no `global` part
    forExpress({ limiter: global, key: () => ({ global: true }) })
    forExpress({ limiter: widened, key: () => 'ann' })
    forExpress({ limiter: widenedParts, key: () => ({ account: 'ann' }) })
    forExpress({ limiter: widenedOne, key: () => 'ann' })
    // @ts-expect-error the key may be undefined
    forExpress({ limiter: widened, key: address })
    // @ts-expect-error the parts of a key are strings
    forExpress({ limiter: widenedOne, key: () => ({ account: 5 }) })
  }
  expect(never).toBeInstanceOf(Function)
})

test('only the limiter determines the key type: a hook of Fastify', () => {
  const never = () => {
    forFastify({ limiter: plain, key: ({ ip }) => ip })
    // @ts-expect-error the key may be undefined
    forFastify({ limiter: plain, key: address })
    // @ts-expect-error the part may be undefined
    forFastify({ limiter: parts, key: () => ({ account: address() }) })
    forFastify({ limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error missing part
    forFastify({ limiter: twoParts, key: () => ({ ip: '1' }) })
    forFastify({ limiter: global, key: () => ({}) })
    // @ts-expect-error a global policy has no key
    forFastify({ limiter: global, key: () => 'ann' })
    forFastify({ limiter: widenedParts, key: () => ({ account: 'ann' }) })
    // @ts-expect-error the key may be undefined
    forFastify({ limiter: widened, key: address })
  }
  expect(never).toBeInstanceOf(Function)
})

test('only the limiter determines the key type: Koa', () => {
  const never = () => {
    forKoa({ limiter: plain, key: ({ ip }) => ip })
    // @ts-expect-error the key may be undefined
    forKoa({ limiter: plain, key: address })
    // @ts-expect-error the part may be undefined
    forKoa({ limiter: parts, key: () => ({ account: address() }) })
    forKoa({ limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error missing part
    forKoa({ limiter: twoParts, key: () => ({ ip: '1' }) })
    forKoa({ limiter: global, key: () => ({}) })
    // @ts-expect-error a global policy has no key
    forKoa({ limiter: global, key: () => 'ann' })
    forKoa({ limiter: widenedParts, key: () => ({ account: 'ann' }) })
    // @ts-expect-error the key may be undefined
    forKoa({ limiter: widened, key: address })
  }
  expect(never).toBeInstanceOf(Function)
})

test('only the limiter determines the key type: Hono', () => {
  const never = () => {
    forHono({ limiter: plain, key: (c) => c.req.header('x-user') ?? '' })
    // @ts-expect-error the header may be missing
    forHono({ limiter: plain, key: (c) => c.req.header('x-user') })
    // @ts-expect-error the part may be undefined
    forHono({ limiter: parts, key: (c) => ({ account: c.req.header('x-user') }) })
    forHono({ limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error missing part
    forHono({ limiter: twoParts, key: () => ({ ip: '1' }) })
    forHono({ limiter: global, key: () => ({}) })
    // @ts-expect-error a global policy has no key
    forHono({ limiter: global, key: () => 'ann' })
    forHono({ limiter: widenedParts, key: () => ({ account: 'ann' }) })
    // @ts-expect-error the key may be undefined
    forHono({ limiter: widened, key: address })
  }
  expect(never).toBeInstanceOf(Function)
})

test('only the limiter determines the key type: Web handlers', () => {
  const never = (answer: () => Response) => {
    withRateLimit(answer, { limiter: plain, key: ({ headers }) => headers.get('x-user') ?? '' })
    // @ts-expect-error the header may be missing
    withRateLimit(answer, { limiter: plain, key: ({ headers }) => headers.get('x-user') })
    // @ts-expect-error the part may be undefined
    withRateLimit(answer, { limiter: parts, key: () => ({ account: address() }) })
    withRateLimit(answer, { limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error missing part
    withRateLimit(answer, { limiter: twoParts, key: () => ({ ip: '1' }) })
    withRateLimit(answer, { limiter: global, key: () => ({}) })
    // @ts-expect-error a global policy has no key
    withRateLimit(answer, { limiter: global, key: () => 'ann' })
    withRateLimit(answer, { limiter: widenedParts, key: () => ({ account: 'ann' }) })
    // @ts-expect-error the key may be undefined
    withRateLimit(answer, { limiter: widened, key: address })
  }
  expect(never).toBeInstanceOf(Function)
})

test("Nest's limiters, scope and contexts", () => {
  const never = () => {
    const limiters = { login: { limiter: plain }, account: { limiter: parts, key: () => ({ account: 'ann' }) } }
    RateLimitModule.forRoot({ limiter: plain, limiters })
    RateLimitModule.forRoot({ limiters })
    RateLimitModule.forRoot({ limiters, key: (context) => context.getClass().name, scope: 'handler' })
    RateLimitModule.forRoot({ limiter: parts, key: () => ({ account: 'ann' }), limiters: { a: { limiter: plain } } })
    RateLimitModule.forRoot({ limiters: { a: { limiter: parts, key: (context) => ({ account: context.getType() }) } } })
    RateLimitModule.forRootAsync({ useFactory: async () => ({ limiters: { a: { limiter: plain, cost: 2 } } }) })
    RateLimitModule.forRootAsync({ useFactory: () => ({ limiter: plain, limiters: { a: { limiter: parts } } }) })
    // @ts-expect-error no limiter at all
    RateLimitModule.forRoot({ key: () => 'ann' })
    // @ts-expect-error a limiter in place of its options
    RateLimitModule.forRoot({ limiters: { login: plain } })
    // @ts-expect-error a named limiter has its own limiter
    RateLimitModule.forRoot({ limiter: plain, limiters: { login: { cost: 2 } } })
    // @ts-expect-error wrong name of the part
    RateLimitModule.forRoot({ limiters: { account: { limiter: parts, key: () => ({ user: 'ann' }) } } })
    // @ts-expect-error the key may be undefined
    RateLimitModule.forRoot({ limiter: plain, limiters: { login: { limiter: plain, key: address } } })
    // @ts-expect-error unknown option
    RateLimitModule.forRoot({ limiters: { login: { limiter: plain, costs: 2 } } })
    // @ts-expect-error unknown scope
    RateLimitModule.forRoot({ limiter: plain, scope: 'route' })
    // @ts-expect-error the request is not a promise
    RateLimitModule.forRoot({ limiter: plain, requestOf: async () => ({}) })
    // @ts-expect-error the request is an object
    RateLimitModule.forRoot({ limiter: plain, requestOf: () => 'ann' })
    RateLimitModule.forRoot({ limiter: plain, requestOf: (context) => context.switchToWs().getClient<object>() })
    RateLimitModule.forRoot({ limiter: plain, responseOf: () => undefined })
    forHandler('login')
    forHandler('login', { cost: 5, scope: 'handler', key: () => ({ account: 'ann' }) })
    forHandler({ scope: 'limiter', requestOf: () => ({}) })
    // @ts-expect-error the name determines the limiter
    forHandler('login', { limiter: plain })
    // @ts-expect-error the module has the limiters
    forHandler({ limiters: { login: { limiter: plain } } })
    // @ts-expect-error a limiter in place of its name
    forHandler(plain)
    // @ts-expect-error unknown option
    forHandler('login', { costs: 5 })
    // @ts-expect-error false has no name
    forHandler('login', false)
  }
  expect(never).toBeInstanceOf(Function)
})

test('only the limiter determines the key type: Nest', () => {
  const never = () => {
    RateLimitModule.forRoot({ limiter: plain, key: () => 'ann' })
    // @ts-expect-error the key may be undefined
    RateLimitModule.forRoot({ limiter: plain, key: address })
    // @ts-expect-error the part may be undefined
    RateLimitModule.forRoot({ limiter: parts, key: () => ({ account: address() }) })
    RateLimitModule.forRoot({ limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    // @ts-expect-error missing part
    RateLimitModule.forRoot({ limiter: twoParts, key: () => ({ ip: '1' }) })
    RateLimitModule.forRoot({ limiter: global, key: () => ({}) })
    // @ts-expect-error a global policy has no key
    RateLimitModule.forRoot({ limiter: global, key: () => 'ann' })
    RateLimitModule.forRoot({ limiter: widenedParts, key: () => ({ account: 'ann' }) })
    // @ts-expect-error the key may be undefined
    RateLimitModule.forRoot({ limiter: widened, key: address })
    RateLimitModule.forRootAsync({ useFactory: async () => ({ limiter: plain, key: () => 'ann' }) })
    RateLimitModule.forRootAsync({ useFactory: () => ({ limiter: parts, key: () => ({ account: 'ann' }) }) })
    // @ts-expect-error the key may be undefined
    RateLimitModule.forRootAsync({ useFactory: () => ({ limiter: plain, key: address }) })
    // @ts-expect-error the promise may resolve to undefined
    RateLimitModule.forRootAsync({ useFactory: async () => ({ limiter: plain, key: address }) })
    // @ts-expect-error wrong name of the part
    RateLimitModule.forRootAsync({ useFactory: async () => ({ limiter: parts, key: () => ({ user: 'ann' }) }) })
    forHandler(false)
    forHandler({ limiter: plain, key: () => 'ann' })
    forHandler({ limiter: plain })
    // Its key may be that of the module.
    forHandler({ limiter: parts })
    // @ts-expect-error the key may be undefined
    forHandler({ limiter: plain, key: address })
    // @ts-expect-error wrong name of the part
    forHandler({ limiter: parts, key: () => ({ user: 'ann' }) })
    // The limiter belongs to the module, so its key type is unknown.
    forHandler({ cost: 5, statusCode: 420 })
    forHandler({ key: () => 'ann' })
    forHandler({ key: () => ({ account: 'ann' }) })
    // @ts-expect-error the key may be undefined
    forHandler({ key: address })
  }
  expect(never).toBeInstanceOf(Function)
})

test("option functions receive their framework's arguments, and the names of the limits", () => {
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
      // @ts-expect-error unknown header format
      headers: 'draft-7',
    })
    forExpress({
      limiter: plain,
      onInvalidInput: async (_error, request) => ({ key: request.ip ?? 'nobody', cost: 1 }),
    })
    forExpress({ limiter: plain, onInvalidInput: (error) => console.error(error) })
    forExpress({ limiter: parts, key: () => ({ account: 'ann' }), onInvalidInput: () => ({ key: { account: 'x' } }) })
    // @ts-expect-error a key is a string
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

test('a function of the wrong type is neither a message nor an onRefused', () => {
  const never = (body: { readonly error: string }) => {
    forExpress({ limiter: plain, message: { error: 'later', allowed: [1] } })
    forExpress({ limiter: plain, message: body })
    forExpress({ limiter: plain, message: [body] })
    forExpress({ limiter: plain, message: async (_request, _response, { policy }) => ({ policy }) })
    // @ts-expect-error a number is not a message
    forExpress({ limiter: plain, message: () => 5 })
    // @ts-expect-error the decision may be about another limit
    forExpress({ limiter: plain, message: (_request, _response, { policy }: NotAllowed<'burst'>) => policy })
    // @ts-expect-error unknown limit
    forExpress({ limiter: plain, onRefused: (_request, _response, _decision: NotAllowed<'other'>) => {} })
    withRateLimit((request: LimitedRequest<'other'>) => new Response(request.rateLimit?.policy), {
      // @ts-expect-error the handler's decision has an unknown limit
      limiter: plain,
      key: () => 'ann',
    })
  }
  expect(never).toBeInstanceOf(Function)
})

test('requests have a typed decision', () => {
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

test('the plugin of Fastify accepts limiters of any keys', () => {
  const never = (app: FastifyInstance) => {
    app.register(fastifyPlugin, { limiter: plain })
    app.register(fastifyPlugin, { limiter: parts, key: (request) => ({ account: request.hostname }) })
    app.register(fastifyPlugin, { limiter: twoParts, key: () => ({ ip: '1', account: 'ann' }) })
    app.register(fastifyPlugin, { limiter: global, key: () => ({}) })
    app.register(fastifyPlugin, { limiter: widened, key: () => 'ann' })
    app.register(fastifyPlugin, { limiter: widenedParts, key: () => ({ account: 'ann' }) })
    // @ts-expect-error its keys have parts
    app.register(fastifyPlugin, { limiter: parts })
    // @ts-expect-error the key may be undefined
    app.register(fastifyPlugin, { limiter: plain, key: address })
    // @ts-expect-error the key has no parts
    app.register(fastifyPlugin, { limiter: plain, key: () => ({ account: 'ann' }) })
    // @ts-expect-error the key is not a string
    app.register(fastifyPlugin, { limiter: parts, key: () => 'ann' })
    // @ts-expect-error the part may be undefined
    app.register(fastifyPlugin, { limiter: parts, key: () => ({ account: address() }) })
    // Fastify has one type for a plugin's options, so only hooks compare the names of parts.
    app.register(fastifyPlugin, { limiter: parts, key: () => ({ user: 'ann' }) })
    // @ts-expect-error wrong name of the part
    app.addHook('onRequest', forFastify({ limiter: parts, key: () => ({ user: 'ann' }) }))
  }
  expect(never).toBeInstanceOf(Function)
})

test('the forms of the headers and the delay are known', () => {
  const never = () => {
    forExpress({ limiter: plain, headers: ['draft-6', 'draft-8'], delay: '500ms', problemDetails: true })
    forHono({ limiter: plain, key: () => 'ann', headers: 'draft-11', hashLongKeys: false })
    forKoa({ limiter: plain, delay: 1_500, storeFailureStatusCode: 429 })
    // @ts-expect-error there is no such form
    forExpress({ limiter: plain, headers: 'draft-7' })
    // @ts-expect-error there is no such form
    forExpress({ limiter: plain, headers: ['draft-6', false] })
    // @ts-expect-error no duration
    forExpress({ limiter: plain, delay: 'soon' })
  }
  expect(never).toBeInstanceOf(Function)
  holds<Equal<typeof plain.prefix, string | undefined>>()
})

test('a cost by meter has the meters of the limiter', () => {
  const metered = new RateLimiter({
    calls: gcra({ limit: 1, period: 1 }),
    tokens: gcra({ limit: 1, period: 1, meter: 'tokens' }),
  })
  const free = new RateLimiter(gcra({ limit: 1, period: 1, meter: 'tokens', defaultCost: 1 }))
  const never = (answer: () => Response) => {
    forExpress({ limiter: metered, cost: { tokens: 5 } })
    forExpress({ limiter: metered, cost: ({ body }) => ({ tokens: body.tokens, calls: 2 }) })
    forExpress({ limiter: metered, cost: async () => ({ tokens: 5 }) })
    forExpress({ limiter: free })
    forExpress({ limiter: free, cost: { tokens: 5 } })
    // @ts-expect-error the cost is missing
    forExpress({ limiter: metered })
    // @ts-expect-error a number
    forExpress({ limiter: metered, cost: 5 })
    // @ts-expect-error a number
    forExpress({ limiter: metered, cost: () => 5 })
    // @ts-expect-error tokens are missing
    forExpress({ limiter: metered, cost: { calls: 1 } })
    // @ts-expect-error no policy has a meter
    forExpress({ limiter: plain, cost: { tokens: 5 } })
    forKoa({ limiter: metered, cost: { tokens: 5 } })
    // @ts-expect-error the cost is missing
    forKoa({ limiter: metered })
    forFastify({ limiter: metered, cost: { tokens: 5 } })
    // @ts-expect-error a number
    forFastify({ limiter: metered, cost: 5 })
    forHono({ limiter: metered, key: () => 'ann', cost: (c) => ({ tokens: c.req.path.length }) })
    // @ts-expect-error the cost is missing
    forHono({ limiter: metered, key: () => 'ann' })
    withRateLimit(answer, { limiter: metered, key: () => 'ann', cost: { tokens: 5 } })
    // @ts-expect-error a number
    withRateLimit(answer, { limiter: metered, key: () => 'ann', cost: 5 })
    RateLimitModule.forRoot({ limiter: metered, cost: { tokens: 5 } })
    // @ts-expect-error the cost is missing
    RateLimitModule.forRoot({ limiter: metered })
    RateLimitModule.forRoot({ limiters: { metered: { limiter: metered, cost: { tokens: 5 } } } })
    forHandler({ cost: { tokens: 5 } })
    forHandler({ limiter: metered, cost: { tokens: 5 } })
  }
  expect(never).toBeInstanceOf(Function)
})
