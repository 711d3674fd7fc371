/**
 * Requests with an invalid key or cost, in each framework: they get status 400, and cause a
 * warning.
 */
import { fixedWindow, RateLimiter, TollgateError } from '../../ts/index.js'
import { FRAMEWORKS, type Framework, passing, type ServedApp } from './frameworks.js'
import { warningsOf } from './warnings.js'

const open: ServedApp[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((served) => served.close()))
})

async function serve(framework: Framework, options: object) {
  const limiter = new RateLimiter(fixedWindow({ limit: 5, window: '1h' }))
  const route = jest.fn(async () => ({ status: 200, body: 'through' }))
  const key = (...args: unknown[]) => framework.header(args, 'x-user') ?? 'ann'
  const served = await framework.serve({ options: { limiter, key, ...options }, route })
  open.push(served)
  const get = (headers: Record<string, string> = {}) => fetch(served.url, { headers })
  return { get, route, limiter }
}

/** Throws the error of reading a property of a missing body. */
function readBody(): string {
  const request = {} as { body: { user: string } }
  return request.body.user
}

function throwing(error: unknown): () => never {
  return () => {
    throw error
  }
}

/** An error with an HTTP status, like the errors of `http-errors`. */
const errorWithStatus = (status: number) => Object.assign(new TypeError('no'), { status, statusCode: status })

const SECRET = 'sk-live-123'

/** Results of the user's functions, and the reasons in the warnings. */
const INVALID: readonly (readonly [string, object, RegExp])[] = [
  ['a missing key', { key: () => undefined }, /key must be a string, got undefined/],
  ['no key from an async function', { key: async () => null }, /key must be a string, got null/],
  ['an empty key', { key: () => '' }, /key must not be empty/],
  ['a number as the key', { key: () => 42 }, /key must be a string, got number/],
  ['a list as the key', { key: () => [SECRET, SECRET] }, /key must be a string, got object/],
  [
    'a key that is too long, without digests',
    { key: () => SECRET.repeat(200), hashLongKeys: false },
    /key must be at most 1024 bytes of UTF-8, got 2200/,
  ],
  ['a long key that is ill-formed', { key: () => `${SECRET.repeat(200)}\ud800` }, /key must be a well-formed string/],
  ['a key that is ill-formed', { key: () => `${SECRET}\ud800` }, /key must be a well-formed string/],
  ['a cost of NaN', { cost: () => Number('many') }, /cost must be a whole number from 1 .* got NaN/],
  ['a cost of 0, later', { cost: async () => 0 }, /cost must be a whole number from 1 .* got 0/],
  ['a negative cost', { cost: () => -1 }, /cost must be a whole number from 1 .* got -1/],
  ['a text as the cost', { cost: () => '5' }, /cost must be a whole number from 1 .* got "5"/],
  ['an object as the cost', { cost: () => ({ units: 1 }) }, /cost must be a whole number from 1 .* got an object/],
  ['options as the cost', { cost: () => ({ cost: 1, tag: 'x' }) }, /cost must be a whole number from 1/],
  ['a key function without its body', { key: readBody }, /key threw a TypeError at .*invalid-input/],
  ['an async one', { key: async () => readBody() }, /key threw a TypeError at /],
  ['a cost function without its body', { cost: readBody }, /cost threw a TypeError at /],
  ['a skip function without its body', { skip: async () => readBody() }, /skip threw a TypeError at /],
  ['a key from invalid JSON', { key: () => JSON.parse(SECRET) }, /key threw a SyntaxError at /],
  ['a key from an invalid URI component', { key: () => decodeURIComponent('%') }, /key threw a URIError at /],
  ['a cost from an invalid number', { cost: () => Number(BigInt(SECRET)) }, /cost threw a SyntaxError at /],
  ['a cost out of range', { cost: () => (1).toFixed(1_000) }, /cost threw a RangeError at /],
  [
    'an error of the package',
    { key: throwing(new TollgateError('INVALID_KEY', 'key is no address')) },
    /key is no address/,
  ],
]

describe.each(FRAMEWORKS.map((framework) => [framework.name, framework] as const))('%s', (name, framework) => {
  const isNest = name.startsWith('Nest')
  const module = `tollgate/${/^[a-z]+/.exec(name.toLowerCase())?.[0]}: `

  test.each(INVALID)('%s is answered with 400, with one warning', async (_, options, reason) => {
    const { get, route } = await serve(framework, options)
    const warnings = await warningsOf(async () => {
      for (let request = 0; request < 2; request++) {
        const response = await get()
        const body = await response.text()
        expect([response.status, body]).toEqual([
          400,
          isNest ? '{"statusCode":400,"message":"Bad Request"}' : 'Bad Request',
        ])
        expect(response.headers.get('content-type')).toMatch(isNest ? /^application\/json/ : /^text\/plain/i)
        expect([...response.headers.keys()].filter((field) => /ratelimit|retry/.test(field))).toEqual([])
      }
    })
    expect(route).not.toHaveBeenCalled()
    expect(warnings).toEqual([{ code: 'TOLLGATE_INVALID_INPUT', message: expect.stringMatching(reason) }])
    expect(warnings[0]?.message.startsWith(`${module}a request was answered with 400: `)).toBe(true)
    expect(warnings[0]?.message).toMatch(/onInvalidInput is called for each/)
    expect(warnings[0]?.message).not.toContain(SECRET)
  })

  test('requests with a key are limited as usual', async () => {
    const key = (...args: unknown[]) => framework.header(args, 'x-user')
    const { get, limiter } = await serve(framework, { key })
    await warningsOf(async () => {
      expect([(await get()).status, (await get({ 'x-user': 'ann' })).status]).toEqual([400, 200])
    })
    expect((await limiter.peek('ann')).remaining).toBe(4)
  })

  test('onError, which could admit requests, is not called', async () => {
    const onError = jest.fn(passing(framework, () => {}) as () => unknown)
    const { get, route } = await serve(framework, { key: () => '', onError })
    await warningsOf(async () => expect((await get()).status).toBe(400))
    expect(onError).not.toHaveBeenCalled()
    expect(route).not.toHaveBeenCalled()
  })

  test('onInvalidInput receives each error and request; then there is no warning, and the answer is 400', async () => {
    const received: unknown[] = []
    const onInvalidInput = async (error: unknown, ...args: unknown[]) => {
      received.push([(error as Error).name, framework.header(args, 'x-user')])
    }
    const { get, route } = await serve(framework, { key: readBody, onInvalidInput })
    const warnings = await warningsOf(async () => {
      for (const user of ['ann', 'bob']) {
        const response = await get({ 'x-user': user })
        expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('Bad Request')])
      }
    })
    expect([warnings, received]).toEqual([
      [],
      [
        ['TypeError', 'ann'],
        ['TypeError', 'bob'],
      ],
    ])
    expect(route).not.toHaveBeenCalled()
  })

  test('it may return a key, a cost, or both', async () => {
    const given: object[] = [{ key: 'nobody' }, { cost: 2 }, { key: 'nobody', cost: 3 }]
    const answers = [...given]
    const cost = (...args: unknown[]) => Number(framework.header(args, 'x-cost') ?? 1)
    const key = (...args: unknown[]) => framework.header(args, 'x-user')
    const onInvalidInput = () => answers.shift()
    const { get, limiter } = await serve(framework, { key, cost, onInvalidInput })
    expect((await get()).status).toBe(200)
    expect((await limiter.peek('nobody')).remaining).toBe(4)
    expect((await get({ 'x-user': 'ann', 'x-cost': 'two' })).status).toBe(200)
    expect((await limiter.peek('ann')).remaining).toBe(3)
    const last = await get({ 'x-cost': 'three' })
    expect([last.status, last.headers.get('ratelimit')]).toEqual([200, expect.stringContaining('"default";r=1;')])
    expect((await limiter.peek('nobody')).remaining).toBe(1)
  })

  test('an invalid key from it gets status 400 and a warning', async () => {
    const onInvalidInput = jest.fn(() => ({ key: '' }))
    const { get } = await serve(framework, { key: () => undefined, onInvalidInput })
    const warnings = await warningsOf(async () => expect((await get()).status).toBe(400))
    expect(onInvalidInput).toHaveBeenCalledTimes(1)
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_INVALID_INPUT'])
  })

  test('it may return another status and body', async () => {
    const answers: object[] = [{ statusCode: 401, message: 'Who are you?' }, { message: { error: 'no key' } }]
    const { get } = await serve(framework, { key: () => '', onInvalidInput: () => answers.shift() })
    const first = await get()
    expect(first.status).toBe(401)
    expect(await first.text()).toContain('Who are you?')
    const second = await get()
    expect(second.headers.get('content-type')).toMatch(/^application\/json/i)
    expect([second.status, await second.json()]).toEqual([400, { error: 'no key' }])
  })

  test('it may send the response itself', async () => {
    const { get, route } = await serve(framework, { key: () => '', onInvalidInput: answer422(framework) })
    const response = await get()
    expect([response.status, await response.text()]).toEqual([422, expect.stringContaining('no key')])
    expect(route).not.toHaveBeenCalled()
  })

  test('its errors go to the framework', async () => {
    const { get } = await serve(framework, { key: () => '', onInvalidInput: throwing(new Error('the log is full')) })
    expect((await get()).status).toBe(500)
  })

  test.each<[string, unknown]>([
    ['of the base class', new Error('who are you?')],
    ['from a bug in the program', new ReferenceError('user is not defined')],
    ['caused by a failed request', Object.assign(new TypeError('fetch failed'), { cause: new Error('ECONNREFUSED') })],
    ['that is a string', 'who are you?'],
  ])("an error %s is the user's own failure", async (_, error) => {
    for (const key of [throwing(error), async () => throwing(error)()]) {
      const received: unknown[] = []
      const onError = passing(framework, (error) => received.push(error))
      const { get } = await serve(framework, { key, onError })
      expect(await warningsOf(async () => expect((await get()).status).toBe(200))).toEqual([])
      expect(received).toEqual([error])
    }
  })

  test('an error with a status is answered by the framework', async () => {
    const { HttpException } = jest.requireActual<typeof import('@nestjs/common')>('@nestjs/common')
    const { HTTPException } = jest.requireActual<typeof import('hono/http-exception')>('hono/http-exception')
    const error = isNest
      ? new HttpException('no', 401)
      : name === 'Hono'
        ? new HTTPException(401)
        : errorWithStatus(401)
    const { get, route } = await serve(framework, { key: throwing(error) })
    const response = await warningsOf(async () => {
      // `withRateLimit` throws it, and the caller of the handler does not know its status.
      expect((await get()).status).toBe(name === 'fetch' ? 500 : 401)
    })
    expect(response).toEqual([])
    expect(route).not.toHaveBeenCalled()
  })

  test('in shadow mode such requests pass with one warning, or count by the returned key and cost', async () => {
    const { get } = await serve(framework, { key: () => undefined, observe: true })
    const warnings = await warningsOf(async () => {
      expect([(await get()).status, (await get()).status]).toEqual([200, 200])
    })
    const message = expect.stringMatching(/a request passed, and would be answered with 400: key must be a string/)
    expect(warnings).toEqual([{ code: 'TOLLGATE_INVALID_INPUT', message }])
    const answers = [{ key: 'nobody' }, undefined]
    const counted = await serve(framework, { key: () => '', observe: true, onInvalidInput: () => answers.shift() })
    expect(
      await warningsOf(async () => {
        expect([(await counted.get()).status, (await counted.get()).status]).toEqual([200, 200])
      }),
    ).toEqual([])
    expect((await counted.limiter.peek('nobody')).remaining).toBe(4)
  })

  test('keys with parts: a missing part', async () => {
    const limiter = new RateLimiter(fixedWindow({ limit: 5, window: '1h', per: 'account' }))
    const key = (...args: unknown[]) => ({ account: framework.header(args, 'x-user') })
    const { get } = await serve(framework, { limiter, key })
    const [warning] = await warningsOf(async () => {
      expect([(await get()).status, (await get({ 'x-user': 'ann' })).status]).toEqual([400, 200])
    })
    expect(warning?.message).toMatch(/key.account must be a string, got undefined/)
  })
})

/** An `onInvalidInput` that answers as its framework's handlers do. */
function answer422({ name }: Framework): unknown {
  const { HttpException } = jest.requireActual<typeof import('@nestjs/common')>('@nestjs/common')
  const hooks: { readonly [name: string]: unknown } = {
    Koa: (_: unknown, context: { status: number; body: string }) => {
      context.status = 422
      context.body = 'no key'
    },
    Fastify: (_: unknown, __: unknown, reply: { code(code: number): { send(body: string): void } }) =>
      reply.code(422).send('no key'),
    Hono: (_: unknown, context: { text(body: string, status: number): unknown }) => context.text('no key', 422),
    fetch: async () => new Response('no key', { status: 422 }),
  }
  if (name.startsWith('Nest')) {
    return () => {
      throw new HttpException('no key', 422)
    }
  }
  return (
    hooks[name] ??
    ((_: unknown, __: unknown, response: { status(status: number): { send(body: string): void } }) =>
      response.status(422).send('no key'))
  )
}
