/** The options of Fastify's routes, over HTTP. */
import fastify, { type FastifyInstance } from 'fastify'
import { fixedWindow, gcra, RateLimiter, tiers } from '../../ts/index.js'
import rateLimitPlugin, { type FastifyRouteOptions } from '../../ts/middleware/fastify.js'
import { anything } from '../failure.js'

const apps: FastifyInstance[] = []
afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()))
})

const limiterOf = (limit: number) => new RateLimiter(fixedWindow({ limit, window: '1h' }))
const ok = async () => 'ok'

async function appOf(
  build: (app: FastifyInstance) => unknown,
): Promise<(path: string, times: number) => Promise<number[]>> {
  const app = fastify()
  apps.push(app)
  await build(app)
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return async (path, times) => {
    const statuses: number[] = []
    for (let time = 0; time < times; time++) {
      statuses.push((await fetch(url + path)).status)
    }
    return statuses
  }
}

test('a route replaces options of the plugin, or has no limit', async () => {
  const limiter = limiterOf(3)
  const own = limiterOf(1)
  const statuses = await appOf(async (app) => {
    await app.register(rateLimitPlugin, { limiter })
    app.get('/common', ok)
    app.get('/free', { config: { rateLimit: false } }, ok)
    app.get('/own', { config: { rateLimit: { limiter: own, statusCode: 420 } } }, ok)
    app.get('/dear', { config: { rateLimit: { cost: 2, key: () => 'dear' } } }, ok)
  })
  expect(await statuses('/own', 2)).toEqual([200, 420])
  expect(await statuses('/free', 5)).toEqual([200, 200, 200, 200, 200])
  expect(await statuses('/dear', 2)).toEqual([200, 429])
  expect(await statuses('/unknown', 1)).toEqual([404])
  expect(await statuses('/common', 3)).toEqual([200, 200, 429])
})

test('routes that were registered before the plugin have their options, too', async () => {
  const statuses = await appOf(async (app) => {
    app.get('/early', { config: { rateLimit: { limiter: limiterOf(1) } } }, ok)
    app.get('/free', { config: { rateLimit: false } }, ok)
    await app.register(rateLimitPlugin, { limiter: limiterOf(9) })
  })
  expect(await statuses('/early', 2)).toEqual([200, 429])
  expect(await statuses('/free', 2)).toEqual([200, 200])
})

test('the options of a plugin are those of its instance', async () => {
  const statuses = await appOf(async (app) => {
    app.get('/outside', { config: { rateLimit: { limiter: limiterOf(1) } } }, ok)
    await app.register(async (child) => {
      await child.register(rateLimitPlugin, { limiter: limiterOf(2) })
      child.get('/inside', { config: { rateLimit: { key: () => 'inside' } } }, ok)
    })
  })
  expect(await statuses('/outside', 3)).toEqual([200, 200, 200])
  expect(await statuses('/inside', 3)).toEqual([200, 200, 429])
})

test("the plugin's tier does not apply to a limiter without tiers", async () => {
  const plans = tiers({ free: gcra({ limit: 1, period: '1h' }), pro: gcra({ limit: 2, period: '1h' }) })
  const statuses = await appOf(async (app) => {
    await app.register(rateLimitPlugin, anything({ limiter: new RateLimiter(plans), tier: 'pro' }))
    app.get('/tiered', ok)
    app.get('/plain', { config: { rateLimit: { limiter: limiterOf(1) } } }, ok)
    app.get('/free', { config: { rateLimit: { tier: 'free', key: () => 'other' } } }, ok)
  })
  expect(await statuses('/tiered', 3)).toEqual([200, 200, 429])
  expect(await statuses('/plain', 2)).toEqual([200, 429])
  expect(await statuses('/free', 2)).toEqual([200, 429])
})

test.each<[unknown, RegExp]>([
  [{ max: 5 }, /^GET \/own: config\.rateLimit has no option "max"; did you mean "limiter"\?/],
  [{ cost: 0 }, /^GET \/own: config\.rateLimit: cost must be a whole number from 1/],
  [true, /^GET \/own: config\.rateLimit must be an object of options, or false, got true/],
])('%j fails when the route is registered', async (own, message) => {
  const app = fastify()
  apps.push(app)
  await app.register(rateLimitPlugin, { limiter: limiterOf(1) })
  const register = () => app.get('/own', { config: { rateLimit: own as FastifyRouteOptions } }, ok)
  expect(register).toThrow(expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringMatching(message) }))
})

test('types', () => {
  const options: FastifyRouteOptions[] = [
    { cost: (request) => Number(request.query !== undefined) },
    { limiter: limiterOf(1), handler: (_request, reply, decision) => reply.send(decision.retryAfterMs) },
    { limiter: new RateLimiter({ ip: gcra({ limit: 1, period: '1s', per: 'ip' }) }), key: ({ ip }) => ({ ip }) },
  ]
  expect(options).toHaveLength(3)
  // @ts-expect-error: a cost is a number.
  const wrong: FastifyRouteOptions = { cost: 'two' }
  expect(wrong.cost).toBe('two')
})
