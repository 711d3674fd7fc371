/** Several middlewares of one limiter on one request: the warning, and the stored decision. */
import 'reflect-metadata'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { Controller, Get, Module, Req, UseGuards } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { type Decision, fixedWindow, RateLimiter } from '../../ts/index.js'
import { rateLimit as forExpress } from '../../ts/middleware/express.js'
import plugin, { rateLimit as forFastify } from '../../ts/middleware/fastify.js'
import { withRateLimit } from '../../ts/middleware/fetch.js'
import { rateLimit as forHono } from '../../ts/middleware/hono.js'
import { rateLimit as forKoa } from '../../ts/middleware/koa.js'
import { RateLimitGuard, RateLimitModule } from '../../ts/middleware/nest.js'
import { warningsOf } from './warnings.js'

const limiterOf = (limit = 100, prefix?: string) => {
  return new RateLimiter(fixedWindow({ limit, window: '1h' }), prefix === undefined ? {} : { prefix })
}

/** The options of two middlewares on one route. */
type Pair = readonly [first: object, second: object]

interface RunningApp {
  readonly url: string
  close(): Promise<unknown>
}

/** Apps with two middlewares, whose route answers with the status of the stored decision. */
const APPS: readonly (readonly [string, (pair: Pair) => Promise<RunningApp>])[] = [
  [
    'Express',
    async ([first, second]) => {
      const app = express().use(forExpress(first as never))
      app.get('/', forExpress(second as never), ({ rateLimit }, response) => void response.send(textOf(rateLimit)))
      return listening(createServer(app))
    },
  ],
  [
    'Fastify',
    async ([first, second]) => {
      const app = fastify()
      await app.register(plugin, first as never)
      app.get('/', { onRequest: forFastify(second as never) }, async ({ rateLimit }) => textOf(rateLimit))
      await app.listen({ port: 0, host: '127.0.0.1' })
      return { url: urlOf(app.server), close: () => app.close() }
    },
  ],
  [
    'Koa',
    async ([first, second]) => {
      const app = new Koa().use(forKoa(first as never)).use(forKoa(second as never))
      app.use((context) => {
        context.body = textOf(context.state.rateLimit)
      })
      return listening(createServer(app.callback()))
    },
  ],
  [
    'Hono',
    async ([first, second]) => {
      const app = new Hono().use(forHono(first as never))
      app.get('/', forHono(second as never), (context) => context.text(textOf(context.get('rateLimit'))))
      return listening(createServer(getRequestListener(app.fetch)))
    },
  ],
  [
    'fetch',
    async ([first, second]) => {
      const inner = withRateLimit(async (request) => new Response(textOf(request.rateLimit)), second as never)
      const handler = withRateLimit(inner, first as never)
      return listening(createServer(getRequestListener((request) => handler(request))))
    },
  ],
  [
    'Nest',
    async ([first, second]) => {
      class Routes {
        get(request: { readonly rateLimit?: Decision }) {
          return textOf(request.rateLimit)
        }
      }
      // Guards run in the order of the module, the controller and the handler.
      class Second extends RateLimitGuard {}
      Controller()(Routes)
      const method = Object.getOwnPropertyDescriptor(Routes.prototype, 'get') as never
      Get()(Routes.prototype, 'get', method)
      Req()(Routes.prototype, 'get', 0)
      const own = new Second(second as never, { getAllAndOverride: () => undefined } as never)
      UseGuards(own)(Routes.prototype, 'get', method)
      class Root {}
      Module({ imports: [RateLimitModule.forRoot(first as never)], controllers: [Routes] })(Root)
      const app = await NestFactory.create(Root, { logger: false })
      await app.listen(0, '127.0.0.1')
      return { url: urlOf(app.getHttpServer()), close: () => app.close() }
    },
  ],
]

const textOf = (decision: Decision | undefined) => `${decision?.status} ${decision?.limit}`

async function listening(server: Server): Promise<RunningApp> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: urlOf(server), close: async () => void server.close() }
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const key = () => 'ann'

describe.each(APPS)('%s', (_, serve) => {
  let app: RunningApp

  /** The bodies of requests, and the codes of the warnings. */
  async function run(pair: Pair, requests = 1) {
    app = await serve(pair)
    const bodies: string[] = []
    const warnings = await warningsOf(async () => {
      for (let request = 0; request < requests; request++) {
        const response = await fetch(app.url, { headers: { connection: 'close' } })
        bodies.push(response.ok ? await response.text() : String(response.status))
      }
    })
    return { bodies, warnings }
  }

  afterEach(() => app.close())

  test('a limiter that counts a request twice causes one warning', async () => {
    const limiter = limiterOf()
    const { warnings } = await run(
      [
        { limiter, key },
        { limiter, key },
      ],
      3,
    )
    const message = expect.stringMatching(
      /^tollgate\/[a-z]+: one limiter counted a request twice, with the same key and/,
    )
    expect(warnings).toEqual([{ code: 'TOLLGATE_COUNTED_TWICE', message }])
    expect((await limiter.peek('ann')).remaining).toBe(94)
  })

  test('another key, another cost or another limiter causes none', async () => {
    const limiter = limiterOf()
    const pairs: readonly Pair[] = [
      [
        { limiter, key },
        { limiter, key: () => 'bob' },
      ],
      [
        { limiter, key },
        { limiter, key, cost: 4 },
      ],
      [
        { limiter, key },
        { limiter: limiterOf(), key },
      ],
    ]
    for (const pair of pairs) {
      expect((await run(pair, 2)).warnings).toEqual([])
      await app.close()
    }
    app = await serve(pairs[0] as Pair)
  })

  test('the last decision is stored', async () => {
    const pair = [
      { limiter: limiterOf(5), key },
      { limiter: limiterOf(9), key },
    ] as const
    expect((await run(pair)).bodies).toEqual(['allowed 9'])
  })

  // promise: refusal-stays
  test('a refusal is not hidden by a later decision that allows the request', async () => {
    const pair = [
      { limiter: limiterOf(1), key, observe: true },
      { limiter: limiterOf(2), key, observe: true },
    ] as const
    expect((await run(pair, 3)).bodies).toEqual(['allowed 2', 'refused 1', 'refused 2'])
  })
})

test('keys with parts are compared by their parts', async () => {
  const limiter = new RateLimiter({
    ip: fixedWindow({ limit: 9, window: '1h', per: 'ip' }),
    account: fixedWindow({ limit: 9, window: '1h', per: 'account' }),
  })
  const codesOf = async (...accounts: readonly [string, string]) => {
    const [first, second] = accounts.map((account) => ({ limiter, key: () => ({ ip: 'x', account }) }))
    const handler = withRateLimit(
      withRateLimit(async () => new Response(), second as never),
      first as never,
    )
    return (await warningsOf(() => handler(new Request('http://here/')))).map(({ code }) => code)
  }
  expect(await codesOf('ann', 'bob')).toEqual([])
  expect(await codesOf('ann', 'ann')).toEqual(['TOLLGATE_COUNTED_TWICE'])
})

test('in Nest the guard of the module and of a handler count a request twice', async () => {
  class Routes {
    get() {
      return 'ok'
    }
  }
  Controller()(Routes)
  const method = Object.getOwnPropertyDescriptor(Routes.prototype, 'get') as never
  Get()(Routes.prototype, 'get', method)
  UseGuards(RateLimitGuard)(Routes.prototype, 'get', method)
  class Root {}
  const limiter = limiterOf()
  const limits = RateLimitModule.forRoot({ limiter, key })
  Module({ imports: [limits], controllers: [Routes] })(Root)
  const app = await NestFactory.create(Root, { logger: false })
  await app.listen(0, '127.0.0.1')
  try {
    const warnings = await warningsOf(() => fetch(urlOf(app.getHttpServer())))
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_COUNTED_TWICE'])
    expect((await limiter.peek('ann')).remaining).toBe(98)
  } finally {
    await app.close()
  }
})
