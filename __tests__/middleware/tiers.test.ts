/** The option `tier`: mistakes, and routes of Nest with limiters of their own. */
import 'reflect-metadata'
import { Controller, Get, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { fixedWindow, gcra, RateLimiter, tiers } from '../../ts/index.js'
import { rateLimit } from '../../ts/middleware/express.js'
import { RateLimit, RateLimitModule } from '../../ts/middleware/nest.js'

const plansOf = (free: number, pro: number) =>
  tiers({ free: fixedWindow({ limit: free, window: '1h' }), pro: fixedWindow({ limit: pro, window: '1m' }) })

test('mistakes', () => {
  const limiter = new RateLimiter(plansOf(1, 3))
  const plain = new RateLimiter(gcra({ limit: 1, period: '1s' }))
  expect(() => rateLimit({ limiter })).toThrow(
    'rateLimit: tier must be one of "free", "pro", or a function that returns one',
  )
  expect(() => rateLimit({ limiter, tier: 'gold' })).toThrow('got "gold"')
  expect(() => rateLimit({ limiter, tier: 'pro' })).not.toThrow()
  expect(() => rateLimit({ limiter: plain, tier: 'pro' })).toThrow(
    'rateLimit: tier cannot be given: the limiter has no tiers',
  )
})

test("in Nest a route's own limiter has its own tiers, or none", async () => {
  const plain = new RateLimiter(fixedWindow({ limit: 9, window: '1h' }))
  class Routes {
    tiered() {
      return 'ok'
    }

    plain() {
      return 'ok'
    }
  }
  const describe = (method: 'tiered' | 'plain') =>
    Object.getOwnPropertyDescriptor(Routes.prototype, method) as PropertyDescriptor
  Get('tiered')(Routes.prototype, 'tiered', describe('tiered'))
  Get('plain')(Routes.prototype, 'plain', describe('plain'))
  RateLimit({ limiter: plain })(Routes.prototype, 'plain', describe('plain'))
  Controller()(Routes)
  class Root {}
  const key = () => 'ann'
  const limits = RateLimitModule.forRoot({ limiter: new RateLimiter(plansOf(1, 3)), key, tier: () => 'pro' })
  Module({ imports: [limits], controllers: [Routes] })(Root)
  const app = await NestFactory.create(Root, { logger: false })
  try {
    await app.listen(0, '127.0.0.1')
    const quotas = []
    for (const route of ['tiered', 'plain']) {
      const response = await fetch(`${await app.getUrl()}/${route}`)
      quotas.push(response.headers.get('RateLimit-Policy'))
    }
    expect(quotas).toEqual(['"default";q=3;w=60', '"default";q=9;w=3600'])
  } finally {
    await app.close()
  }
})
