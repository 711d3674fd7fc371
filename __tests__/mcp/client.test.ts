/** The limits of a client that calls tools, without the SDK. */
import { fixedWindow, gcra, MemoryStore, RateLimiter, TollgateError, tiers } from '../../ts/index.js'
import { limitToolCalls } from '../../ts/mcp/index.js'
import { TestClock } from '../../ts/testing/index.js'
import { anything, failureOf, rejectionOf } from '../failure.js'
import { answer } from './fake-sdk.js'

const refusal = (retryAfterMs: number | null, more: object = {}) => ({
  ...answer('refused'),
  isError: true,
  _meta: { 'tollgate/refusal': { status: 'refused', retryAfterMs } },
  ...more,
})

/** A limited client, and the calls that it has sent. `answers` are the results of the calls, or the errors. */
function setUp(
  answers: readonly unknown[] = [],
  options: object = {},
  policy: object = gcra({ limit: 100, period: '1s' }),
) {
  const clock = new TestClock()
  const limiter = new RateLimiter(anything(policy), { store: new MemoryStore({ clock }) }) as RateLimiter
  const sent: { request: object; options: { signal: AbortSignal; timeout?: number } }[] = []
  const client = {
    name: 'client',
    getNegotiatedProtocolVersion: () => undefined,
    async callTool(this: { name: string }, request: object, options?: { signal: AbortSignal }): Promise<unknown> {
      expect(this.name).toBe('client')
      const given = answers[sent.push({ request, options: anything(options) }) - 1] ?? answer()
      if (given instanceof Error) {
        throw given
      }
      return given
    },
  }
  limitToolCalls(anything({ limiter, key: 'server', clock, ...options }))(client)
  const call = (name = 'search', options?: object) => client.callTool({ name }, anything(options))
  return { clock, limiter, sent, call }
}

test('a call is charged, and sent with its options', async () => {
  const { call, sent, limiter } = setUp()
  expect(await call('search', { timeout: 5 })).toEqual(answer())
  expect(sent).toMatchObject([{ request: { name: 'search' }, options: { timeout: 5, signal: { aborted: false } } }])
  expect((await limiter.peek('server')).used).toBe(1)
})

test('the key, the cost and the tier may depend on the call', async () => {
  const tiered = {
    a: tiers({ free: fixedWindow({ limit: 5, window: '1h' }), pro: fixedWindow({ limit: 9, window: '1h' }) }),
  }
  const options = {
    key: async ({ name }: { name: string }) => `key of ${name}`,
    cost: ({ name }: { name: string }) => name.length,
    tier: () => 'pro',
  }
  const { call, limiter } = setUp([], options, tiered)
  await call('search')
  expect((await limiter.peek('key of search', anything({ cost: 1, tier: 'pro' }))).used).toBe(6)
})

test('a call waits for its turn', async () => {
  const { call, sent, clock } = setUp([], { maxWait: '2m' }, gcra({ limit: 1, period: '1m' }))
  const calls = [call(), call()]
  await clock.advance('59s')
  expect(sent).toHaveLength(1)
  await clock.advance('1s')
  await Promise.all(calls)
  expect(sent).toHaveLength(2)
})

test('a call that would wait for too long is not sent', async () => {
  const { call, sent } = setUp([], { maxWait: '30s' }, gcra({ limit: 1, period: '1m' }))
  await call()
  expect((await rejectionOf(call())).code).toBe('WAIT_TOO_LONG')
  expect(sent).toHaveLength(1)
})

test('its signal ends the wait, and is passed on', async () => {
  const { call, sent, clock } = setUp([], {}, gcra({ limit: 1, period: '1m' }))
  const controller = new AbortController()
  const { signal } = controller
  await call('search', { signal })
  const waiting = call('search', { signal })
  await clock.advance('1s')
  controller.abort()
  expect((await rejectionOf(waiting)).code).toBe('ABORTED')
  expect(sent).toHaveLength(1)
})

test.each<[string, unknown, object?]>([
  ['result of this package', refusal(5_000)],
  ['JSON-RPC error', Object.assign(new Error('limited'), { code: 429, data: { retryAfterMs: 5_000 } })],
  [
    'result that refusalOf knows',
    answer('slow down'),
    { refusalOf: (result: object) => ('content' in result ? '5s' : undefined) },
  ],
])('a refusal as a %s pauses the key, and the call is sent again', async (_, given, options = {}) => {
  const { call, sent, limiter, clock } = setUp([given], { ...options, retries: 1 })
  const result = call()
  await clock.advance('4999ms')
  expect(await limiter.peek('server')).toMatchObject({ status: 'blocked', retryAfterMs: 1 })
  expect(sent).toHaveLength(1)
  await clock.advance('1ms')
  await result
  expect(sent).toHaveLength(2)
})

test('refusalOf leaves other refusals to this package', async () => {
  const { call, limiter, clock } = setUp([refusal(5_000)], { refusalOf: () => undefined, retries: 0 })
  expect(await call()).toEqual(refusal(5_000))
  await clock.advance('1s')
  expect(await limiter.peek('server')).toMatchObject({ status: 'blocked', retryAfterMs: 4_000 })
})

test.each<[string, unknown]>([
  ['that names no time', refusal(null)],
  ['of an unknown form', { ...answer(), isError: true, _meta: { 'tollgate/refusal': 5 } }],
  ['that is no error', refusal(5_000, { isError: undefined })],
  ['without a refusal', { ...answer(), isError: true, _meta: null }],
])('a result %s is the answer', async (_, given) => {
  const { call, sent, limiter } = setUp([given])
  expect(await call()).toEqual(given)
  expect(sent).toHaveLength(1)
  expect((await limiter.peek('server')).allowed).toBe(true)
})

test('a call that has failed is not sent again: its tool may have run', async () => {
  const error = Object.assign(new Error('the connection was lost'), { code: 'ECONNRESET' })
  const { call, sent } = setUp([error])
  await expect(call()).rejects.toBe(error)
  expect(sent).toHaveLength(1)
})

test('an error of the key rejects the call', async () => {
  const error = new Error('no key')
  const { call, sent } = setUp([], {
    key: () => {
      throw error
    },
  })
  await expect(call()).rejects.toBe(error)
  expect(sent).toHaveLength(0)
})

test('wrong options', () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1s' }))
  const messageOf = (options: unknown) => failureOf(() => limitToolCalls(anything(options))).message
  expect(messageOf(undefined)).toContain('limitToolCalls')
  expect(messageOf({ limiter })).toContain('key must be given')
  expect(messageOf({ key: 'a' })).toContain('limiter must be a RateLimiter')
  expect(messageOf({ limiter, key: 'a', holdUntil: 'body' })).toContain('has no option "holdUntil"')
  // In version 1 of the SDK the options of a call are the third argument.
  const version1 = { callTool: async () => answer() }
  for (const client of [undefined, {}, version1]) {
    const error = failureOf(() => limitToolCalls({ limiter, key: 'a' })(anything(client)))
    expect(error).toBeInstanceOf(TollgateError)
    expect(error.message).toContain('client must be a Client of version 2 of the SDK')
  }
})
