/** Invalid options, and combinations: several middlewares on one route, and the routes of Nest. */
import 'reflect-metadata'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Controller, Get, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { concurrency, fixedWindow, gcra, MemoryStore, RateLimiter } from '../../ts/index.js'
import { rateLimit as forExpress } from '../../ts/middleware/express.js'
import plugin, { rateLimit as forFastify } from '../../ts/middleware/fastify.js'
import { withRateLimit } from '../../ts/middleware/fetch.js'
import { rateLimit as forHono } from '../../ts/middleware/hono.js'
import { rateLimit as forKoa } from '../../ts/middleware/koa.js'
import { RateLimit, RateLimitModule } from '../../ts/middleware/nest.js'
import { FakeClock } from '../clock.js'

/** A store whose clock stands still. */
const store = () => new MemoryStore({ clock: new FakeClock().read })

const limiterOf = (limit = 10) => new RateLimiter(fixedWindow({ limit, window: '1h' }), { store: store() })
const limiter = limiterOf()
const key = () => 'ann'

const invalid = (...words: string[]) => {
  return expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringMatching(words.join('.*')) })
}

describe('an invalid option is an error immediately', () => {
  test.each<[string, object, string]>([
    ['unknown', { limit: 5 }, 'no option "limit"'],
    ['limiter', { limiter: { take: () => {} } }, 'must be a RateLimiter'],
    ['limiter', { limiter: undefined }, 'must be a RateLimiter'],
    ['limiter', { limiter: new RateLimiter(concurrency({ limit: 2 })) }, 'must have no concurrency policy'],
    ['key', { key: 'ip' }, 'must be a function'],
    ['cost', { cost: 0 }, 'whole number from 1'],
    ['cost', { cost: Number.NaN }, 'whole number from 1 .* got NaN'],
    ['cost', { cost: 1.5 }, 'whole number from 1'],
    ['skip', { skip: true }, 'must be a function'],
    ['handler', { handler: {} }, 'must be a function'],
    ['statusCode', { statusCode: 200 }, 'whole number from 400 to 599'],
    ['storeFailureStatusCode', { storeFailureStatusCode: 200 }, 'whole number from 400 to 599'],
    ['problemDetails', { problemDetails: 'yes' }, 'must be true or false'],
    ['hashLongKeys', { hashLongKeys: 'sha256' }, 'must be true or false'],
    ['message', { message: 5 }, 'must be a string, an object or a function'],
    [
      'message',
      { message: Promise.resolve('no') },
      'must be a string, an object or a function, got a Promise: await it',
    ],
    ['message', { message: new Map([['error', 'no']]) }, 'must be a string, an object or a function, got a Map'],
    ['message', { message: new Error('no') }, 'must be a string, an object or a function, got an Error'],
    ['headers', { headers: true }, "must be 'draft-11', 'draft-8', 'draft-6', 'legacy', an array of these, or false"],
    ['headers', { headers: [] }, 'must be .* got an array'],
    ['headers', { headers: ['draft-6', undefined] }, 'must be .* got undefined'],
    ['headers', { headers: ['draft-6', 'draft-7'] }, 'must be .* got "draft-7"'],
    ['headers', { headers: ['draft-6', 'draft-6'] }, 'must have each form only once'],
    ['headers', { headers: ['draft-8', 'draft-11'] }, "must not have both 'draft-8' and 'draft-11'"],
    ['requestProperty', { requestProperty: '' }, 'name of a property'],
    ['onRefused', { onRefused: 1 }, 'must be a function'],
    ['onError', { onError: 'allow' }, 'must be a function'],
    ['refundWhen', { refundWhen: 'always' }, "must be 'failed', 'successful' or a function"],
    ['observe', { observe: 'yes' }, 'must be true or false'],
  ])('%s: %p', async (_, option, rule) => {
    const options = { limiter, key, ...option } as never
    for (const make of [forExpress, forKoa, forHono, forFastify] as ((options: never) => unknown)[]) {
      expect(() => make(options)).toThrow(invalid('rateLimit', rule))
    }
    expect(() => withRateLimit(async () => new Response(), options)).toThrow(invalid('withRateLimit', rule))
    await expect(fastify().register(plugin, options)).rejects.toThrow(invalid('rateLimit', rule))
    await expect(appOf(RateLimitModule.forRoot(options))).rejects.toThrow(invalid('RateLimit', rule))
  })

  test.each([[{}], [[]], [new Date(0)], [Object.assign(new Error('no'), { code: 'NO' })]])('message: %p', (message) => {
    expect(() => forExpress({ limiter, message })).not.toThrow()
  })

  test('a Web handler is a function', () => {
    const rule = invalid('withRateLimit', 'takes a handler .* write withRateLimit\\(handler, { limiter, key }\\)')
    expect(() => withRateLimit({ limiter, key } as never, undefined as never)).toThrow(rule)
    expect(() => withRateLimit({ limiter, key } as never, (async () => new Response()) as never)).toThrow(rule)
  })

  test('a limiter whose keys have parts requires a key function', () => {
    const parts = new RateLimiter(gcra({ limit: 1, period: '1s', per: 'account' }))
    expect(() => forExpress({ limiter: parts } as never)).toThrow(invalid('key must be given'))
    expect(() => forExpress({ limiter: parts, key: () => ({ account: 'ann' }) })).not.toThrow()
  })
})

test('a limiter of keys with parts counts each part separately', async () => {
  const policies = {
    ip: fixedWindow({ limit: 5, window: '1h', per: 'ip' }),
    account: fixedWindow({ limit: 1, window: '1h', per: 'account' }),
  } as const
  const login = new RateLimiter(policies, { store: store() })
  const app = express().use(
    forExpress({ limiter: login, key: (request) => ({ ip: 'all', account: request.get('x-user') ?? '' }) }),
    (_request, response) => void response.send('ok'),
  )
  const answers = await responsesTo(app, [{ 'x-user': 'ann' }, { 'x-user': 'ann' }, { 'x-user': 'bob' }])
  expect(answers.map(({ status }) => status)).toEqual([200, 429, 200])
  expect(answers[2]?.headers.get('RateLimit')).toBe('"ip";r=3;t=3600, "account";r=0;t=3600')
})

test('middlewares on one route send the fields of all their limits', async () => {
  const global = new RateLimiter({ all: fixedWindow({ limit: 100, window: '1h' }) }, { store: store() })
  const route = new RateLimiter({ search: fixedWindow({ limit: 1, window: '1m' }) }, { store: store() })
  const app = express()
    .use(forExpress({ limiter: global }), forExpress({ limiter: route }))
    .use((_request, response) => void response.send('ok'))
  const [first, second] = (await responsesTo(app, [{}, {}])) as [Response, Response]
  expect(first.headers.get('RateLimit-Policy')).toBe('"all";q=100;w=3600, "search";q=1;w=60')
  expect(second.status).toBe(429)
  expect(second.headers.get('RateLimit')).toBe('"all";r=98;t=3600, "search";r=0;t=60')
})

test('their items are told apart by prefix, if the limits have no names', async () => {
  const limiterWith = (prefix: string) => {
    return new RateLimiter(fixedWindow({ limit: 2, window: '1h' }), { store: store(), prefix })
  }
  const search = limiterWith('search')
  await search.take('127.0.0.1')
  const app = express()
    .use(
      forExpress({ limiter: limiterWith('all'), headers: ['draft-6', 'draft-8'] }),
      forExpress({ limiter: search, cost: 2, problemDetails: true }),
    )
    .use((_request, response) => void response.send('ok'))
  const [response] = (await responsesTo(app, [{}])) as [Response]
  expect(response.headers.get('RateLimit-Policy')).toBe('"all";q=2;w=3600, "search";q=2;w=3600')
  expect(response.headers.get('RateLimit')).toBe('"all";r=1;t=3600, "search";r=1;t=3600')
  expect(response.headers.get('RateLimit-Remaining')).toBe('1')
  expect(await response.json()).toMatchObject({ 'violated-policies': ['search'] })
})

test('immutable responses are copied, with their status and body', async () => {
  const proxied = await fetch('data:text/plain,far')
  expect(() => proxied.headers.set('a', 'b')).toThrow()
  const handler = withRateLimit(async () => proxied, { limiter: limiterOf(), key })
  const response = await handler(new Request('http://here/'))
  expect([response.headers.get('RateLimit-Policy'), await response.text()]).toEqual(['"default";q=10;w=3600', 'far'])
  const app = new Hono().use(forHono({ limiter: limiterOf(), key }))
  app.get('/', () => Response.redirect('http://there/', 307))
  const redirect = await app.request('/')
  expect([redirect.status, redirect.headers.get('location')]).toEqual([307, 'http://there/'])
  expect(redirect.headers.get('RateLimit')).toBe('"default";r=9;t=3600')
})

test('a hook of Fastify limits one route, after its body was read', async () => {
  const app = fastify()
  const own = forFastify({ limiter: limiterOf(1), key: ({ body }) => (body as { account: string }).account })
  app.post('/login', { preHandler: own }, async () => 'in')
  const login = async (account: string) => {
    const { statusCode, body } = await app.inject({ method: 'POST', url: '/login', payload: { account } })
    return [statusCode, body]
  }
  expect(await login('ann')).toEqual([200, 'in'])
  expect(await login('ann')).toEqual([429, 'Too many requests, please try again later.'])
  expect(await login('bob')).toEqual([200, 'in'])
  await app.close()
})

test("in Nest decorators change a handler's options, or exempt it", async () => {
  class Routes {
    plain() {}
    dear() {}
    own() {}
    free() {}
  }
  const all = limiterOf(10)
  Controller()(Routes)
  for (const name of ['plain', 'dear', 'own', 'free'] as const) {
    Get(name)(Routes.prototype, name, Object.getOwnPropertyDescriptor(Routes.prototype, name) as never)
  }
  const decorate = (name: 'dear' | 'own' | 'free', decorator: ReturnType<typeof RateLimit>) => {
    decorator(Routes.prototype, name, Object.getOwnPropertyDescriptor(Routes.prototype, name) as never)
  }
  decorate('dear', RateLimit({ cost: 4 }))
  decorate('own', RateLimit({ limiter: limiterOf(1), statusCode: 420 }))
  decorate('free', RateLimit(false))
  class Root {}
  const limits = RateLimitModule.forRootAsync({ useFactory: async () => ({ limiter: all, key }) })
  Module({ imports: [limits], controllers: [Routes] })(Root)
  const app = await NestFactory.create(Root, { logger: false })
  await app.listen(0, '127.0.0.1')
  const { port } = app.getHttpServer().address() as AddressInfo
  const statusOf = async (path: string) => (await fetch(`http://127.0.0.1:${port}/${path}`)).status
  try {
    expect([await statusOf('plain'), await statusOf('dear'), await statusOf('dear')]).toEqual([200, 200, 200])
    expect((await all.peek('ann')).remaining).toBe(1)
    expect([await statusOf('own'), await statusOf('own')]).toEqual([200, 420])
    expect([await statusOf('free'), await statusOf('dear'), await statusOf('plain')]).toEqual([200, 429, 200])
  } finally {
    await app.close()
  }
})

async function appOf(limits: ReturnType<typeof RateLimitModule.forRoot>): Promise<void> {
  class Root {}
  Module({ imports: [limits] })(Root)
  const app = await NestFactory.create(Root, { logger: false, abortOnError: false })
  await app.init()
  await app.close()
}

/** Sends sequential requests. */
async function responsesTo(app: express.Express, all: readonly Record<string, string>[]): Promise<Response[]> {
  const server = createServer(app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const answers: Response[] = []
  for (const headers of all) {
    answers.push(await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { headers }))
  }
  server.closeAllConnections()
  server.close()
  return answers
}
