/** The responses in each framework: header fields, refusals, and counts. */
import { parseItem, parseList } from 'structured-headers'
import type { Decision, Policies, Policy } from '../../ts/index.js'
import { calendarWindow, fixedWindow, gcra, MemoryStore, RateLimiter } from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { FRAMEWORKS, type Framework, type ServedApp, type Setup } from './frameworks.js'

const open: ServedApp[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((served) => served.close()))
})

/** A limiter whose clock stands still. */
function limiterOf<const P extends Policy | Policies>(policies: P) {
  const clock = new FakeClock()
  return { clock, limiter: new RateLimiter(policies, { store: new MemoryStore({ clock: clock.read }) }) }
}

/** Serves the app. Every request counts for its `x-user`. */
async function serve(
  framework: Framework,
  options: object,
  setup: Partial<Setup> = {},
): Promise<(headers?: Record<string, string>, path?: string) => Promise<Response>> {
  const key = (...args: unknown[]) => framework.header(args, 'x-user') ?? 'ann'
  const route =
    setup.route ?? (async (_: string, decision: Decision | undefined) => ({ status: 200, body: summary(decision) }))
  const served = await framework.serve({ ...setup, route, options: { key, ...options } })
  open.push(served)
  return (headers = {}, path = '/') => fetch(served.url + path, { headers })
}

const summary = (decision: Decision | undefined) => `${decision?.status} ${decision?.remaining}`

/** A structured list as names (or numbers) with their parameters. */
function listOf(response: Response, name: string): unknown[] {
  return parseList(response.headers.get(name) ?? '').map(([value, parameters]) => [
    value,
    Object.fromEntries(parameters),
  ])
}

const itemOf = (response: Response, name: string) => parseItem(response.headers.get(name) ?? '')[0]

/** The names of all rate limit fields. */
function fieldsOf({ headers }: Response): string[] {
  return [...headers.keys()].filter((name) => /ratelimit|retry-after/.test(name)).sort()
}

describe.each(FRAMEWORKS.map((framework) => [framework.name, framework] as const))('%s', (_, framework) => {
  test('sends the limit in the fields of draft 8, as an item with parameters', async () => {
    const { limiter } = limiterOf(gcra({ limit: 10, period: '1s', burst: 20 }))
    const get = await serve(framework, { limiter })
    const response = await get()
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('allowed 19')
    expect(listOf(response, 'RateLimit-Policy')).toEqual([['default', { q: 20, w: 2 }]])
    expect(listOf(response, 'RateLimit')).toEqual([['default', { r: 19, t: 1 }]])
    expect(fieldsOf(response)).toEqual(['ratelimit', 'ratelimit-policy'])
  })

  test('sends several limits in declaration order, and a retry time', async () => {
    const { limiter, clock } = limiterOf({
      burst: gcra({ limit: 2, period: '3s' }),
      daily: calendarWindow({ limit: 100, every: 'day' }),
    })
    clock.advance(1_000)
    const get = await serve(framework, { limiter })
    await get()
    const last = await get()
    expect(listOf(last, 'RateLimit-Policy')).toEqual([
      ['burst', { q: 2, w: 3 }],
      ['daily', { q: 100, w: 86_400 }],
    ])
    expect(listOf(last, 'RateLimit')).toEqual([
      ['burst', { r: 0, t: 2 }], // 1.5 s until the next unit, rounded up
      ['daily', { r: 98, t: 86_399 }],
    ])
    expect(last.headers.has('Retry-After')).toBe(false)
    const refused = await get()
    expect(refused.status).toBe(429)
    expect(listOf(refused, 'RateLimit')).toEqual([
      ['burst', { r: 0, t: 2 }], // 1.5 s, rounded up
      ['daily', { r: 98, t: 86_399 }],
    ])
    expect(itemOf(refused, 'Retry-After')).toBe(2)
  })

  test('refuses with a text, and admits nobody', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 1, window: '1m' }))
    const route = jest.fn(async () => ({ status: 200, body: 'ok' }))
    const get = await serve(framework, { limiter }, { route })
    await get()
    const refused = await get()
    expect(refused.status).toBe(429)
    expect(itemOf(refused, 'Retry-After')).toBe(60)
    const body = await refused.text()
    const text = 'Too many requests, please try again later.'
    if (framework.name.startsWith('Nest')) {
      expect(JSON.parse(body)).toEqual({ statusCode: 429, message: text })
    } else {
      expect(body).toBe(text)
      expect(refused.headers.get('content-type')).toMatch(/^text\/plain/i)
    }
    expect(route).toHaveBeenCalledTimes(1)
    expect((await get({ 'x-user': 'bob' })).status).toBe(200)
  })

  test('refuses with the configured status and object', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 1, window: '1m' }))
    const message = async (...args: unknown[]) => {
      return { sorry: framework.header(args, 'x-user'), policy: (args.at(-1) as Decision).policy }
    }
    const get = await serve(framework, { limiter, statusCode: 503, message })
    await get({ 'x-user': 'bob' })
    const refused = await get({ 'x-user': 'bob' })
    expect(refused.status).toBe(503)
    expect(refused.headers.get('content-type')).toMatch(/^application\/json/i)
    expect(await refused.json()).toEqual({ sorry: 'bob', policy: 'default' })
  })

  test("charges a request's cost, and nothing for skipped requests", async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 10, window: '1m' }))
    const skip = async (...args: unknown[]) => framework.header(args, 'x-role') === 'admin'
    const cost = (...args: unknown[]) => Number(framework.header(args, 'x-cost') ?? 1)
    const get = await serve(framework, { limiter, skip, cost })
    expect(await (await get({ 'x-cost': '7' })).text()).toBe('allowed 3')
    const skipped = await get({ 'x-role': 'admin', 'x-cost': '7' })
    expect(await skipped.text()).toBe('undefined undefined')
    expect(fieldsOf(skipped)).toEqual([])
    expect(await (await get({ 'x-cost': '3' })).text()).toBe('allowed-last 0')
  })

  test('refuses a request that can never fit, without a retry time', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 2, window: '1m' }))
    const get = await serve(framework, { limiter, cost: 3 })
    const refused = await get()
    expect(refused.status).toBe(413)
    expect(listOf(refused, 'RateLimit')).toEqual([['default', { r: 2 }]])
    expect(refused.headers.has('Retry-After')).toBe(false)
    expect(await refused.text()).toContain(
      'This request costs more than its limit can ever allow. Do not send it again unchanged.',
    )
  })

  test('stores its decision where configured', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 9, window: '1m' }))
    const get = await serve(framework, { limiter, requestProperty: 'quota' }, { property: 'quota' })
    expect(await (await get()).text()).toBe('allowed 8')
  })

  test('draft 6 has the limit that the decision reports, and all policies', async () => {
    const { limiter } = limiterOf({
      burst: fixedWindow({ limit: 2, window: 1_500 }),
      hourly: fixedWindow({ limit: 100, window: '1h' }),
    })
    const get = await serve(framework, { limiter, headers: 'draft-6' })
    const response = await get()
    expect(listOf(response, 'RateLimit-Policy')).toEqual([
      [2, { w: 2 }],
      [100, { w: 3600 }],
    ])
    expect(itemOf(response, 'RateLimit-Limit')).toBe(2)
    expect(itemOf(response, 'RateLimit-Remaining')).toBe(1)
    expect(itemOf(response, 'RateLimit-Reset')).toBe(2)
    expect(response.headers.has('RateLimit')).toBe(false)
  })

  test('draft 6 and draft 8 together share the policies of draft 8', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 3, window: '1m' }))
    const get = await serve(framework, { limiter, headers: ['draft-6', 'draft-8'] })
    const response = await get()
    expect(listOf(response, 'RateLimit-Policy')).toEqual([['default', { q: 3, w: 60 }]])
    expect(listOf(response, 'RateLimit')).toEqual([['default', { r: 2, t: 60 }]])
    const names = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset']
    expect(names.map((name) => itemOf(response, name))).toEqual([3, 2, 60])
  })

  test('legacy fields have the reset time; fields can be turned off', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 1, window: '1h' }))
    const get = await serve(framework, { limiter, headers: 'legacy' })
    const before = Math.ceil(Date.now() / 1_000)
    const response = await get()
    const reset = Number(response.headers.get('X-RateLimit-Reset'))
    expect(response.headers.get('X-RateLimit-Limit')).toBe('1')
    expect(response.headers.get('X-RateLimit-Remaining')).toBe('0')
    expect(reset).toBeGreaterThanOrEqual(before + 3_600)
    expect(reset).toBeLessThanOrEqual(Math.ceil(Date.now() / 1_000) + 3_600)
    expect(fieldsOf(await get())).toContain('retry-after')
    const silent = await serve(framework, { limiter, headers: false })
    const refused = await silent()
    expect([refused.status, fieldsOf(refused)]).toEqual([429, []])
  })

  test('a handler replaces the refusal response, and the fields stay', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 1, window: '1m' }))
    const get = await serve(framework, { limiter, handler: refuseWith402(framework) })
    await get()
    const refused = await get()
    expect(refused.status).toBe(402)
    expect(await refused.text()).toContain('pay')
    expect(itemOf(refused, 'Retry-After')).toBe(60)
  })

  test('in shadow mode all requests pass without fields, are counted and marked', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 1, window: '1m' }))
    const onRefused = jest.fn()
    const get = await serve(framework, { limiter, observe: true, onRefused })
    expect(await (await get()).text()).toBe('allowed-last 0')
    const second = await get()
    expect([second.status, await second.text(), fieldsOf(second)]).toEqual([200, 'refused 0', []])
    expect(onRefused).toHaveBeenCalledTimes(1)
    expect(onRefused.mock.calls[0].at(-1)).toMatchObject({ allowed: false, policy: 'default' })
  })

  test('onRefused receives refusals, and its errors reach the client as failures', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 1, window: '1m' }))
    const onRefused = jest.fn(async (...args: unknown[]) => {
      if (framework.header(args, 'x-user') === 'bob') {
        throw new Error('the log is full')
      }
    })
    const get = await serve(framework, { limiter, onRefused })
    for (const user of ['ann', 'bob']) {
      expect((await get({ 'x-user': user })).status).toBe(200)
    }
    expect((await get()).status).toBe(429)
    expect((await get({ 'x-user': 'bob' })).status).toBe(500)
    expect(onRefused).toHaveBeenCalledTimes(2)
  })
})

/** A handler for each framework. */
function refuseWith402({ name }: Framework): unknown {
  const { HttpException } = jest.requireActual<typeof import('@nestjs/common')>('@nestjs/common')
  const handlers: { readonly [name: string]: unknown } = {
    Koa: async (context: { status: number; body: string }) => {
      context.status = 402
      context.body = 'pay'
    },
    Fastify: (_: unknown, reply: { code(code: number): { send(body: string): void } }) => reply.code(402).send('pay'),
    Hono: async () => new Response('pay', { status: 402 }),
    fetch: async () => new Response('pay', { status: 402 }),
  }
  if (name.startsWith('Nest')) {
    return () => {
      throw new HttpException('pay', 402)
    }
  }
  return (
    handlers[name] ??
    ((_: unknown, response: { status(status: number): { send(body: string): void } }) =>
      response.status(402).send('pay'))
  )
}
