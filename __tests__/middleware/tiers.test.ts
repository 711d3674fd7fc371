/** The option `tier`, in every framework: a tiered app whose users change their plan, and whose plans change. */
import 'reflect-metadata'
import { Controller, Get, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { fixedWindow, gcra, MemoryStore, RateLimiter, tiers } from '../../ts/index.js'
import { rateLimit } from '../../ts/middleware/express.js'
import { RateLimit, RateLimitModule } from '../../ts/middleware/nest.js'
import { FakeClock } from '../clock.js'
import { FRAMEWORKS, type ServedApp } from './frameworks.js'

const plansOf = (free: number, pro: number) =>
  tiers({ free: fixedWindow({ limit: free, window: '1h' }), pro: fixedWindow({ limit: pro, window: '1m' }) })

describe.each(FRAMEWORKS)('$name', (framework) => {
  let app: ServedApp
  /** The plans of users, as in an application's database. */
  const plans = new Map<string, string>()
  const limiter = new RateLimiter(plansOf(1, 3), { store: new MemoryStore({ clock: new FakeClock().read }) })

  beforeAll(async () => {
    const user = (args: readonly unknown[]) => framework.header(args, 'x-user') ?? ''
    app = await framework.serve({
      options: {
        limiter,
        key: (...args: unknown[]) => user(args),
        tier: async (...args: unknown[]) => plans.get(user(args)) ?? 'free',
        headers: 'draft-8',
        onError: undefined,
      },
      route: async () => ({ status: 200, body: 'ok' }),
    })
  })

  afterAll(() => app.close())

  async function statusAndPolicy(name: string) {
    const response = await fetch(app.url, { headers: { 'x-user': name } })
    await response.text()
    return [response.status, response.headers.get('RateLimit-Policy')]
  }

  test('a request has the numbers of its tier, also after the plan has changed', async () => {
    expect(await statusAndPolicy('ann')).toEqual([200, '"default";q=1;w=3600'])
    expect(await statusAndPolicy('ann')).toEqual([429, '"default";q=1;w=3600'])
    plans.set('ann', 'pro')
    expect(await statusAndPolicy('ann')).toEqual([200, '"default";q=3;w=60'])
    expect(await statusAndPolicy('bob')).toEqual([200, '"default";q=1;w=3600'])
  })

  test('a request has the new numbers after an update', async () => {
    limiter.update(plansOf(2, 5))
    expect(await statusAndPolicy('bob')).toEqual([200, '"default";q=2;w=3600'])
    expect(await statusAndPolicy('bob')).toEqual([429, '"default";q=2;w=3600'])
    expect(await statusAndPolicy('ann')).toEqual([200, '"default";q=5;w=60'])
  })

  test('an unknown tier is a failure, not an admission', async () => {
    plans.set('eve', 'gold')
    const [status] = await statusAndPolicy('eve')
    expect(status).toBeGreaterThanOrEqual(500)
  })
})

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
