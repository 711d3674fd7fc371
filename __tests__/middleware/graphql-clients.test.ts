/** Where `tollgate/graphql` finds the client of an operation: in contexts of several servers. */
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { connect, constants, createServer as createHttp2Server, type Http2ServerRequest } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { ApolloServer } from '@apollo/server'
import { startStandaloneServer } from '@apollo/server/standalone'
import { buildSchema, parse } from 'graphql'
import { fixedWindow, gcra, MemoryStore, RateLimiter } from '../../ts/index.js'
import { type GraphqlCall, rateLimitPlugin } from '../../ts/middleware/graphql.js'
import type { RequestEnd } from '../../ts/middleware/shared/options.js'
import { TestClock } from '../../ts/testing/index.js'
import { until } from '../servers/until.js'
import { pending } from './requests.js'
import { warningsOf } from './warnings.js'

interface Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
}

/** A Web request whose signal is aborted with the connection. */
function webRequestOf({ req }: Exchange): Request {
  const controller = new AbortController()
  req.socket.once('close', () => controller.abort())
  return new Request('http://localhost/', { signal: controller.signal })
}

const CONTEXTS: readonly (readonly [string, (exchange: Exchange) => object])[] = [
  ['req and res', ({ req, res }) => ({ req, res })],
  ['res', ({ res }) => ({ res })],
  ['response', ({ res }) => ({ response: res })],
  ['req', ({ req }) => ({ req })],
  ['request', ({ req }) => ({ request: req })],
  ["Express's req", ({ req, res }) => ({ req: Object.assign(Object.create(req), { res }) })],
  ["Fastify's request", ({ req }) => ({ request: { raw: req } })],
  ["Fastify's reply", ({ res }) => ({ reply: { raw: res } })],
  ["Koa's ctx", ({ req, res }) => ({ ctx: { req, res } })],
  ["Koa's ctx with its req alone", ({ req }) => ({ ctx: { req } })],
  ["Hono's env", ({ req, res }) => ({ incoming: req, outgoing: res })],
  ['a Web request', (exchange) => ({ request: webRequestOf(exchange) })],
  ['a Web request as req', (exchange) => ({ req: webRequestOf(exchange) })],
]

const open: { stop(): Promise<void> }[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.stop()))
})

/** A server whose operation `slow` waits until it is released. */
async function serve(contextOf: (exchange: Exchange) => object, options: object) {
  const [entered, released] = [pending(), pending()]
  const exchanges: Exchange[] = []
  let routed = 0
  const slow = async () => {
    routed++
    entered.resolve()
    await released.promise
    return 'done'
  }
  const server = new ApolloServer({
    typeDefs: 'type Query { fast: String, slow: String }',
    resolvers: { Query: { slow, fast: () => 'done' } },
    plugins: [rateLimitPlugin({ key: () => 'ann', ...options } as never)],
    stopOnTerminationSignals: false,
  })
  open.push(server)
  const context = async (exchange: Exchange) => {
    exchanges.push(exchange)
    return contextOf(exchange)
  }
  const { url } = await startStandaloneServer(server, { context, listen: { port: 0, host: '127.0.0.1' } })
  const send = (field: string): ClientRequest => {
    const headers = { 'content-type': 'application/json' }
    const sent = request(url, { method: 'POST', headers, agent: false }).on('error', () => {})
    sent.on('response', (response) => response.resume())
    sent.end(JSON.stringify({ query: `{ ${field} }` }))
    return sent
  }
  return {
    send,
    entered: entered.promise,
    release: released.resolve,
    routed: () => routed,
    isNoticed: () => exchanges.some(({ req }) => req.socket.destroyed),
  }
}

const limiterOf = () => new RateLimiter(fixedWindow({ limit: 10, window: '1h' }))

describe.each(CONTEXTS)('a context with %s', (_, contextOf) => {
  test('an operation whose client disconnects is charged, and one that ends is refunded', async () => {
    const limiter = limiterOf()
    const ends: RequestEnd[] = []
    const refundWhen = (_call: GraphqlCall, end: RequestEnd) => {
      ends.push(end)
      return !end.aborted && end.status === 200
    }
    const warnings = await warningsOf(async () => {
      const app = await serve(contextOf, { limiter, refundWhen })
      const sent = app.send('slow')
      await app.entered
      sent.destroy()
      await until('the server has noticed it', async () => app.isNoticed(), 30_000)
      app.release()
      await until('it has ended', async () => ends.length === 1, 30_000)
      app.send('fast')
      await until('the other one has ended', async () => ends.length === 2, 30_000)
    })
    expect([warnings, ends]).toEqual([
      [],
      [
        { aborted: true, status: undefined },
        { aborted: false, status: 200 },
      ],
    ])
    await until('one unit is charged', async () => (await limiter.peek('ann')).used === 1, 30_000)
  })

  test('delay: an operation whose client disconnects gives up its turn', async () => {
    const clock = new TestClock()
    const limiter = new RateLimiter(gcra({ limit: 1, period: '1s', burst: 1 }), { store: new MemoryStore({ clock }) })
    await limiter.take('ann')
    const app = await serve(contextOf, { limiter, delay: '1m' })
    const sent = app.send('slow')
    await until('it waits', async () => clock.timerCount === 1, 30_000)
    sent.destroy()
    await until('it does not wait any more', async () => clock.timerCount === 0, 30_000)
    expect(app.routed()).toBe(0)
  })
})

test.each([
  ['req', (req: Http2ServerRequest) => ({ req })],
  ["Fastify's request", (req: Http2ServerRequest) => ({ request: { raw: req } })],
])('HTTP/2: a context with %s shows that its stream was reset', async (_, contextOf) => {
  const limiter = limiterOf()
  const ends: RequestEnd[] = []
  const refundWhen = (_call: GraphqlCall, end: RequestEnd) => ends.push(end) === 0
  const plugin = rateLimitPlugin({ limiter, key: () => 'ann', refundWhen })
  const [entered, left] = [pending(), pending()]
  const server = createHttp2Server(async (req) => {
    const hooks = await plugin.requestDidStart()
    const call = {
      document: parse('{ slow }'),
      schema: buildSchema('type Query { slow: String }'),
      operationName: null,
    }
    await hooks.didResolveOperation({ ...call, contextValue: contextOf(req), request: {} })
    req.stream.once('close', left.resolve)
    entered.resolve()
    await left.promise
    await hooks.willSendResponse({ response: { body: { kind: 'single' } } })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  try {
    const stream = session.request().on('error', () => {})
    await entered.promise
    stream.close(constants.NGHTTP2_CANCEL)
    await until('it has ended', async () => ends.length === 1, 30_000)
    expect(ends).toEqual([{ aborted: true, status: undefined }])
  } finally {
    session.destroy()
    server.close()
  }
})

describe.each([
  ['an empty context', () => ({})],
  ['a context with other members', () => ({ user: 'ann', req: null, request: { headers: {} }, res: {}, ctx: 'none' })],
])('%s does not show the client', (_, contextOf) => {
  test('with refundWhen the result decides, and one warning says so', async () => {
    const limiter = limiterOf()
    const warnings = await warningsOf(async () => {
      const app = await serve(contextOf, { limiter, refundWhen: 'successful' })
      app.release()
      for (const field of ['slow', 'fast']) {
        const sent = app.send(field)
        await new Promise((resolve) => sent.on('close', resolve))
      }
      await until('both are refunded', async () => (await limiter.peek('ann')).used === 0, 30_000)
    })
    expect(warnings).toEqual([
      {
        code: 'TOLLGATE_UNSEEN_CLIENT',
        message: expect.stringMatching(/^tollgate\/graphql: refundWhen .* no request and no response\nAdd them/),
      },
    ])
  })

  test('without refundWhen there is no warning', async () => {
    const warnings = await warningsOf(async () => {
      const app = await serve(contextOf, { limiter: limiterOf() })
      const sent = app.send('fast')
      await new Promise((resolve) => sent.on('close', resolve))
    })
    expect(warnings).toEqual([])
  })
})
