/** Nest's guard on GraphQL resolvers, by Apollo over Express. */
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo'
import { Controller, type ExecutionContext, Get } from '@nestjs/common'
import { Context, GqlExecutionContext, GraphQLModule, Query, Resolver } from '@nestjs/graphql'
import type { Response as ExpressResponse, Request } from 'express'
import { type Decision, TollgateError } from '../../ts/index.js'
import { RateLimit, RateLimitModule } from '../../ts/middleware/nest.js'
import { until } from '../servers/until.js'
import { decorate, limiterOf, waitingLimiter, withApp } from './nest-apps.js'
import { warningsOf } from './warnings.js'

interface GqlContext {
  readonly req: Request & { readonly rateLimit?: Decision }
  readonly res: ExpressResponse
}

interface Answer {
  readonly data: Readonly<Record<string, unknown>> | null
  readonly errors?: readonly { readonly message: string; readonly extensions: Readonly<Record<string, unknown>> }[]
}

const contextOf = (context: ExecutionContext) => GqlExecutionContext.create(context).getContext<GqlContext>()
const requestOf = (context: ExecutionContext) => contextOf(context).req
const responseOf = (context: ExecutionContext) => contextOf(context).res

const TYPES = 'type Query { hello: String, free: String, dear: String }'

/** Runs a test with an app of resolvers, and an HTTP route. */
async function withResolvers(
  options: object,
  test: (query: (text: string) => Promise<Answer & { readonly headers: Headers }>, url: string) => Promise<unknown>,
): Promise<void> {
  class Hello {
    hello({ req }: GqlContext) {
      return `${req.rateLimit?.status} ${req.rateLimit?.remaining}`
    }
    free() {
      return 'free'
    }
    dear() {
      return 'dear'
    }
  }
  Resolver()(Hello)
  decorate(Hello, 'hello', Query('hello'))
  Context()(Hello.prototype, 'hello', 0)
  decorate(Hello, 'free', Query('free'), RateLimit(false))
  decorate(Hello, 'dear', Query('dear'), RateLimit({ cost: 5 }))
  class Routes {
    get() {
      return 'plain'
    }
  }
  Controller()(Routes)
  decorate(Routes, 'get', Get())
  const graphql = GraphQLModule.forRoot<ApolloDriverConfig>({
    driver: ApolloDriver,
    typeDefs: TYPES,
    path: '/graphql',
    playground: false,
    introspection: false,
    context: ({ req, res }: GqlContext) => ({ req, res }),
  })
  const limits = RateLimitModule.forRoot(options as never)
  await withApp({ imports: [graphql, limits], providers: [Hello], controllers: [Routes] }, async (url) => {
    const query = async (text: string) => {
      const response = await fetch(`${url}/graphql`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ query: text }),
      })
      return { ...((await response.json()) as Answer), headers: response.headers }
    }
    await test(query, url)
  })
}

test('resolvers share the limit of the address with HTTP routes; a refusal is a GraphQL error', async () => {
  const limiter = limiterOf(3)
  await withResolvers({ limiter, requestOf }, async (query, url) => {
    expect(await query('{ hello }')).toMatchObject({ data: { hello: 'allowed 2' } })
    expect((await fetch(url)).headers.get('RateLimit')).toBe('"default";r=1;t=3600')
    const last = await query('{ hello }')
    expect(last.data).toEqual({ hello: 'allowed-last 0' })
    expect(last.headers.get('RateLimit')).toBeNull()
    const refused = await query('{ hello free }')
    expect(refused.data).toEqual({ hello: null, free: 'free' })
    expect(refused.errors).toMatchObject([
      {
        message: 'Too many requests, please try again later.',
        extensions: { code: 'TOO_MANY_REQUESTS', status: 429, retryAfterMs: expect.any(Number) },
      },
    ])
    expect((await fetch(url)).status).toBe(429)
    expect((await limiter.peek('127.0.0.1')).remaining).toBe(0)
  })
})

test('each resolver of an operation is counted, without a warning', async () => {
  const limiter = limiterOf(100)
  const warnings = await warningsOf(() =>
    withResolvers({ limiter, requestOf }, async (query) => {
      expect((await query('{ a: hello b: hello dear }')).errors).toBeUndefined()
      expect((await limiter.peek('127.0.0.1')).remaining).toBe(93)
    }),
  )
  expect(warnings.filter(({ code }) => code.startsWith('TOLLGATE'))).toEqual([])
})

test('with responseOf the response has the headers', async () => {
  await withResolvers({ limiter: limiterOf(1), requestOf, responseOf }, async (query) => {
    expect((await query('{ hello }')).headers.get('RateLimit')).toBe('"default";r=0;t=3600')
    const { headers } = await query('{ hello }')
    expect([headers.get('RateLimit'), headers.get('Retry-After')]).toEqual(['"default";r=0;t=3600', '3600'])
  })
})

test('a message of an object is the response of the exception', async () => {
  const message = { statusCode: 429, message: 'slow down', hint: 'later' }
  await withResolvers({ limiter: limiterOf(1), requestOf, message }, async (query) => {
    await query('{ hello }')
    expect((await query('{ hello }')).errors).toMatchObject([
      { message: 'slow down', extensions: { status: 429, originalError: message } },
    ])
  })
})

test.each([
  ['neither requestOf nor skip', {}, /requestOf is missing for a graphql context.*skip or @RateLimit\(false\)/],
  [
    'no request',
    { requestOf: () => undefined },
    /requestOf must return the request of a graphql context, got undefined/,
  ],
  ['a promise', { requestOf: async () => ({}) }, /requestOf must return the request of a graphql context/],
  ['another response', { requestOf, responseOf: () => ({}) }, /responseOf must return a response of Express/],
  ['refundWhen', { requestOf, refundWhen: 'failed' }, /refundWhen cannot be given for a graphql context/],
])('an error of the program: %s', async (_name, options, rule) => {
  const limiter = limiterOf(100)
  await withResolvers({ limiter, ...options, key: () => 'ann' }, async (query) => {
    const { errors } = await query('{ hello }')
    expect(errors?.map(({ message }) => message)).toEqual([expect.stringMatching(rule)])
    expect((await limiter.peek('ann')).remaining).toBe(100)
  })
})

test('contexts are exempted with skip, and onError receives the error', async () => {
  const skip = (context: ExecutionContext) => context.getType() !== 'http'
  await withResolvers({ limiter: limiterOf(1), skip }, async (query) => {
    expect((await query('{ hello }')).data).toEqual({ hello: 'undefined undefined' })
  })
  const codes: unknown[] = []
  const onError = (error: { readonly code: string }) => codes.push(error.code) > 0
  await withResolvers({ limiter: limiterOf(1), onError }, async (query) => {
    expect((await query('{ hello }')).data).toEqual({ hello: 'undefined undefined' })
  })
  expect(codes).toEqual(['INVALID_OPTION'])
})

test('a failed limiter is reported with status 503, and a bad request with 400', async () => {
  const down = {
    policies: {},
    refund: async () => 0,
    take: () => Promise.reject(new TollgateError('STORE_UNAVAILABLE', 'no store')),
  }
  const codesFor = async (options: object) => {
    let found: unknown[] = []
    await withResolvers({ requestOf, ...options }, async (query) => {
      found = ((await query('{ hello }')).errors ?? []).map(({ extensions: { code, status } }) => [code, status])
    })
    return found
  }
  expect(await codesFor({ limiter: down })).toEqual([['SERVICE_UNAVAILABLE', 503]])
  expect(await codesFor({ limiter: limiterOf(), cost: 1_000 })).toEqual([['PAYLOAD_TOO_LARGE', 413]])
  const warnings = await warningsOf(async () => {
    expect(await codesFor({ limiter: limiterOf(), requestOf: () => ({}) })).toEqual([['BAD_REQUEST', 400]])
  })
  expect(warnings[0]?.message).toMatch(/the request of a graphql context has no ip: give key/)
})

test.each([
  ['by its request', {}],
  ['by its response', { responseOf }],
])('a delayed operation gives up its turn when its client disconnects: %s', async (_name, options) => {
  const limiter = waitingLimiter()
  const resetAfterMs = async () => (await limiter.peek('ann')).resetAfterMs
  await withResolvers({ limiter, requestOf, delay: '1m', key: () => 'ann', ...options }, async (query, url) => {
    expect((await query('{ hello }')).data).toEqual({ hello: 'allowed-last 0' })
    const controller = new AbortController()
    const { signal } = controller
    const text = encodeURIComponent('{ hello }')
    const headers = { 'apollo-require-preflight': 'true' }
    const aborted = fetch(`${url}/graphql?query=${text}`, { headers, signal }).catch((error: Error) => error.name)
    await until('the operation waits', async () => ((await resetAfterMs()) > 10_000 ? true : undefined))
    controller.abort()
    expect(await aborted).toBe('AbortError')
    await until('its slot is cancelled', async () => ((await resetAfterMs()) === 10_000 ? true : undefined))
  })
})
