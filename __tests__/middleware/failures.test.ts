/** Requests without a decision, in each framework. */
import type { Decision, OnStoreFailure } from '../../ts/index.js'
import { fixedWindow, gcra, RateLimiter, RedisStore, TollgateError, tiers } from '../../ts/index.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { FRAMEWORKS, type Framework, passing, type ServedApp } from './frameworks.js'
import { warningsOf } from './warnings.js'

const open: ServedApp[] = []
let store: RedisStore
let port: number
let prefixes = 0

beforeAll(async () => {
  const server = await RedisServer.start()
  port = Number(new URL(server.url).port)
  store = new RedisStore({ url: server.url, commandTimeout: 200 })
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1s' }), { store, prefix: 'before' })
  await until('it has answered', () => limiter.take('ann'))
  await server.stop()
})

afterEach(async () => {
  await Promise.all(open.splice(0).map((served) => served.close()))
})

afterAll(() => store.close())

/** A limiter whose server is dead. */
function limiterOf(onStoreFailure: OnStoreFailure = 'throw') {
  const policies = { burst: gcra({ limit: 10, period: '1s' }), daily: fixedWindow({ limit: 50, window: '1d' }) }
  return new RateLimiter(policies, { store, prefix: `dead-${prefixes++}`, onStoreFailure })
}

async function serve(framework: Framework, options: object) {
  const key = (...args: unknown[]) => framework.header(args, 'x-user') ?? 'ann'
  const route = jest.fn(async () => ({ status: 200, body: 'through' }))
  const served = await framework.serve({ options: { key, ...options }, route })
  open.push(served)
  return { get: (headers: Record<string, string> = {}) => fetch(served.url, { headers }), route }
}

function fieldsOf({ headers }: Response): string[] {
  return [...headers.keys()].filter((name) => /ratelimit|retry-after/.test(name))
}

describe.each(FRAMEWORKS.map((framework) => [framework.name, framework] as const))('%s', (_, framework) => {
  test('while the store is away requests fail with 503, and none gets through', async () => {
    const { get, route } = await serve(framework, { limiter: limiterOf() })
    const warnings = await warningsOf(async () => {
      for (const _ of [1, 2]) {
        const response = await get()
        expect(response.status).toBe(503)
        expect(fieldsOf(response)).toEqual([])
        // A default error handler may send the message and the stack of an error.
        const body = await response.text()
        expect(body).toMatch(/service unavailable/i)
        for (const secret of ['ann', '127.0.0.1', 'localhost', String(port), 'Redis', 'ECONNREFUSED', 'refused']) {
          expect(body).not.toContain(secret)
        }
      }
    })
    expect(route).not.toHaveBeenCalled()
    // The process learns the reason, once.
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_NO_DECISION'])
    expect(warnings[0]?.message).toMatch(/^tollgate\/\w+: a request was answered with 503: /)
    expect(warnings[0]?.message).toContain(String(port))
  })

  test('an error of the program is 500, and says what is wrong', async () => {
    const policies = tiers({ free: gcra({ limit: 1, period: '1s' }), pro: gcra({ limit: 9, period: '1s' }) })
    const closed = new RateLimiter(gcra({ limit: 1, period: '1s' }))
    await closed.close()
    for (const [options, code, reason] of [
      [{ limiter: new RateLimiter(policies), tier: () => 'gold' }, 'INVALID_OPTION', /"free", "pro", got "gold"/],
      [{ limiter: closed }, 'CLOSED', /the limiter has been closed/],
    ] as const) {
      const { get, route } = await serve(framework, options)
      const warnings = await warningsOf(async () => {
        const response = await get()
        expect(response.status).toBe(500)
        expect(await response.text()).not.toMatch(/unavailable|try again/i)
      })
      expect(route).not.toHaveBeenCalled()
      expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_NO_DECISION'])
      expect(warnings[0]?.message).toMatch(reason)
      // It is the framework's to handle, unchanged.
      const errors: unknown[] = []
      const onError = passing(framework, (error) => errors.push(error))
      await (await serve(framework, { ...options, onError })).get()
      expect(errors).toEqual([expect.objectContaining({ name: 'TollgateError', code })])
      expect(errors[0]).not.toHaveProperty('status')
    }
  })

  test("a limiter in mode 'allow' admits requests, without header fields: nothing was counted", async () => {
    const { get } = await serve(framework, { limiter: limiterOf('allow') })
    const response = await get()
    expect([response.status, await response.text(), fieldsOf(response)]).toEqual([200, 'through', []])
  })

  test("a limiter in mode 'refuse' answers with 503 and a retry time, and no numbers", async () => {
    const { get, route } = await serve(framework, { limiter: limiterOf('refuse'), statusCode: 420 })
    const response = await get()
    expect([response.status, fieldsOf(response), response.headers.get('retry-after')]).toEqual([
      503,
      ['retry-after'],
      '1',
    ])
    expect(await response.text()).toContain('Service unavailable, please try again later.')
    expect(route).not.toHaveBeenCalled()
  })

  test('no request is delayed while the store is away', async () => {
    const limiter = (onStoreFailure: OnStoreFailure) => {
      return new RateLimiter(gcra({ limit: 10, period: '1s' }), { store, prefix: `dead-${prefixes++}`, onStoreFailure })
    }
    const statuses: number[] = []
    for (const mode of ['refuse', 'throw', 'allow'] as const) {
      const { get } = await serve(framework, { limiter: limiter(mode), delay: '1h' })
      statuses.push((await get()).status)
    }
    expect(statuses).toEqual([503, 503, 200])
  })

  test('its status and body can be set', async () => {
    const message = (...args: unknown[]) => `undecided: ${(args.at(-1) as Decision).source}`
    const options = { limiter: limiterOf('refuse'), storeFailureStatusCode: 429, message }
    const { get } = await serve(framework, options)
    const response = await get()
    expect([response.status, await response.text()]).toEqual([429, expect.stringContaining('undecided: none')])
  })

  test('as a problem, it is a reduced capacity, and no limit was violated', async () => {
    const { get } = await serve(framework, { limiter: limiterOf('refuse'), problemDetails: true })
    const response = await get()
    expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/)
    expect(await response.json()).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      title: 'Request cannot be satisfied due to temporary server capacity constraints',
      status: 503,
      detail: 'Service unavailable, please try again later.',
      'violated-policies': [],
    })
  })

  test('a limiter with an embedded share sends the numbers of the share', async () => {
    const { get } = await serve(framework, { limiter: limiterOf({ embedded: { share: 0.5 } }) })
    const { headers } = await get()
    expect(headers.get('ratelimit-policy')).toBe('"burst";q=5;w=1, "daily";q=25;w=86400')
    // A window ends on a whole millisecond, up to one later than configured.
    expect(headers.get('ratelimit')).toMatch(/^"burst";r=4;t=1, "daily";r=24;t=8640[01]$/)
  })

  test('onError replaces the response, and receives the error', async () => {
    const errors: unknown[] = []
    const onError = passing(framework, (error) => errors.push(error))
    const { get } = await serve(framework, { limiter: limiterOf(), onError })
    const response = await get()
    expect([response.status, await response.text()]).toEqual([200, 'through'])
    expect(errors).toHaveLength(1)
    expect(TollgateError.is(errors[0]) && errors[0].code).toBe('STORE_UNAVAILABLE')
  })

  test("errors of the user's functions reach the framework unchanged", async () => {
    const limiter = new RateLimiter(gcra({ limit: 1, period: '1s' }))
    const key = async () => Promise.reject(new Error('who are you?'))
    const { get, route } = await serve(framework, { limiter, key })
    expect((await get()).status).toBe(500)
    expect(route).not.toHaveBeenCalled()
  })

  test('in shadow mode a failure refuses nobody either, and causes one warning', async () => {
    const { get } = await serve(framework, { limiter: limiterOf(), observe: true })
    const warnings = await warningsOf(async () => {
      expect([(await get()).status, (await get()).status]).toEqual([200, 200])
    })
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_OBSERVE_FAILED'])
  })
})
