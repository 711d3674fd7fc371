/** `tollgate/graphql` in GraphQL Yoga and Apollo Server, over real HTTP. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ApolloServer } from '@apollo/server'
import { startStandaloneServer } from '@apollo/server/standalone'
import { buildSchema, GraphQLError, type GraphQLSchema } from 'graphql'
import { createYoga } from 'graphql-yoga'
import { type Decision, fixedWindow, gcra, MemoryStore, RateLimiter, RedisStore, tiers } from '../../ts/index.js'
import {
  complexityOf,
  type GraphqlCall,
  type GraphqlRateLimitOptions,
  rateLimitPlugin,
  useRateLimit,
} from '../../ts/middleware/graphql.js'
import { TestClock } from '../../ts/testing/index.js'
import { until } from '../servers/until.js'
import { warningsOf } from './warnings.js'

const limiterOf = (limit: number) => new RateLimiter(fixedWindow({ limit, window: '1h' }))

interface Context {
  readonly user: string | undefined
  readonly rateLimit?: Decision
}

type Options = GraphqlRateLimitOptions<string, string, Context>
type Given = Partial<Options> & Pick<Options, 'limiter'>

interface App {
  readonly seen: (Decision | undefined)[]
  readonly url: string
  close(): Promise<unknown>
}

const ME = { id: 1, name: 'Ann', friends: [] }

/** The resolvers of the tests' schema. */
function rootOf(seen: App['seen']) {
  const resolved = (_: unknown, { rateLimit }: Context) => {
    seen.push(rateLimit)
    return ME
  }
  return {
    me: resolved,
    rename: resolved,
    users: () => [ME, ME],
    fail: () => {
      throw new GraphQLError('it failed')
    },
  }
}

const all = (options: Given): Options => ({ key: ({ context }) => context.user as string, ...options }) as Options

const SERVERS: readonly (readonly [string, (options: Given) => Promise<App>])[] = [
  [
    'Yoga',
    async (options) => {
      const seen: App['seen'] = []
      const schema = schemaWith(rootOf(seen))
      const yoga = createYoga({
        schema,
        plugins: [useRateLimit(all(options))],
        context: ({ request }) => ({ user: request.headers.get('authorization') ?? undefined }),
        batching: true,
        logging: false,
      })
      const server = createServer(yoga)
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`
      return {
        seen,
        url,
        close: async () => {
          server.closeAllConnections()
          await new Promise((resolve) => server.close(resolve))
        },
      }
    },
  ],
  [
    'Apollo',
    async (options) => {
      const seen: App['seen'] = []
      const server = new ApolloServer<Context>({
        schema: schemaWith(rootOf(seen)),
        plugins: [rateLimitPlugin(all(options))],
        allowBatchedHttpRequests: true,
        stopOnTerminationSignals: false,
      })
      const { url } = await startStandaloneServer(server, {
        listen: { port: 0, host: '127.0.0.1' },
        context: async ({ req }) => ({ user: req.headers.authorization }),
      })
      return { seen, url, close: () => server.stop() }
    },
  ],
]

/** The schema with a resolver for each root field. */
function schemaWith(root: Readonly<Record<string, (args: unknown, context: Context) => unknown>>): GraphQLSchema {
  const schema = buildSchema(`
    type Query { me: User, users(first: Int): [User!]!, fail: String }
    type Mutation { rename: User }
    type User { id: ID, name: String, friends(first: Int): [User!]! }
  `)
  for (const type of [schema.getQueryType(), schema.getMutationType()]) {
    for (const [name, field] of Object.entries(type?.getFields() ?? {})) {
      field.resolve = (_source, args, context) => root[name]?.(args, context)
    }
  }
  return schema
}

interface Extensions {
  readonly code?: string
  readonly http?: unknown
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: {
    readonly data?: unknown
    readonly errors?: readonly { readonly message: string; readonly extensions?: Extensions }[]
  }
}

async function send({ url }: App, body: unknown, user: string | undefined = 'ann'): Promise<Answer> {
  const headers = { 'content-type': 'application/json', ...(user !== '' && { authorization: user }) }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] }
}

const query = (text: string, variables?: object) => ({ query: text, variables })

describe.each(SERVERS)('%s', (_name, serve) => {
  let app: App

  afterEach(() => app.close())

  test('a refused operation has an error with its code, and the status and headers of HTTP', async () => {
    app = await serve({ limiter: limiterOf(2) })
    for (const text of ['{ me { name } }', 'mutation { rename { name } }']) {
      const { status, body } = await send(app, query(text))
      expect([status, body.errors]).toEqual([200, undefined])
    }
    expect(app.seen.map((decision) => decision?.remaining)).toEqual([1, 0])
    const { status, headers, body } = await send(app, query('{ me { name } }'))
    expect(status).toBe(429)
    expect(headers.get('retry-after')).toMatch(/^3[56]\d\d$/)
    expect(headers.get('ratelimit')).toMatch(/^"default";r=0;t=\d+$/)
    const [error] = body.errors ?? []
    expect(error?.message).toBe('Too many requests, please try again later.')
    expect(error?.extensions).toMatchObject({ code: 'TOO_MANY_REQUESTS', retryAfterMs: expect.any(Number) })
    expect(error?.extensions?.http).toBeUndefined()
    expect((await send(app, query('{ me { name } }'), 'ben')).status).toBe(200)
  })

  test('the cost is the complexity, with the variables', async () => {
    const limiter = limiterOf(100)
    app = await serve({ limiter, cost: complexityOf })
    const text = 'query Q($n: Int = 5) { users(first: $n) { name friends { id } } }'
    expect((await send(app, query(text))).status).toBe(200)
    // users, 5 users of a name, friends, and 10 ids.
    expect((await limiter.peek('ann')).used).toBe(1 + 5 * (1 + 1 + 10))
    // 601 of 100: no time helps.
    const { status, headers, body } = await send(app, query(text, { n: 50 }))
    expect([status, headers.get('retry-after'), headers.get('ratelimit')]).toEqual([413, null, '"default";r=39'])
    expect(body.errors?.[0]).toMatchObject({
      message: 'This request costs more than its limit can ever allow. Do not send it again unchanged.',
      extensions: { code: 'PAYLOAD_TOO_LARGE', retryAfterMs: null },
    })
    expect((await limiter.peek('ann')).used).toBe(61)
  })

  test('each operation of a batch is counted once, without a warning', async () => {
    const limiter = limiterOf(10)
    app = await serve({ limiter })
    const warnings = await warningsOf(() => send(app, [query('{ me { id } }'), query('{ me { id } }')]))
    expect(warnings).toEqual([])
    expect((await limiter.peek('ann')).used).toBe(2)
  })

  test('invalid documents cost nothing, and a missing key is a bad request', async () => {
    const limiter = limiterOf(1)
    app = await serve({ limiter })
    await send(app, query('{ nobody }'))
    await send(app, query('{ me { name } '))
    expect((await limiter.peek('ann')).used).toBe(0)
    const { status, body } = await send(app, query('{ me { name } }'), '')
    expect([status, body.errors?.[0]?.extensions?.code]).toEqual([400, 'BAD_REQUEST'])
  })

  test('refundWhen, statusCode, message, skip and observe', async () => {
    const limiter = limiterOf(1)
    app = await serve({
      limiter,
      refundWhen: 'failed',
      statusCode: 420,
      message: ({ operationName }) => `${operationName} is refused`,
      skip: ({ context }) => context.user === 'admin',
    })
    expect((await send(app, query('{ fail }'))).body.errors?.length).toBe(1)
    expect((await limiter.peek('ann')).used).toBe(0)
    await send(app, query('{ me { name } }'))
    const { status, body } = await send(app, { query: 'query Own { me { name } }', operationName: 'Own' })
    expect([status, body.errors?.[0]?.message]).toEqual([420, 'Own is refused'])
    expect((await send(app, query('{ me { name } }'), 'admin')).status).toBe(200)
    await app.close()
    app = await serve({ limiter, observe: true })
    expect((await send(app, query('{ me { name } }'))).status).toBe(200)
    expect(app.seen.at(-1)?.allowed).toBe(false)
  })

  test('delay: operations wait for their turns', async () => {
    const clock = new TestClock()
    const store = new MemoryStore({ clock })
    app = await serve({ limiter: new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }), { store }), delay: '5s' })
    const sent = Promise.all([1, 2, 3].map(() => send(app, query('{ me { id } }'))))
    const { seen } = app
    await until('two operations wait', async () => seen.length === 1 && clock.timerCount === 2)
    await clock.advance(199)
    await until('one of them runs', async () => seen.length === 2)
    expect(clock.timerCount).toBe(1)
    await clock.advance(1)
    expect((await sent).map(({ status }) => status)).toEqual([200, 200, 200])
  })

  test('without Redis an operation is unavailable, or runs as onError says', async () => {
    await using store = new RedisStore({ url: 'redis://127.0.0.1:9', commandTimeout: 100 })
    const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1h' }), { store, prefix: 'a' })
    // Servers in development send more of their errors.
    for (const environment of ['production', 'development']) {
      const env: { NODE_ENV?: string } = process.env
      const { NODE_ENV: before = '' } = env
      env.NODE_ENV = environment
      app = await serve({ limiter })
      env.NODE_ENV = before
      const warnings = await warningsOf(async () => {
        const { status, body } = await send(app, query('{ me { name } }'))
        expect([status, body.errors?.[0]?.extensions?.code]).toEqual([503, 'SERVICE_UNAVAILABLE'])
        expect(JSON.stringify(body)).not.toMatch(/127\.0\.0\.1|Redis|:9\b|ann/)
      })
      expect(warnings.map(({ code, message }) => [code, message.includes('127.0.0.1:9')])).toEqual([
        ['TOLLGATE_NO_DECISION', true],
      ])
      await app.close()
    }
    app = await serve({ limiter, onError: () => {} })
    expect((await send(app, query('{ me { name } }'))).status).toBe(200)
  })

  test('a tier that does not exist is an error of the program', async () => {
    const policies = tiers({
      free: fixedWindow({ limit: 1, window: '1h' }),
      pro: fixedWindow({ limit: 9, window: '1h' }),
    })
    app = await serve({ limiter: new RateLimiter(policies), tier: () => 'gold' })
    const warnings = await warningsOf(async () => {
      const { status, body } = await send(app, query('{ me { name } }'))
      expect(status).toBe(500)
      expect(body.errors?.[0]?.extensions?.code).not.toBe('SERVICE_UNAVAILABLE')
    })
    expect(warnings[0]?.message).toMatch(/was answered with 500: .+ "free", "pro", got "gold"/)
  })
})

test('types: the key is that of the limiter', () => {
  const limiter = limiterOf(1)
  useRateLimit({ limiter, key: ({ context }: GraphqlCall<{ readonly user: string }>) => context.user })
  // @ts-expect-error: the key may be undefined.
  useRateLimit({ limiter, key: ({ context }: GraphqlCall<Context>) => context.user })
  // @ts-expect-error: there is no default key.
  expect(() => rateLimitPlugin({ limiter })).toThrow('key must be given')
  // @ts-expect-error: a refusal is a GraphQLError.
  expect(() => useRateLimit({ limiter, key: () => 'a', handler: () => {} })).toThrow(
    'useRateLimit: handler cannot be given: a refusal is a GraphQLError',
  )
})
