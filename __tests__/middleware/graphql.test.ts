/** `tollgate/graphql` in GraphQL Yoga and Apollo Server, over real HTTP; and the cost of operations. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ApolloServer } from '@apollo/server'
import { startStandaloneServer } from '@apollo/server/standalone'
import {
  buildSchema,
  type GraphQLEnumType,
  GraphQLError,
  type GraphQLScalarType,
  type GraphQLSchema,
  parse,
} from 'graphql'
import { createYoga } from 'graphql-yoga'
import { type Decision, fixedWindow, gcra, MemoryStore, RateLimiter, RedisStore, tiers } from '../../ts/index.js'
import {
  type ComplexityOptions,
  complexityOf,
  type GraphqlCall,
  type GraphqlRateLimitOptions,
  rateLimitPlugin,
  useRateLimit,
} from '../../ts/middleware/graphql.js'
import { TestClock } from '../../ts/testing/index.js'
import { until } from '../servers/until.js'
import { warningsOf } from './warnings.js'

const SCHEMA = buildSchema(`
  type Query {
    me: User, users(first: Int): [User!]!, connection(first: Int): Connection, fail: String
    latest(first: Int = 1000): [User!]!, constructor: User
  }
  type Mutation { rename: User }
  type Subscription { ticks: Int }
  type Connection { edges: [Edge!]!, total: Int }
  type Edge { node: User }
  type User { id: ID, name: String, friends(first: Int, last: Int): [User!]! }
`)

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

describe('complexityOf', () => {
  const cost = (text: string, options?: ComplexityOptions, schema: GraphQLSchema | undefined = SCHEMA) => {
    return complexityOf({ document: parse(text), schema }, options)
  }

  test.each([
    ['{ me { id name } }', 3],
    ['{ me { id again: id } }', 3],
    ['{ users { id } }', 1 + 10],
    ['{ users(first: 3) { id friends(last: 2) { id name } } }', 1 + 3 * (1 + 1 + 2 * 2)],
    // Many resolvers read 0 as no size.
    ['{ users(first: 0) { id } }', 1 + 10],
    // The default in the schema.
    ['{ latest { id } }', 1 + 1_000],
    ['{ latest(first: 2) { id } }', 1 + 2],
    // A list has the size of its parent's argument, once.
    ['{ connection(first: 50) { total edges { node { id } } } }', 1 + 50 * (1 + 1 + 1 + 1)],
    ['{ connection { edges { node { id } } } }', 1 + 1 + 10 * (1 + 1)],
    ['{ __schema { types { name } } }', 1],
    ['{ me { ...a ... on User { name } } } fragment a on User { id friends { id } }', 1 + (1 + 1 + 10) + 1],
    ['query($x: Boolean = true) { me @skip(if: $x) { id } users @include(if: false) { id } }', 1],
    ['query A { me { id } } query B { users { id } }', 2],
    ['mutation { rename { id } }', 2],
  ])('%s costs %d', (text, expected) => {
    expect(cost(text)).toBe(expected)
  })

  test('options: costs of fields, sizes of lists and the names of arguments', () => {
    expect(cost('{ me { name } users(first: 2) { name } }', { fields: { name: 5, 'Query.users': 0 } })).toBe(6 + 10)
    expect(cost('{ users { id } }', { listSize: 100 })).toBe(101)
    expect(cost('{ users(first: 7) { id } }', { sizeArguments: ['take'] })).toBe(11)
  })

  test('without a schema only arguments tell sizes', () => {
    expect(complexityOf({ document: parse('{ users { id } me(first: 4) { id } }') })).toBe(2 + 5)
  })

  test('variables and the name of the operation are those of the request', () => {
    const document = parse('query A($n: Int) { users(first: $n) { id } } query B { me { id } }')
    expect(complexityOf({ document, schema: SCHEMA, operationName: 'A', variables: { n: 30 } })).toBe(31)
    expect(complexityOf({ document, schema: SCHEMA, operationName: 'A', variables: { n: null } })).toBe(11)
    expect(complexityOf({ document, schema: SCHEMA, operationName: 'B' })).toBe(2)
    expect(complexityOf({ document, schema: SCHEMA, operationName: 'absent' })).toBe(1)
  })

  test('names of properties of all objects are names as all others, and null is no default', () => {
    expect(cost('{ constructor { id } }')).toBe(2)
    const named = parse('query ($constructor: Int = 1000) { users(first: $constructor) { id } }')
    expect(complexityOf({ document: named, schema: SCHEMA, variables: {} })).toBe(1_001)
    const nullable = parse('query ($n: Int = 2) { users(first: $n) { id } }')
    expect(complexityOf({ document: nullable, schema: SCHEMA })).toBe(3)
    expect(complexityOf({ document: nullable, schema: SCHEMA, variables: { n: null } })).toBe(11)
  })

  describe('sizes of all types', () => {
    const MOST = Number.MAX_SAFE_INTEGER
    const typed = buildSchema(`
      scalar BigInt
      enum Size { FEW, ALL }
      input Page { count: Int }
      type Item { id: ID }
      type Query {
        int(first: Int): [Item], float(limit: Float): [Item], id(limit: ID = 30): [Item], text(limit: String): [Item],
        big(first: BigInt): [Item], size(limit: Size = ALL): [Item], page(limit: Page = { count: 5 }): [Item], list(limit: [Int]): [Item],
        negative(limit: Int = -1): [Item], truth(last: Boolean): [Item]
      }
    `)
    const big = typed.getType('BigInt') as GraphQLScalarType
    big.parseValue = (value) => BigInt(value as string)
    big.parseLiteral = (node) => BigInt((node as { readonly value: string }).value)
    // The value that its resolvers get.
    Object.assign((typed.getType('Size') as GraphQLEnumType).getValue('FEW') as object, { value: 3 })

    test.each([
      ['{ float(limit: 1e6) { id } }', 1e6],
      ['{ float(limit: 2.5) { id } }', 3],
      ['{ float(limit: 0.0) { id } }', 10],
      ['{ float(limit: 1e999) { id } }', MOST],
      ['{ id(limit: "1000") { id } }', 1_000],
      ['{ id(limit: 1000) { id } }', 1_000],
      ['{ id { id } }', 30],
      ['{ text(limit: " 1e3 ") { id } }', 1_000],
      ['{ text(limit: "all") { id } }', MOST],
      ['{ text(limit: "") { id } }', MOST],
      ['{ text(limit: "100 or so") { id } }', MOST],
      ['{ big(first: 9007199254740993) { id } }', MOST],
      ['{ big(first: 12) { id } }', 12],
      ['{ big(first: "12") { id } }', 12],
      ['{ int(first: null) { id } }', 10],
      ['{ int(first: -5) { id } }', MOST],
      ['{ text(limit: "-5") { id } }', MOST],
      ['{ size(limit: ALL) { id } }', MOST],
      ['{ page(limit: { count: 3 }) { id } }', MOST],
      ['{ list(limit: [1, 2]) { id } }', MOST],
      ['{ list(limit: 2) { id } }', MOST],
      ['{ truth(last: true) { id } }', MOST],
      // Defaults are those of the schema's author.
      ['{ negative { id } }', 10],
      ['{ size { id } }', 10],
      ['{ page { id } }', 10],
      ['{ size(limit: FEW) { id } }', 3],
      ['query ($n: Float = 1e4) { float(limit: $n) { id } }', 1e4],
      ['query ($n: ID = "70") { id(limit: $n) { id } }', 70],
      // Without a value the argument has its own default.
      ['query ($n: ID) { id(limit: $n) { id } }', 30],
      ['query ($n: ID = null) { id(limit: $n) { id } }', 10],
    ])('%s has %d items', (text, items) => {
      expect(cost(text, undefined, typed)).toBe(Math.min(MOST, 1 + items))
    })

    test.each([
      ['float', 'Float', 'limit', 1e6, 1e6],
      ['float', 'Float', 'limit', '1e6', 1e6],
      ['id', 'ID', 'limit', '1000', 1_000],
      ['id', 'ID', 'limit', 1_000, 1_000],
      ['big', 'BigInt', 'first', '25', 25],
      ['big', 'BigInt', 'first', 25, 25],
      ['text', 'String', 'limit', 'all', MOST],
      ['int', 'Int', 'first', -1, MOST],
      ['int', 'Int', 'first', null, 10],
      ['int', 'Int', 'first', { count: 1 }, MOST],
      ['list', '[Int]', 'limit', [5], MOST],
      ['page', 'Page', 'limit', { count: 5 }, MOST],
    ])('%s with a variable of type %s as %s: %j has %d items', (field, type, argument, n, items) => {
      const document = parse(`query ($n: ${type}) { ${field}(${argument}: $n) { id } }`)
      expect(complexityOf({ document, schema: typed, variables: { n } })).toBe(Math.min(MOST, 1 + items))
    })

    test('without a schema the values are those of the request', () => {
      const of = (text: string, variables?: { readonly [name: string]: unknown }) => {
        return complexityOf({ document: parse(text), variables })
      }
      expect(of('{ users(limit: 1e6) { id } }')).toBe(1_000_001)
      expect(of('{ users(limit: "20") { id } }')).toBe(21)
      expect(of('{ users(limit: ALL) { id } }')).toBe(MOST)
      expect(of('query ($n: Float = 1e3) { users(limit: $n) { id } }')).toBe(1_001)
      expect(of('query ($n: BigInt) { users(limit: $n) { id } }', { n: 20n })).toBe(21)
      expect(of('query ($n: BigInt) { users(limit: $n) { id } }')).toBe(2)
      expect(of('query ($n: [Int]) { users(limit: $n) { id } }', { n: [1] })).toBe(MOST)
    })
  })

  test('hostile documents: fragments that double, cycles, depth and huge sizes', () => {
    const doubling = Array.from({ length: 500 }, (_, n) => `fragment f${n} on User { ...f${n + 1} ...f${n + 1} }`)
    // Without a memory of fragments it would take longer than the universe has lasted.
    expect(cost(`{ me { ...f0 } } ${doubling.join(' ')} fragment f500 on User { id }`)).toBe(Number.MAX_SAFE_INTEGER)
    expect(cost('{ me { ...a } } fragment a on User { id ...b } fragment b on User { ...a name }')).toBe(3)
    expect(cost('{ me { ...absent id } }')).toBe(2)
    const deep = `${'{ friends(first: 1) '.repeat(1_000)}{ id }${' }'.repeat(1_000)}`
    expect(cost(`{ me ${deep} }`)).toBe(Number.MAX_SAFE_INTEGER)
    expect(cost(`{ users(first: 1${'0'.repeat(400)}) { id __typename } }`)).toBe(Number.MAX_SAFE_INTEGER)
    // Only the items count.
    expect(cost('{ users(first: 1000000) { __typename } }')).toBe(1_000_001)
    expect(cost('{ users(first: 1000000) { id @skip(if: true) } }')).toBe(1_000_001)
    expect(cost('{ users(first: 1000000) { ...a } } fragment a on User { __typename }')).toBe(1_000_001)
    expect(cost('{ me { __typename } }')).toBe(1)
  })

  test.each([
    [{ listSize: 0 }, 'complexityOf: listSize must be'],
    [{ fields: { 'User.name': -1 } }, 'complexityOf: fields["User.name"] must be'],
    [{ sizeArguments: 'first' }, 'complexityOf: sizeArguments must be an array of names'],
    [{ maxDepth: 5 }, 'maxDepth'],
  ])('%j is an error', (options, message) => {
    expect(() => cost('{ me { id } }', options as never)).toThrow(message)
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
