/** Responses as `application/problem+json`, in each framework. */
import type { Decision } from '../../ts/index.js'
import { fixedWindow, gcra, RateLimiter } from '../../ts/index.js'
import { FRAMEWORKS, type Framework, type ServedApp } from './frameworks.js'
import { warningsOf } from './warnings.js'

const open: ServedApp[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((served) => served.close()))
})

async function serve(framework: Framework, options: object) {
  const key = (...args: unknown[]) => framework.header(args, 'x-user') ?? 'ann'
  const route = async () => ({ status: 200, body: 'through' })
  const served = await framework.serve({ options: { key, problemDetails: true, ...options }, route })
  open.push(served)
  return () => fetch(served.url)
}

/** The problem in a response. */
async function problemOf(response: Response): Promise<unknown> {
  expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json(; charset=utf-8)?$/i)
  return response.json()
}

const REGISTRY = 'https://iana.org/assignments/http-problem-types'

const policies = {
  burst: gcra({ limit: 2, period: '1m' }),
  daily: fixedWindow({ limit: 2, window: '1d' }),
  monthly: fixedWindow({ limit: 9, window: '30d' }),
}

describe.each(FRAMEWORKS.map((framework) => [framework.name, framework] as const))('%s', (_, framework) => {
  test('a refusal names the limits that refused', async () => {
    const get = await serve(framework, { limiter: new RateLimiter(policies), cost: 2 })
    expect([(await get()).status, (await get()).status]).toEqual([200, 429])
    const refused = await get()
    expect(refused.headers.get('retry-after')).not.toBeNull()
    expect(await problemOf(refused)).toEqual({
      type: `${REGISTRY}#quota-exceeded`,
      title: 'Request cannot be satisfied as assigned quota has been exceeded',
      status: 429,
      detail: 'Too many requests, please try again later.',
      'violated-policies': ['burst', 'daily'],
    })
  })

  test('a cost that never fits is too large, and not too early', async () => {
    const get = await serve(framework, { limiter: new RateLimiter(policies), cost: 5, statusCode: 420 })
    const refused = await get()
    expect(refused.status).toBe(413)
    expect(refused.headers.get('retry-after')).toBeNull()
    expect(await problemOf(refused)).toEqual({
      type: 'about:blank',
      title: 'Content Too Large',
      status: 413,
      detail: 'This request costs more than its limit can ever allow. Do not send it again unchanged.',
      'violated-policies': ['burst', 'daily'],
    })
  })

  test('a blocked key is an abnormal usage', async () => {
    const limiter = new RateLimiter(policies)
    await limiter.block('ann', '1h')
    const get = await serve(framework, { limiter })
    expect(await problemOf(await get())).toMatchObject({
      type: `${REGISTRY}#abnormal-usage-detected`,
      status: 429,
      'violated-policies': ['burst', 'daily', 'monthly'],
    })
  })

  test('a message is the detail, or adds members', async () => {
    const messages = ['slow down', { instance: '/quota/7', title: 'Slow down' }]
    const message = (...args: unknown[]) => messages[(args.at(-1) as Decision).allowed ? 2 : next++]
    let next = 0
    const limiter = new RateLimiter(policies)
    await limiter.take('ann', 2)
    const get = await serve(framework, { limiter, statusCode: 420, message })
    expect(await problemOf(await get())).toMatchObject({ status: 420, detail: 'slow down' })
    const second = (await problemOf(await get())) as object
    expect(second).toMatchObject({ type: `${REGISTRY}#quota-exceeded`, title: 'Slow down', instance: '/quota/7' })
    expect(second).not.toHaveProperty('detail')
  })

  test('a request without a key is a problem without a type of its own', async () => {
    const answers = [undefined, { statusCode: 401, message: 'no key' }]
    const get = await serve(framework, {
      limiter: new RateLimiter(policies),
      key: () => '',
      onInvalidInput: () => answers.shift(),
    })
    const [first, second] = [await get(), await get()]
    expect([first.status, await problemOf(first)]).toEqual([
      400,
      { type: 'about:blank', title: 'Bad Request', status: 400 },
    ])
    expect([second.status, await problemOf(second)]).toEqual([
      401,
      { type: 'about:blank', status: 401, detail: 'no key' },
    ])
  })

  test('without the option no response is a problem', async () => {
    const get = await serve(framework, { limiter: new RateLimiter(policies), cost: 5, problemDetails: false })
    expect((await get()).headers.get('content-type')).not.toContain('problem')
    const invalid = await serve(framework, { limiter: new RateLimiter(policies), key: () => '', problemDetails: false })
    await warningsOf(async () => expect((await invalid()).headers.get('content-type')).not.toContain('problem'))
  })
})
