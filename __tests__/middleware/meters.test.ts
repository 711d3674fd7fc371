/** Costs by meter in a middleware. */
import { fixedWindow, gcra, RateLimiter, tiers, tokenBucket } from '../../ts/index.js'
import { rateLimit } from '../../ts/middleware/express.js'
import { withRateLimit } from '../../ts/middleware/fetch.js'

const limiterOf = () =>
  new RateLimiter({
    calls: fixedWindow({ limit: 10, window: '1h' }),
    tokens: tokenBucket({ capacity: 100, refill: { tokens: 100, every: '1h' }, meter: 'tokens' }),
  })

const request = (tokens: number, method = 'GET') =>
  new Request('http://localhost/', { method, headers: { 'x-tokens': String(tokens) } })

const tokensOf = ({ headers }: Request) => ({ tokens: Number(headers.get('x-tokens')) })

test('a function returns the cost by meter', async () => {
  const limiter = limiterOf()
  const handler = withRateLimit(() => new Response('ok'), { limiter, key: () => 'ann', cost: tokensOf })
  expect((await handler(request(70))).status).toBe(200)
  const refused = await handler(request(40))
  expect(refused.status).toBe(429)
  expect(refused.headers.get('RateLimit')).toContain('"tokens";r=30')
  expect((await handler(request(30))).status).toBe(200)
  expect((await handler(request(101))).status).toBe(413)
})

test('a constant cost', async () => {
  const limiter = limiterOf()
  const handler = withRateLimit(() => new Response('ok'), { limiter, key: () => 'ann', cost: { tokens: 60, calls: 2 } })
  expect((await handler(request(0))).status).toBe(200)
  expect((await limiter.peek('ann', { cost: { tokens: 0 } })).policies).toMatchObject({
    calls: { remaining: 8 },
    tokens: { remaining: 40 },
  })
  expect((await handler(request(0))).status).toBe(429)
})

test('without a cost the default costs are charged', async () => {
  const limiter = new RateLimiter(gcra({ limit: 100, period: '1h', meter: 'tokens', defaultCost: 30 }))
  const handler = withRateLimit(() => new Response('ok'), { limiter, key: () => 'ann' })
  await handler(request(0))
  expect(await limiter.peek('ann')).toMatchObject({ remaining: 70 })
})

test('tiers, delays and refunds have costs by meter', async () => {
  const plans = tiers({
    free: gcra({ limit: 50, period: '1h', meter: 'tokens' }),
    pro: gcra({ limit: 500, period: '1h', meter: 'tokens' }),
  })
  const limiter = new RateLimiter(plans)
  const handler = withRateLimit(() => new Response('failed', { status: 500 }), {
    limiter,
    key: () => 'ann',
    cost: tokensOf,
    tier: ({ method }) => (method === 'POST' ? 'pro' : 'free'),
    refundWhen: 'failed',
    delay: '1s',
  })
  expect((await handler(request(60))).status).toBe(413)
  expect((await handler(request(60, 'POST'))).status).toBe(500)
  expect(await limiter.peek('ann', { tier: 'pro', cost: { tokens: 0 } })).toMatchObject({ remaining: 500 })
})

test('a cost that the limiter rejects is an invalid request', async () => {
  const errors: unknown[] = []
  const handler = withRateLimit(() => new Response('ok'), {
    limiter: limiterOf(),
    key: () => 'ann',
    cost: tokensOf,
    onInvalidInput: (error) => {
      errors.push(error)
      return { cost: { tokens: 1 } }
    },
  })
  expect((await handler(request(-1))).status).toBe(200)
  expect(errors).toMatchObject([{ code: 'INVALID_COST', message: expect.stringContaining('cost.tokens must be') }])
})

test('mistakes', () => {
  const limiter = limiterOf()
  const of = (options: object) => () => rateLimit(options as never)
  expect(of({ limiter })).toThrow('rateLimit: cost must have the units of each meter, tokens is missing')
  expect(of({ limiter, cost: 5 })).toThrow(
    'rateLimit: cost must be an object by meter, because a policy has a meter, got 5',
  )
  expect(of({ limiter, cost: new Map([['tokens', 5]]) })).toThrow(
    'rateLimit: cost must be a plain object by meter, because a policy has a meter, got a Map: write cost: { tokens: 5 }',
  )
  expect(of({ limiter, cost: { token: 5 } })).toThrow('no policy has the meter "token"; did you mean "tokens"?')
  const plain = new RateLimiter(gcra({ limit: 1, period: '1s' }))
  expect(of({ limiter: plain, cost: { tokens: 5 } })).toThrow('no policy has a meter')
})
