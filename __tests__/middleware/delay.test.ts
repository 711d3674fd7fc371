/** Requests that are delayed instead of refused, in each framework. */
import 'reflect-metadata'
import { Controller, Get, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express from 'express'
import {
  fixedWindow,
  gcra,
  leakyBucket,
  MemoryStore,
  RateLimiter,
  slidingLog,
  tiers,
  tokenBucket,
} from '../../ts/index.js'
import { rateLimit as forExpress } from '../../ts/middleware/express.js'
import { withRateLimit } from '../../ts/middleware/fetch.js'
import { RateLimit, RateLimitModule } from '../../ts/middleware/nest.js'
import { TestClock } from '../../ts/testing/index.js'
import { until } from '../servers/until.js'
import { FRAMEWORKS, type Framework, type ServedApp } from './frameworks.js'
import { warningsOf } from './warnings.js'

const open: ServedApp[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((served) => served.close()))
})

/** A rate of one unit per period. Its clock stands still, so that slots do not depend on arrival times. */
function limiterOf(period: `${number}ms` | `${number}s`, clock = new TestClock()) {
  return new RateLimiter(gcra({ limit: 1, period, burst: 1 }), { store: new MemoryStore({ clock }) })
}

async function serve(framework: Framework, options: object) {
  const route = async () => ({ status: 200, body: 'through' })
  const served = await framework.serve({ options: { key: () => 'ann', ...options }, route })
  open.push(served)
  return { get: () => fetch(served.url) }
}

describe.each(FRAMEWORKS.map((framework) => [framework.name, framework] as const))('%s', (_, framework) => {
  test('a request that fits is not delayed, and a blocked key is refused immediately', async () => {
    const limiter = limiterOf('10s')
    const { get } = await serve(framework, { limiter, delay: '1h', refundWhen: 'successful' })
    expect((await get()).status).toBe(200)
    await until('it is refunded', async () => ((await limiter.peek('ann')).resetAfterMs === 0 ? true : undefined))
    await limiter.block('ann', '1h')
    expect((await get()).status).toBe(429)
  })

  test('a request without a key is a bad request', async () => {
    const { get } = await serve(framework, { limiter: limiterOf('1s'), delay: '1s', key: () => '' })
    await warningsOf(async () => expect((await get()).status).toBe(400))
  })
})

test('cost and tier decide about the turn', async () => {
  const clock = new TestClock()
  const store = new MemoryStore({ clock })
  const limiter = new RateLimiter(
    tiers({ free: gcra({ limit: 1, period: '10s', burst: 9 }), pro: gcra({ limit: 1, period: '20ms', burst: 9 }) }),
    { store },
  )
  const tier = (request: Request) => request.headers.get('x-tier') as 'free' | 'pro'
  const options = { limiter, key: () => 'ann', delay: '1s', cost: 9, tier } as const
  const handler = withRateLimit(async (request) => new Response(String(request.rateLimit?.allowed)), options)
  const statusOf = async (name: string) =>
    (await clock.advanceUntil(handler(new Request('http://x/', { headers: { 'x-tier': name } })))).status
  const statuses = [await statusOf('pro'), await statusOf('pro'), await statusOf('free'), await statusOf('free')]
  expect(statuses).toEqual([200, 200, 200, 429])
})

describe('an invalid delay is an error immediately', () => {
  const key = () => 'ann'
  const rate = limiterOf('1s')

  test.each<[string, object, RegExp]>([
    ['zero', { delay: 0 }, /rateLimit: delay must be a whole number from 1 to 3600000 milliseconds, got 0/],
    ['no duration', { delay: 'soon' }, /rateLimit: delay .*got "soon"/],
    ['more than an hour', { delay: '2h' }, /rateLimit: delay must be .*3600000 milliseconds, got "2h"/],
    [
      'shadow mode',
      { delay: '1s', observe: true },
      /delay cannot be given with observe: shadow mode delays no request/,
    ],
    [
      'a limiter without wait',
      { delay: '1s', limiter: { policies: rate.policies, take: async () => {}, refund: async () => 0 } },
      /delay needs a limiter that has the method wait/,
    ],
    [
      'a window',
      {
        delay: '1s',
        limiter: new RateLimiter({ a: gcra({ limit: 1, period: '1s' }), b: slidingLog({ limit: 1, window: '1s' }) }),
      },
      /delay needs a limiter whose policies are gcra\(\), .* but policies.b is slidingLog/,
    ],
    [
      'a bucket that is refilled at intervals',
      {
        delay: '1s',
        limiter: new RateLimiter(
          tokenBucket({ capacity: 1, refill: { tokens: 1, every: '1s' }, refillMode: 'interval' }),
        ),
      },
      /delay needs .*tokenBucket\(\) with continuous refill, but policies.default is tokenBucket/,
    ],
  ])('%s', (_, option, message) => {
    const make = () => forExpress({ limiter: rate, key, ...option } as never)
    expect(make).toThrow(expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringMatching(message) }))
  })

  test('policies that can wait are accepted', () => {
    const bucket = new RateLimiter(leakyBucket({ capacity: 5, leak: { units: 1, every: '1s' } }))
    expect(() => express().use(forExpress({ limiter: bucket, delay: '500ms' }))).not.toThrow()
    expect(() => forExpress({ limiter: rate, delay: 1_500 })).not.toThrow()
  })

  test('a bare number below 1,000 may be a mistake', async () => {
    const warnings = await warningsOf(async () => forExpress({ limiter: rate, delay: 7 }))
    expect(warnings).toEqual([
      { code: 'TOLLGATE_SHORT_DURATION', message: expect.stringContaining('rateLimit: delay') },
    ])
  })
})

test("in Nest the module's delay does not apply to a route with its own limiter", async () => {
  class Routes {
    own() {
      return 'ok'
    }
  }
  Controller()(Routes)
  const method = Object.getOwnPropertyDescriptor(Routes.prototype, 'own') as never
  Get()(Routes.prototype, 'own', method)
  const window = new RateLimiter(fixedWindow({ limit: 1, window: '1h' }))
  RateLimit({ limiter: window })(Routes.prototype, 'own', method)
  class Root {}
  const limits = RateLimitModule.forRoot({ limiter: limiterOf('1s'), key: () => 'ann', delay: '1h' })
  Module({ imports: [limits], controllers: [Routes] })(Root)
  const app = await NestFactory.create(Root, { logger: false })
  await app.listen(0, '127.0.0.1')
  try {
    const url = await app.getUrl()
    expect([(await fetch(url)).status, (await fetch(url)).status]).toEqual([200, 429])
  } finally {
    await app.close()
  }
})
