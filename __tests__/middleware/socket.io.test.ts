/** `tollgate/socket.io` over real sockets: connections and events. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Server, type Socket } from 'socket.io'
import { type Socket as Client, io as connect } from 'socket.io-client'
import { type Decision, fixedWindow, gcra, MemoryStore, RateLimiter, RedisStore, tiers } from '../../ts/index.js'
import { type EventLimitOptions, limitConnections, limitEvents } from '../../ts/middleware/socket.io.js'
import { TestClock } from '../../ts/testing/index.js'
import { until } from '../servers/until.js'
import { warningsOf } from './warnings.js'

const limiterOf = (limit: number) => new RateLimiter(fixedWindow({ limit, window: '1h' }))

const tokenIn = ({ token }: { readonly token?: unknown }) => token

/** The data of a socket. */
interface Limited {
  readonly rateLimit: Decision
}

/** A server, and its clients. */
class App {
  readonly io: Server
  /** The sockets on the server, in the order of their connections. */
  readonly sockets: Socket[] = []
  readonly #http = createServer()
  readonly #clients: Client[] = []

  static async start(prepare: (io: Server) => void): Promise<App> {
    const app = new App(prepare)
    await new Promise<void>((resolve) => app.#http.listen(0, '127.0.0.1', resolve))
    return app
  }

  private constructor(prepare: (io: Server) => void) {
    this.io = new Server(this.#http)
    prepare(this.io)
    this.io.on('connection', (socket) => void this.sockets.push(socket))
  }

  /** Connects a client. Resolves to it, or to the data of the error. */
  async connect(options: object = {}): Promise<{ readonly client?: Client; readonly error?: unknown }> {
    const { port } = this.#http.address() as AddressInfo
    const client = connect(`http://127.0.0.1:${port}`, { reconnection: false, forceNew: true, ...options })
    this.#clients.push(client)
    return new Promise((resolve) => {
      client.once('connect', () => resolve({ client }))
      client.once('connect_error', (error) => resolve({ error: (error as { data?: unknown }).data ?? error.message }))
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) {
      client.disconnect()
    }
    await this.io.close()
  }
}

/** The options of a limiter whose tier is a mistake of the program. */
const mistaken = () => ({
  limiter: new RateLimiter(
    tiers({ free: fixedWindow({ limit: 1, window: '1h' }), pro: fixedWindow({ limit: 9, window: '1h' }) }),
  ),
  tier: () => 'gold',
})

const MISTAKE = /was answered with 500: .+ "free", "pro", got "gold"/

describe('limitConnections', () => {
  test('a cost that can never fit, and an error of the program, have their statuses', async () => {
    await using app = await App.start((io) => io.use(limitConnections({ limiter: limiterOf(2), cost: 3 })))
    expect((await app.connect()).error).toEqual({
      status: 413,
      message: 'This request costs more than its limit can ever allow. Do not send it again unchanged.',
      retryAfterMs: null,
    })
    await using failing = await App.start((io) => io.use(limitConnections(mistaken())))
    const warnings = await warningsOf(async () => {
      expect((await failing.connect()).error).toEqual({ status: 500, message: 'Internal Server Error' })
    })
    expect(warnings[0]?.message).toMatch(MISTAKE)
  })

  test('a refused client gets connect_error with the status and the retry', async () => {
    await using app = await App.start((io) => io.use(limitConnections({ limiter: limiterOf(2) })))
    expect((await app.connect()).client).toBeDefined()
    expect((await app.connect()).client).toBeDefined()
    expect((await app.connect()).error).toEqual({
      status: 429,
      message: 'Too many requests, please try again later.',
      retryAfterMs: expect.any(Number),
    })
    expect(app.sockets.map((socket) => (socket.data as Limited).rateLimit.remaining)).toEqual([1, 0])
  })

  test('key, cost, message and statusCode are options; a key that is missing is a bad request', async () => {
    const limiter = limiterOf(3)
    await using app = await App.start((io) => {
      io.use(
        limitConnections({
          limiter,
          key: ({ handshake: { auth } }) => tokenIn(auth) as string,
          cost: () => 2,
          statusCode: 420,
          message: ({ handshake }) => ({ token: tokenIn(handshake.auth) }),
        }),
      )
    })
    const ann = { auth: { token: 'ann' } }
    expect((await app.connect(ann)).client).toBeDefined()
    expect((await app.connect(ann)).error).toMatchObject({ status: 420, message: { token: 'ann' } })
    const warnings = await warningsOf(async () => {
      expect((await app.connect()).error).toEqual({ status: 400, message: 'Bad Request' })
    })
    expect(warnings).toEqual([expect.objectContaining({ code: 'TOLLGATE_INVALID_INPUT' })])
  })

  test('X-Forwarded-For causes a warning, because its address is not used', async () => {
    await using app = await App.start((io) => io.use(limitConnections({ limiter: limiterOf(9) })))
    const warnings = await warningsOf(() => app.connect({ extraHeaders: { 'x-forwarded-for': '192.0.2.1' } }))
    expect(warnings).toEqual([expect.objectContaining({ code: 'TOLLGATE_UNTRUSTED_PROXY' })])
  })
})

describe('limitEvents', () => {
  /** An app that limits events, and what happened on the server. */
  async function limited(options: EventLimitOptions<string, string, Socket>) {
    const received: unknown[] = []
    const errors: unknown[] = []
    const app = await App.start((io) => {
      io.on('connection', limitEvents(options))
      io.on('connection', (socket) => {
        socket.on('error', (error) => errors.push((error as { data?: unknown }).data ?? error))
        socket.on('chat', (text: string, acknowledge?: (answer: unknown) => void) => {
          received.push(text)
          acknowledge?.('sent')
        })
      })
    })
    const { client } = await app.connect()
    return { app, client: client as Client, received, errors }
  }

  test('a refused event reaches no listener; it is acknowledged, or is an error on the server', async () => {
    const limiter = limiterOf(2)
    const { app, client, received, errors } = await limited({ limiter })
    await using _ = app
    expect(await client.emitWithAck('chat', 'one')).toBe('sent')
    client.emit('chat', 'two')
    const refusal = {
      status: 429,
      message: 'Too many requests, please try again later.',
      retryAfterMs: expect.any(Number),
    }
    client.emit('chat', 'three')
    expect(await client.emitWithAck('chat', 'four')).toEqual(refusal)
    expect(received).toEqual(['one', 'two'])
    expect(errors).toEqual([refusal])
    expect((app.sockets[0]?.data as Limited | undefined)?.rateLimit.allowed).toBe(false)
    await limiter.reset('127.0.0.1')
    expect(await client.emitWithAck('chat', 'five')).toBe('sent')
    expect((app.sockets[0]?.data as Limited | undefined)?.rateLimit.allowed).toBe(true)
  })

  test('several events of a socket cause no warning; one limiter twice does', async () => {
    const limiter = limiterOf(9)
    const { app, client } = await limited({ limiter })
    await using _ = app
    const none = await warningsOf(async () => {
      await client.emitWithAck('chat', 'one')
      await client.emitWithAck('chat', 'two')
    })
    expect(none).toEqual([])
    limitEvents({ limiter })(app.sockets[0] as Socket)
    const one = await warningsOf(() => client.emitWithAck('chat', 'three'))
    expect(one).toEqual([expect.objectContaining({ code: 'TOLLGATE_COUNTED_TWICE' })])
  })

  test('key, cost, skip and handler get the socket and the event', async () => {
    const refused: unknown[] = []
    const { app, client, received } = await limited({
      limiter: limiterOf(10),
      key: (socket) => socket.id,
      cost: (_, [, text]) => (text as string).length,
      skip: (_, [name]) => name === 'ping',
      handler: (_, event, decision) => {
        refused.push([event[0], decision.remaining])
        ;(event.at(-1) as (answer: unknown) => void)('later')
      },
    })
    await using _ = app
    app.sockets[0]?.on('ping', (acknowledge: (answer: unknown) => void) => acknowledge('pong'))
    expect(await client.emitWithAck('chat', 'seven77')).toBe('sent')
    expect(await client.emitWithAck('chat', 'four')).toBe('later')
    expect(await client.emitWithAck('ping')).toBe('pong')
    expect(refused).toEqual([['chat', 3]])
    expect(received).toEqual(['seven77'])
  })

  test('delay: events wait for their turns, in order, and end with the connection', async () => {
    const clock = new TestClock()
    const limiter = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }), { store: new MemoryStore({ clock }) })
    const { app, client, received } = await limited({ limiter, delay: '5s' })
    await using _ = app
    const sent = Promise.all(['a', 'b', 'c'].map((text) => client.emitWithAck('chat', text)))
    for (const texts of [['a'], ['a', 'b']]) {
      await until('an event waits', async () => received.length === texts.length && clock.timerCount > 0)
      await clock.advance(99)
      expect(received).toEqual(texts)
      await clock.advance(1)
    }
    await sent
    expect(received).toEqual(['a', 'b', 'c'])
    for (const text of ['d', 'e', 'f']) {
      client.emit('chat', text)
    }
    const gone = new Promise((resolve) => app.sockets[0]?.once('disconnect', resolve))
    await until('an event waits', async () => clock.timerCount > 0)
    client.disconnect()
    await gone
    await until('no event waits', async () => clock.timerCount === 0)
    await clock.advance('1m')
    expect(received).toEqual(['a', 'b', 'c'])
  })

  test('an error of the program is acknowledged with status 500, and emitted on the server', async () => {
    const { app, client, received, errors } = await limited(mistaken())
    const warnings = await warningsOf(async () => {
      expect(await client.emitWithAck('chat', 'one')).toEqual({ status: 500, message: 'Internal Server Error' })
    })
    expect(warnings[0]?.message).toMatch(MISTAKE)
    expect([received, errors]).toEqual([[], [expect.objectContaining({ code: 'INVALID_OPTION' })]])
    await app[Symbol.asyncDispose]()
  })

  test('without Redis an event fails with status 503, or passes as onError says', async () => {
    await using store = new RedisStore({ url: 'redis://127.0.0.1:9', commandTimeout: 100 })
    const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1h' }), { store, prefix: 'a' })
    const strict = await limited({ limiter })
    const warnings = await warningsOf(async () => {
      expect(await strict.client.emitWithAck('chat', 'one')).toEqual({ status: 503, message: 'Service Unavailable' })
    })
    expect(warnings[0]?.message).toMatch(/was answered with 503: .+127\.0\.0\.1:9/)
    await strict.app[Symbol.asyncDispose]()
    const lenient = await limited({ limiter, onError: () => {} })
    expect(await lenient.client.emitWithAck('chat', 'one')).toBe('sent')
    await lenient.app[Symbol.asyncDispose]()
  })
})

test.each([
  [{ headers: false }, 'headers cannot be given: messages of Socket.IO are no HTTP responses'],
  [{ refundWhen: 'failed' }, 'refundWhen cannot be given'],
  [{ max: 5 }, 'max'],
])('%j is an error', (options, message) => {
  expect(() => limitConnections({ limiter: limiterOf(1), ...options } as never)).toThrow(message)
  expect(() => limitEvents({ limiter: limiterOf(1), ...options } as never)).toThrow(message)
})

test('types: the key is that of the limiter', () => {
  const byIp = new RateLimiter({ all: fixedWindow({ limit: 1, window: '1h', per: 'ip' }) })
  limitEvents({ limiter: byIp, key: ({ handshake }) => ({ ip: handshake.address }) })
  // Compiled only.
  void ((io: Server<{ chat(text: string): void }>) => {
    io.use(limitConnections({ limiter: limiterOf(1), key: ({ id }) => id }))
    io.on('connection', limitEvents({ limiter: limiterOf(1), key: ({ id }, [name]) => `${id} ${name}` }))
    // @ts-expect-error: the key is no string.
    io.use(limitConnections({ limiter: limiterOf(1), key: ({ rooms }) => rooms }))
  })
  // @ts-expect-error: the keys have parts, so there is no default key.
  expect(() => limitEvents({ limiter: byIp })).toThrow('key must be given')
  // @ts-expect-error: connections have no handler.
  expect(() => limitConnections({ limiter: limiterOf(1), handler: () => {} })).toThrow('handler cannot be given')
})
