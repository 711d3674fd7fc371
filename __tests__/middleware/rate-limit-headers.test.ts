/** `rateLimitHeaders`: the same headers as the middleware's, for handlers without it. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import fastify from 'fastify'
import type { NotAllowed } from '../../ts/api/decision.js'
import { type HeaderForm, rateLimitHeaders } from '../../ts/headers/index.js'
import {
  concurrency,
  type Decision,
  fixedWindow,
  gcra,
  MemoryStore,
  RateLimiter,
  RedisStore,
  slidingLog,
  tiers,
} from '../../ts/index.js'
import { withRateLimit } from '../../ts/middleware/fetch.js'
import type { MiddlewareLimiter } from '../../ts/middleware/shared/options.js'
import * as wasm from '../../ts/wasm/index.js'
import { FakeClock } from '../clock.js'
import { anything, failureOf } from '../failure.js'

const FORMS: readonly (HeaderForm | readonly HeaderForm[])[] = [
  'draft-11',
  'draft-8',
  'draft-6',
  'legacy',
  ['draft-6', 'draft-8'],
  ['legacy', 'draft-11'],
]

const away = new RedisStore({ url: 'redis://127.0.0.1:9', commandTimeout: 50 })

afterAll(() => away.close())

const store = () => new MemoryStore({ clock: new FakeClock().read })

/** The limiter of a test, with the cost of its calls. */
interface Case {
  readonly limiter: MiddlewareLimiter
  readonly cost?: number
  readonly tier?: string
}

const several = { burst: gcra({ limit: 5, period: '1m' }), daily: fixedWindow({ limit: 50, window: '1d' }) }

const CASES: readonly (readonly [string, () => Promise<Case>])[] = [
  ['an allowed call', async () => ({ limiter: new RateLimiter(several, { store: store() }) })],
  ['a prefix', async () => ({ limiter: new RateLimiter(several.burst, { store: store(), prefix: 'api' }) })],
  [
    'a refusal',
    async () => {
      const limiter = new RateLimiter(several, { store: store() })
      await limiter.take('ann', 4)
      return { limiter, cost: 3 }
    },
  ],
  ['a cost that never fits', async () => ({ limiter: new RateLimiter(several, { store: store() }), cost: 6 })],
  [
    'a blocked key',
    async () => {
      const limiter = new RateLimiter(several, { store: store() })
      await limiter.block('ann', '1h')
      return { limiter }
    },
  ],
  [
    'an override',
    async () => {
      const limiter = new RateLimiter(several, { store: store() })
      await limiter.override('ann', { daily: { limit: 9 } }, { ttl: '1h' })
      return { limiter }
    },
  ],
  [
    'limits of one log',
    async () => {
      const limits = { second: { limit: 2, window: '1s' }, hour: { limit: 9, window: '1h' } } as const
      return { limiter: new RateLimiter({ log: slidingLog({ limits }) }, { store: store() }) }
    },
  ],
  [
    'a tier',
    async () => {
      const policies = tiers({ free: several.burst, pro: gcra({ limit: 9, period: '1m' }) })
      return { limiter: new RateLimiter(policies, { store: store() }) as unknown as MiddlewareLimiter, tier: 'pro' }
    },
  ],
  [
    'an update',
    async () => {
      const limiter = new RateLimiter(several, { store: store() })
      rateLimitHeaders(limiter, await limiter.peek('ann'))
      limiter.update({ ...several, burst: gcra({ limit: 7, period: '2m' }) })
      return { limiter }
    },
  ],
  ...(['allow', 'refuse'] as const).map((onStoreFailure) => {
    const remote = { store: away, prefix: 'headers', onStoreFailure } as const
    return [`${onStoreFailure} without a store`, async () => ({ limiter: new RateLimiter(several, remote) })] as const
  }),
]

const NAMES = /^(x-)?ratelimit|^retry-after$/

/** The headers in lower case, which a `Headers` object has. */
const lower = (headers: { readonly [name: string]: string }) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

describe.each(CASES)('for %s', (_, make) => {
  test.each(FORMS)('are those of the middleware: %p', async (headers) => {
    jest.spyOn(Date, 'now').mockReturnValue(1_700_000_000_000)
    const { limiter, cost = 1, tier } = await make()
    let decision: Decision | undefined
    const seen = (one: Decision | undefined, status: number) => {
      decision = one
      return new Response(null, { status })
    }
    const handler = withRateLimit((request) => seen(request.rateLimit, 200), {
      limiter,
      key: () => 'ann',
      cost,
      headers,
      handler: (_request, refusal: NotAllowed) => seen(refusal, 429),
      ...(tier !== undefined && { tier }),
    })
    const response = await handler(new Request('http://localhost/'))
    const written = Object.fromEntries([...response.headers].filter(([name]) => NAMES.test(name)))
    const options = { headers, ...(tier !== undefined && { tier }) }
    expect(lower(rateLimitHeaders(limiter, decision as Decision, options))).toEqual(written)
    await (limiter as RateLimiter).close()
    jest.restoreAllMocks()
  })
})

test('the default is draft 8, and a refusal has Retry-After', async () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1m' }), { store: store() })
  expect(rateLimitHeaders(limiter, await limiter.take('ann'))).toEqual({
    'RateLimit-Policy': '"default";q=1;w=60',
    RateLimit: '"default";r=0;t=60',
  })
  expect(rateLimitHeaders(limiter, await limiter.take('ann'))).toEqual({
    'RateLimit-Policy': '"default";q=1;w=60',
    RateLimit: '"default";r=0;t=60',
    'Retry-After': '60',
  })
})

test('decisions of takeUpTo, wait, reservations and permits have headers, too', async () => {
  const rate = new RateLimiter(gcra({ limit: 6, period: '1m' }), { store: store() })
  expect(rateLimitHeaders(rate, await rate.takeUpTo('ann', 2))).toMatchObject({ RateLimit: '"default";r=4;t=20' })
  expect(rateLimitHeaders(rate, await rate.wait('ann'))).toMatchObject({ RateLimit: '"default";r=3;t=30' })
  // No unit is left: the time is that until the next one.
  expect(rateLimitHeaders(rate, (await rate.reserve('ann', 3)).decision)).toMatchObject({
    RateLimit: '"default";r=0;t=10',
  })
  expect(rateLimitHeaders(rate, (await rate.reserve('ann', 1)).decision)).toHaveProperty('Retry-After', '10')
  // Units at a time have no window.
  const permits = new RateLimiter(concurrency({ limit: 2, ttl: '30s' }), { store: store() })
  await using permit = await permits.acquire('ann', { cost: 2 })
  for (const headers of ['draft-8', 'draft-11'] as const) {
    expect(rateLimitHeaders(permits, permit.decision, { headers })).toEqual({
      'RateLimit-Policy': '"default";q=2',
      RateLimit: '"default";r=0;t=30',
    })
  }
  const { decision: refused } = await permits.acquire('ann')
  expect(rateLimitHeaders(permits, refused)).toMatchObject({ RateLimit: '"default";r=0;t=30', 'Retry-After': '30' })
})

test('Express, Fastify, Node.js and Response take the result', async () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 9, window: '1m' }), { store: store() })
  const decision = await limiter.take('ann')
  const headers = rateLimitHeaders(limiter, decision)
  const fieldsOf = (response: Response) =>
    Object.fromEntries([...response.headers].filter(([name]) => NAMES.test(name)))
  expect(fieldsOf(new Response(null, { headers }))).toEqual(lower(headers))
  const app = fastify()
  app.get('/', async (_request, reply) => reply.headers(headers).send('ok'))
  expect((await app.inject('/')).headers).toMatchObject(lower(headers))
  await app.close()
  const listeners = [
    express().get('/', (_request, response) => void response.set(headers).send('ok')),
    (_request: unknown, response: import('node:http').ServerResponse) => {
      response.setHeaders(new Headers(headers)).end()
    },
    (_request: unknown, response: import('node:http').ServerResponse) => {
      response.writeHead(200, headers).end()
    },
  ]
  for (const listener of listeners) {
    const server = createServer(listener as never).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    expect(fieldsOf(response)).toEqual(lower(headers))
    server.closeAllConnections()
    server.close()
  }
})

test('mistakes are errors that name them', async () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 9, window: '1m' }))
  const other = new RateLimiter(several)
  const tiered = new RateLimiter(tiers({ free: several.burst, pro: several.burst }))
  const decision = await limiter.take('ann')
  const tieredDecision = await tiered.take('ann', { tier: 'free' })
  for (const [call, message] of [
    [
      () => rateLimitHeaders(limiter, anything(limiter.take('ann'))),
      'must be a decision of the limiter, got a Promise: await it',
    ],
    [() => rateLimitHeaders(other, anything(decision)), 'decision must be a decision of the limiter, got an object'],
    [() => rateLimitHeaders(limiter, anything({ decision })), 'got an object: pass its decision'],
    [() => rateLimitHeaders(limiter, anything(undefined)), 'got undefined'],
    [() => rateLimitHeaders(anything(undefined), decision), 'limiter must be a RateLimiter, got undefined'],
    [
      () => rateLimitHeaders(limiter, decision, { headers: anything('draft-9') }),
      "must be 'draft-11', 'draft-8', 'draft-6', 'legacy' or an array of these, got \"draft-9\"",
    ],
    [() => rateLimitHeaders(limiter, decision, { headers: anything(false) }), 'got false'],
    [() => rateLimitHeaders(limiter, decision, { tier: 'free' }), 'tier cannot be given: the limiter has no tiers'],
    [() => rateLimitHeaders(tiered, tieredDecision), 'tier must be one of "free", "pro", got undefined'],
    [() => rateLimitHeaders(tiered, tieredDecision, { tier: 'gold' }), 'got "gold"'],
    [() => rateLimitHeaders(limiter, decision, anything({ form: 'legacy' })), 'rateLimitHeaders has no option "form"'],
  ] as const) {
    expect(failureOf(call)).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(message) })
  }
})

test('it takes the limiters of tollgate/wasm, too', async () => {
  const limiter = new wasm.RateLimiter(gcra({ limit: 5, period: '1m' }))
  expect(rateLimitHeaders(limiter, await limiter.take('ann'))).toMatchObject({ RateLimit: '"default";r=4;t=12' })
})
