/** `tollgate/trpc` over real HTTP, with the client of tRPC. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createTRPCClient, httpBatchLink, httpLink, TRPCClientError } from '@trpc/client'
import { initTRPC, TRPCError } from '@trpc/server'
import { createHTTPServer } from '@trpc/server/adapters/standalone'
import {
  type Decision,
  fixedWindow,
  gcra,
  MemoryStore,
  RateLimiter,
  RedisStore,
  TollgateError,
  tiers,
} from '../../ts/index.js'
import { RateLimitError, rateLimit, type TrpcRateLimitOptions } from '../../ts/middleware/trpc.js'
import { TestClock } from '../../ts/testing/index.js'
import { until } from '../servers/until.js'
import { warningsOf } from './warnings.js'

const t = initTRPC.context<{ readonly userId: string | undefined }>().create({
  errorFormatter: ({ shape, error }) => {
    const decision = error.cause instanceof RateLimitError ? error.cause.decision : undefined
    return { ...shape, data: { ...shape.data, retryAfterMs: decision?.retryAfterMs ?? null } }
  },
})

/** The call of a procedure with an input, as the options of the tests see it. */
interface Call {
  readonly ctx: { readonly userId: string | undefined }
  readonly input: { readonly items: number }
  readonly path: string
}

type Options = TrpcRateLimitOptions<string, string, Call>

const limiterOf = (limit: number) => new RateLimiter(fixedWindow({ limit, window: '1h' }))

/** A server with one limited procedure, and what its resolver saw. */
async function served(options: Partial<Options> & Pick<Options, 'limiter'>) {
  const seen: (Decision | undefined)[] = []
  const limited = t.procedure
    .input((value: unknown) => value as { readonly items: number })
    .use(rateLimit({ key: ({ ctx }) => ctx.userId as string, ...(options as object) } as Options) as never)
  const router = t.router({
    list: limited.query(({ ctx, input }) => {
      seen.push((ctx as { readonly rateLimit?: Decision }).rateLimit)
      if (input.items === 0) {
        throw new TRPCError({ code: 'NOT_FOUND' })
      }
      return 'listed'
    }),
  })
  const createContext = ({ req }: { req: { headers: { readonly authorization?: string | undefined } } }) => {
    return { userId: req.headers.authorization }
  }
  const server = createHTTPServer({ router, createContext })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const clientOf = (link: typeof httpLink | typeof httpBatchLink, user: string) => {
    return createTRPCClient<typeof router>({
      links: [(link as typeof httpLink)({ url, headers: user ? { authorization: user } : {} })],
    })
  }
  return {
    seen,
    call: (items = 1, user = 'ann') => clientOf(httpLink, user).list.query({ items }),
    batch: (user = 'ann') => {
      const client = clientOf(httpBatchLink, user)
      return Promise.allSettled([1, 2, 3].map((items) => client.list.query({ items })))
    },
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

/** What the errors of the tests' server contain. */
interface ErrorData {
  readonly code: string
  readonly httpStatus: number
  readonly retryAfterMs: number | null
}

/** The code, the status and the retry of an error. */
async function errorOf(call: Promise<unknown>) {
  const error: unknown = await call.catch((error) => error)
  expect(error).toBeInstanceOf(TRPCClientError)
  const { data, message } = error as { readonly data: ErrorData; readonly message: string }
  const { code, httpStatus, retryAfterMs } = data
  return { code, httpStatus, retryAfterMs, message }
}

test('admitted calls have the decision in their context, refused ones an error with its code and retry', async () => {
  await using app = await served({ limiter: limiterOf(2) })
  expect(await app.call()).toBe('listed')
  expect(await app.call()).toBe('listed')
  expect(app.seen.map((decision) => decision?.remaining)).toEqual([1, 0])
  const { retryAfterMs, ...refused } = await errorOf(app.call())
  expect(refused).toEqual({
    code: 'TOO_MANY_REQUESTS',
    httpStatus: 429,
    message: 'Too many requests, please try again later.',
  })
  expect(retryAfterMs).toBeGreaterThan(3_590_000)
  expect(await app.call(1, 'ben')).toBe('listed')
})

test('a cost that can never fit, and a tier that does not exist, have codes of their own', async () => {
  await using app = await served({ limiter: limiterOf(2), cost: ({ input }) => input.items })
  expect(await errorOf(app.call(3))).toEqual({
    code: 'PAYLOAD_TOO_LARGE',
    httpStatus: 413,
    message: 'This request costs more than its limit can ever allow. Do not send it again unchanged.',
    retryAfterMs: null,
  })
  const policies = tiers({ free: gcra({ limit: 1, period: '1s' }), pro: gcra({ limit: 9, period: '1s' }) })
  await using mistaken = await served({ limiter: new RateLimiter(policies) as never, tier: () => 'gold' })
  const warnings = await warningsOf(async () => {
    expect(await errorOf(mistaken.call())).toMatchObject({ code: 'INTERNAL_SERVER_ERROR', httpStatus: 500 })
  })
  expect(warnings[0]?.message).toMatch(/was answered with 500: .+ "free", "pro", got "gold"/)
})

test('each call of a batch is counted once, without a warning', async () => {
  const limiter = limiterOf(2)
  await using app = await served({ limiter })
  const warnings = await warningsOf(async () => {
    const results = await app.batch()
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'fulfilled', 'rejected'])
  })
  expect(warnings).toEqual([])
})

test('one limiter twice in a procedure causes the warning', async () => {
  const limiter = limiterOf(10)
  const options = { limiter, key: () => 'a' }
  const router = t.router({
    twice: t.procedure
      .use(rateLimit(options))
      .use(rateLimit(options))
      .query(() => 'done'),
  })
  const warnings = await warningsOf(async () => {
    expect(await router.createCaller({ userId: 'a' }).twice()).toBe('done')
  })
  expect(warnings).toEqual([expect.objectContaining({ code: 'TOLLGATE_COUNTED_TWICE' })])
})

test('cost, skip and onRefused get the call; a missing key is a bad request', async () => {
  const refused: string[] = []
  const limiter = limiterOf(5)
  await using app = await served({
    limiter,
    cost: ({ input }) => input.items,
    skip: ({ ctx }) => ctx.userId === 'admin',
    onRefused: ({ path }, decision) => void refused.push(`${path} ${decision.status}`),
    message: (_, { remaining }) => `${remaining} left`,
  })
  expect(await app.call(4)).toBe('listed')
  expect(await errorOf(app.call(3))).toMatchObject({ code: 'TOO_MANY_REQUESTS', message: '1 left' })
  expect(refused).toEqual(['list refused'])
  expect(await app.call(99, 'admin')).toBe('listed')
  expect(await errorOf(app.call(-1))).toMatchObject({ code: 'BAD_REQUEST', httpStatus: 400 })
  expect(await errorOf(app.call(1, ''))).toMatchObject({ code: 'BAD_REQUEST', httpStatus: 400 })
  expect((await limiter.peek('ann')).used).toBe(4)
})

test.each([
  [401, 'UNAUTHORIZED', 401],
  [403, 'FORBIDDEN', 403],
  [418, 'BAD_REQUEST', 400],
])('onInvalidInput: the status %p is code %p', async (statusCode, code, httpStatus) => {
  const onInvalidInput = () => ({ statusCode, message: 'no user' })
  await using app = await served({ limiter: limiterOf(1), onInvalidInput })
  expect(await errorOf(app.call(1, ''))).toMatchObject({ code, httpStatus, message: 'no user' })
})

test('refundWhen: the units of a failed call come back', async () => {
  const limiter = limiterOf(5)
  await using app = await served({ limiter, refundWhen: 'failed' })
  await errorOf(app.call(0))
  expect(await limiter.peek('ann')).toMatchObject({ used: 0 })
  await app.call()
  expect(await limiter.peek('ann')).toMatchObject({ used: 1 })
})

test('a router without createContext: the context of an admitted call has the decision', async () => {
  const bare = initTRPC.create()
  const limiter = limiterOf(5)
  const router = bare.router({
    used: bare.procedure.use(rateLimit({ limiter, key: () => 'ann' })).query(({ ctx }) => ctx.rateLimit?.used),
  })
  for (const [index, context] of [undefined, null, {}].entries()) {
    expect(await router.createCaller(context as never).used()).toBe(index + 1)
  }
  const server = createHTTPServer({ router })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const client = createTRPCClient<typeof router>({ links: [httpLink({ url })] })
    expect(await client.used.query()).toBe(4)
  } finally {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
})

test('delay: a call over the limit waits for its turn', async () => {
  const clock = new TestClock()
  const limiter = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }), { store: new MemoryStore({ clock }) })
  await using app = await served({ limiter, delay: '5s' })
  const sent = app.batch()
  await until('two calls wait', async () => app.seen.length === 1 && clock.timerCount === 2)
  await clock.advance(199)
  await until('one of them runs', async () => app.seen.length === 2)
  expect(clock.timerCount).toBe(1)
  await clock.advance(1)
  expect((await sent).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled'])
  expect(app.seen.length).toBe(3)
})

test('observe: every call passes, with its decision', async () => {
  await using app = await served({ limiter: limiterOf(1), observe: true })
  await app.call()
  await app.call()
  expect(app.seen.map((decision) => decision?.allowed)).toEqual([true, false])
})

describe('without Redis', () => {
  const store = new RedisStore({ url: 'redis://127.0.0.1:9', commandTimeout: 100 })
  const policy = fixedWindow({ limit: 1, window: '1h' })
  afterAll(() => store.close())

  test('a call fails as unavailable, as a refusal without a store, or as onError says', async () => {
    const limiter = new RateLimiter(policy, { store, prefix: 'a' })
    const refusing = new RateLimiter(policy, { store, prefix: 'b', onStoreFailure: 'refuse' })
    for (const options of [{ limiter }, { limiter: refusing }]) {
      await using app = await served(options)
      expect(await errorOf(app.call())).toMatchObject({ code: 'SERVICE_UNAVAILABLE', httpStatus: 503 })
      // The data has the stack, outside of production.
      const { message, data } = await app.call().catch((error) => error)
      expect(JSON.stringify([message, data])).not.toMatch(/127\.0\.0\.1|Redis/)
    }
    const errors: unknown[] = []
    await using lenient = await served({ limiter, onError: (error) => void errors.push(error) })
    expect(await lenient.call()).toBe('listed')
    expect(errors).toEqual([expect.any(TollgateError)])
    await using strict = await served({
      limiter,
      onError: () => {
        throw new TRPCError({ code: 'CONFLICT' })
      },
    })
    expect(await errorOf(strict.call())).toMatchObject({ code: 'CONFLICT' })
  })
})

test('types: the key and its parts are those of the limiter', () => {
  const limiter = limiterOf(1)
  const byIp = new RateLimiter({ all: fixedWindow({ limit: 1, window: '1h', per: 'ip' }) })
  const named = initTRPC.context<{ readonly userId: string; readonly ip?: string }>().create()
  const procedures = [
    named.procedure.use(rateLimit({ limiter, key: ({ ctx }) => ctx.userId })).query(({ ctx }) => ctx.rateLimit?.used),
    named.procedure
      .use(({ next }) => next({ ctx: { address: '192.0.2.1' } }))
      .use(rateLimit({ limiter: byIp, key: ({ ctx }) => ({ ip: ctx.address }), requestProperty: 'limit' }))
      .query(({ ctx }) => [ctx.address, ctx.limit?.used]),
    // @ts-expect-error: the key may be undefined.
    named.procedure.use(rateLimit({ limiter, key: ({ ctx }) => ctx.ip })),
    // @ts-expect-error: the keys have parts.
    named.procedure.use(rateLimit({ limiter: byIp, key: ({ ctx }) => ctx.userId })),
  ]
  expect(procedures.length).toBe(4)
  // @ts-expect-error: there is no default key.
  expect(() => rateLimit({ limiter })).toThrow('key must be given')
})

test.each([
  [{ headers: 'draft-8' }, 'rateLimit: headers cannot be given: a refusal is a TRPCError with code TOO_MANY_REQUESTS'],
  [{ statusCode: 420 }, 'rateLimit: statusCode cannot be given'],
  [{ handler: () => {} }, 'rateLimit: handler cannot be given'],
  [{ keyGenerator: () => 'a' }, 'keyGenerator'],
  [{ key: 'a' }, 'rateLimit: key must be a function'],
])('%j is an error', (options, message) => {
  expect(() => rateLimit({ limiter: limiterOf(1), key: () => 'a', ...options } as never)).toThrow(message)
})

test.each([[limiterOf(1)], [fixedWindow({ limit: 1, window: '1h' })], [undefined]])('options are required', (value) => {
  expect(() => rateLimit(value as never)).toThrow('rateLimit')
})
