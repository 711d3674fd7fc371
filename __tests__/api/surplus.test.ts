/** A surplus argument is an error: the caller meant it to have an effect. */

import { parse } from 'graphql'
import * as aiSdk from '../../ts/ai-sdk/index.js'
import * as bullmq from '../../ts/bullmq/index.js'
import * as client from '../../ts/client/index.js'
import * as estimate from '../../ts/estimate/index.js'
import * as headers from '../../ts/headers/index.js'
import * as core from '../../ts/index.js'
import { gcra, RateLimiter, RedisStore } from '../../ts/index.js'
import * as mcp from '../../ts/mcp/index.js'
import * as metrics from '../../ts/metrics/index.js'
import * as express from '../../ts/middleware/express.js'
import * as expressRateLimit from '../../ts/middleware/express-rate-limit.js'
import { TollgateStore } from '../../ts/middleware/express-rate-limit.js'
import * as fastify from '../../ts/middleware/fastify.js'
import * as fetch from '../../ts/middleware/fetch.js'
import * as graphql from '../../ts/middleware/graphql.js'
import * as hono from '../../ts/middleware/hono.js'
import * as koa from '../../ts/middleware/koa.js'
import * as nest from '../../ts/middleware/nest.js'
import * as socketIo from '../../ts/middleware/socket.io.js'
import * as trpc from '../../ts/middleware/trpc.js'
import * as testing from '../../ts/testing/index.js'
import { failureOf } from '../failure.js'
import { Collector } from '../metrics/collect.js'
import { CORE, functionsOf, methodsOf, refusesSurplus, type Signature, SYNC_METHODS } from './surplus.js'

const limiter = new RateLimiter(gcra({ limit: 1_000, period: '1m' }))
const options = 'an object of options'
const middleware = { limiter, key: () => 'a' }
const ipKey: Signature = [['192.0.2.1', {}], `ipKey takes an address and ${options}`]
const rateLimit: Signature = [[middleware], `rateLimit takes ${options}`]
const store = new RedisStore('redis://127.0.0.1:9')

afterAll(() => store.close())

/** The modules, and the arguments of their functions. */
const MODULES: readonly (readonly [string, object, Readonly<Record<string, Signature>>])[] = [
  [
    'tollgate',
    core,
    {
      ...CORE,
      RedisStore: [['redis://127.0.0.1:9', {}], `RedisStore takes a URL and ${options}`],
      'RedisStore.on': [['down', () => {}], 'on takes an event and a listener'],
      'RedisStore.status': [[], 'status takes no arguments'],
    },
  ],
  [
    'tollgate/client',
    client,
    {
      OutgoingClient: [[{ limiter }], `OutgoingClient takes ${options}`],
      'OutgoingClient.schedule': [[() => {}, { key: 'a' }], `schedule takes a function and ${options}`],
      'OutgoingClient.wrap': [[() => {}, {}], 'wrap takes a function and options'],
      'OutgoingClient.fetch': [
        ['http://127.0.0.1:9', {}, {}],
        'fetch takes a URL or a request, its options, and those of the call',
      ],
      'OutgoingClient.map': [[[1], () => {}, { key: 'a' }], 'map takes values, a function and options'],
      'OutgoingClient.resume': [['a'], 'resume takes a key'],
      'OutgoingClient.status': [[], 'status takes no arguments'],
      'OutgoingClient.on': [['end', () => {}], 'on takes the name of an event and a function'],
    },
  ],
  ['tollgate/ai-sdk', aiSdk, { rateLimit }],
  [
    'tollgate/bullmq',
    bullmq,
    { rateLimited: [[async () => {}, middleware], `rateLimited takes a processor and ${options}`] },
  ],
  [
    'tollgate/mcp',
    mcp,
    {
      limitTools: [[{}], `limitTools takes ${options}`],
      limitToolCalls: [[{}], `limitToolCalls takes ${options}`],
    },
  ],
  [
    'tollgate/estimate',
    estimate,
    {
      UsageEstimator: [[{}], `UsageEstimator takes ${options}`],
      'UsageEstimator.estimate': [['a', 1, {}], `estimate takes a key, the declared maximum and ${options}`],
      'UsageEstimator.record': [['a', 1], 'record takes a key and the used units'],
    },
  ],
  [
    'tollgate/headers',
    headers,
    {
      rateLimitHeaders: [
        [{ policies: {} }, { policies: {} }, {}],
        `rateLimitHeaders takes a limiter, a decision and ${options}`,
      ],
    },
  ],
  [
    'tollgate/testing',
    testing,
    {
      TestClock: [['2026-01-01'], 'TestClock takes its first time'],
      'TestClock.now': [[], 'now takes no arguments'],
      'TestClock.advance': [['1s'], 'advance takes a duration'],
      'TestClock.advanceTo': [['2027-01-01'], 'advanceTo takes a time'],
      'TestClock.advanceUntil': [[Promise.resolve(), {}], 'advanceUntil takes a promise and options'],
      'TestClock.sleep': [['1s'], 'sleep takes a duration'],
      'TestClock.setTimeout': [[() => {}, 1], 'setTimeout takes a function and milliseconds'],
      'TestClock.setInterval': [[() => {}, 1], 'setInterval takes a function and milliseconds'],
      'TestClock.clearTimeout': [[{}], 'clearTimeout takes a timer'],
      'TestClock.clearInterval': [[{}], 'clearInterval takes a timer'],
    },
  ],
  ['tollgate/express', express, { ipKey, rateLimit }],
  ['tollgate/fastify', fastify, { ipKey, rateLimit }],
  ['tollgate/koa', koa, { ipKey, rateLimit }],
  ['tollgate/hono', hono, { ipKey, rateLimit }],
  ['tollgate/trpc', trpc, { ipKey, rateLimit }],
  [
    'tollgate/graphql',
    graphql,
    {
      ipKey,
      useRateLimit: [[middleware], `useRateLimit takes ${options}`],
      rateLimitPlugin: [[middleware], `rateLimitPlugin takes ${options}`],
      complexityOf: [[{ document: parse('{ a }') }, {}], `complexityOf takes an operation and ${options}`],
    },
  ],
  [
    'tollgate/socket.io',
    socketIo,
    {
      ipKey,
      limitConnections: [[middleware], `limitConnections takes ${options}`],
      limitEvents: [[middleware], `limitEvents takes ${options}`],
    },
  ],
  [
    'tollgate/fetch',
    fetch,
    { ipKey, withRateLimit: [[() => new Response(), middleware], `withRateLimit takes a handler and ${options}`] },
  ],
  [
    'tollgate/nest',
    nest,
    {
      ipKey,
      RateLimit: [[false], `RateLimit takes ${options}, or false`],
      'RateLimitModule.forRoot': [[middleware], `forRoot takes ${options}`],
      'RateLimitModule.forRootAsync': [[{ useFactory: () => middleware }], `forRootAsync takes ${options}`],
    },
  ],
  [
    'tollgate/metrics',
    metrics,
    {
      instrumentClient: [
        [new client.OutgoingClient({ limiter }), { name: 'a' }],
        `instrumentClient takes a client and ${options}`,
      ],
      instrument: [[limiter, { name: 'a' }], `instrument takes a limiter and ${options}`],
      instrumentStore: [[store, { name: 'a' }], `instrumentStore takes a store and ${options}`],
    },
  ],
  ['tollgate/express-rate-limit', expressRateLimit, { TollgateStore: [[{}], `TollgateStore takes ${options}`] }],
]

/**
 * Functions called by frameworks and libraries, which may pass more arguments in a later version.
 */
const CALLED_BY_OTHERS = [
  /^default$/,
  /^RateLimitGuard/,
  /^RateLimitError$/,
  /^RateLimitModule$/,
  /^TollgateStore\.(init|get|increment|decrement|resetKey)$/,
]

/** The methods of a client and a clock that return a promise. */
const ASYNC = /^(OutgoingClient\.(schedule|map|fetch)|TestClock\.(advance.*|sleep))$/

/** Members that fail whatever their arguments are. */
const ERRORS = [/^RedisStore\.from$/]

const LENIENT = [...CALLED_BY_OTHERS, ...ERRORS]

describe.each(MODULES)('%s', (_name, module, signatures) => {
  const cases = Object.entries(signatures)

  test('the list has all of its functions', () => {
    const found = functionsOf(module).filter((name) => !LENIENT.some((pattern) => pattern.test(name)))
    const methods = Object.keys(signatures).filter((name) => name.startsWith('Reservation.'))
    expect([...found, ...methods].sort()).toEqual(Object.keys(signatures).sort())
  })

  test.each(cases)('%s', async (name, expected) => {
    const [owner, method] = name.split('.') as [string, string | undefined]
    if (method === undefined) {
      return refusesSurplus(module, name, expected, false)
    }
    const { RateLimitModule } = nest
    const OutgoingClient = new client.OutgoingClient({ limiter, key: 'a' })
    const subjects: Record<string, object> = {
      RateLimiter: limiter,
      RedisStore: store,
      RateLimitModule,
      OutgoingClient,
      TestClock: new testing.TestClock(),
      UsageEstimator: new estimate.UsageEstimator(),
    }
    const subject = owner === 'Reservation' ? await limiter.reserve('b', 1) : (subjects[owner] as object)
    const isAsync =
      owner === 'Reservation' || ASYNC.test(name) || (owner === 'RateLimiter' && !SYNC_METHODS.includes(method))
    await refusesSurplus(subject, method, expected, isAsync)
  })
})

test('a reservation has no other methods', async () => {
  const reservation = await limiter.reserve('c', 1)
  expect(methodsOf(reservation).map((name) => `Reservation.${name}`)).toEqual(
    Object.keys(CORE).filter((name) => name.startsWith('Reservation.')),
  )
})

test('an instrumented limiter refuses the same calls as the limiter, and charges nothing', async () => {
  const { meter } = new Collector()
  const own = new RateLimiter(gcra({ limit: 9, period: '1m' }))
  const recorded = metrics.instrument(own, { name: 'a', meter })
  for (const [name, signatures] of Object.entries(CORE).filter(([name]) => name.startsWith('RateLimiter.'))) {
    const method = name.slice('RateLimiter.'.length)
    await refusesSurplus(recorded, method, signatures, !SYNC_METHODS.includes(method))
  }
  expect(own.takeSync('a')).toMatchObject({ status: 'allowed', remaining: 8 })
})

test('the index and array that map passes are refused as a cost and as options', async () => {
  const calls = await Promise.allSettled(['a', 'b'].map(limiter.take, limiter))
  expect(calls.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(failureOf(() => [{ limit: 1, period: '1s' as const }].map(gcra)).message).toMatch('got 3 arguments')
})

test('close and dispose accept the arguments that event handlers pass', async () => {
  const own = new RateLimiter(gcra({ limit: 9, period: '1m' }))
  const [ready, close] = [own.ready.bind(own), own.close.bind(own)] as ((...args: unknown[]) => Promise<void>)[]
  await ready?.('SIGTERM', 15)
  await close?.('SIGTERM', 15)
  expect(failureOf(() => own.takeSync('a')).code).toBe('CLOSED')
  const hits = new TollgateStore()
  hits.init({ windowMs: 1_000 })
  await (hits.increment as (...args: unknown[]) => Promise<unknown>).call(hits, 'a', {})
  await (hits.shutdown as (...args: unknown[]) => Promise<unknown>).call(hits, 'SIGTERM')
})
