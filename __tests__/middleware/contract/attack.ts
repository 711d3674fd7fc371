/**
 * Malformed requests, and clients that disconnect at random moments, over real sockets. Each request that
 * is decided is routed or refused, only routed requests are charged, and no answer is a failure.
 */
import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { fixedWindow, MemoryStore, RateLimiter } from '../../../ts/index.js'
import { Random } from '../../random.js'
import { until } from '../../servers/until.js'
import { FRAMEWORKS, type Framework, HTTP2_FRAMEWORKS } from '../frameworks.js'
import { Client } from '../requests.js'
import { warningsOf } from '../warnings.js'

/** How a connection ends after its bytes: by the server, by a half-close, or by a reset. */
type End = 'server' | 'half' | 'reset'

const CLOSE = 'Connection: close\r\n'
const head = (line: string, headers = '') => `${line}\r\nHost: a\r\n${headers}\r\n`
const last = (line: string, headers = '') => head(line, headers + CLOSE)
const GET = 'GET / HTTP/1.1'
const POST = 'POST / HTTP/1.1'

/** What clients send. */
const KINDS: { readonly [name: string]: readonly [bytes: string, end: End] } = {
  'a plain request': [last(GET), 'server'],
  'HTTP/1.0': ['GET / HTTP/1.0\r\n\r\n', 'server'],
  'HTTP/1.0 with keep-alive': [`GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n${'GET / HTTP/1.0\r\n\r\n'}`, 'server'],
  'HTTP/2.0 in the request line': [last('GET / HTTP/2.0'), 'server'],
  'no Host': [`${GET}\r\n${CLOSE}\r\n`, 'server'],
  'two Hosts': [last(GET, 'Host: b\r\n'), 'server'],
  'an empty Host': [`${GET}\r\nHost:\r\n${CLOSE}\r\n`, 'server'],
  'an unknown method': [last('BREW / HTTP/1.1'), 'server'],
  'a method in lower case': [last('get / HTTP/1.1'), 'server'],
  'a rare method': [last('PROPFIND / HTTP/1.1'), 'server'],
  'OPTIONS *': [last('OPTIONS * HTTP/1.1'), 'server'],
  CONNECT: [last('CONNECT a:443 HTTP/1.1'), 'server'],
  HEAD: [last('HEAD / HTTP/1.1'), 'server'],
  'an absolute target': [last('GET http://b/x HTTP/1.1'), 'server'],
  'a target //': [last('GET // HTTP/1.1'), 'server'],
  'a target that looks like a host': [last('GET //b:c@d/..// HTTP/1.1'), 'server'],
  'a target with bad escapes': [last('GET /%zz%00%ff HTTP/1.1'), 'server'],
  'a long target': [last(`GET /${'a'.repeat(10_000)} HTTP/1.1`), 'server'],
  'NUL in a header': [last(GET, 'X-A: a\0b\r\n'), 'server'],
  'a header of 20 KB': [last(GET, `X-A: ${'a'.repeat(20_000)}\r\n`), 'server'],
  'many headers': [last(GET, 'X-A: a\r\n'.repeat(1_500)), 'server'],
  'a folded header': [last(GET, 'X-A: a\r\n b\r\n'), 'server'],
  'bytes that are no UTF-8 in a header': [last(GET, 'X-A: \xff\xfe\r\n'), 'server'],
  'Content-Length twice': [last(POST, 'Content-Length: 1\r\nContent-Length: 2\r\n'), 'server'],
  'Content-Length and Transfer-Encoding': [last(POST, 'Content-Length: 1\r\nTransfer-Encoding: chunked\r\n'), 'server'],
  'chunks with trailers': [
    `${last(POST, 'Transfer-Encoding: chunked\r\nTrailer: X-A\r\n')}1\r\na\r\n0\r\nX-A: b\r\n\r\n`,
    'server',
  ],
  'a chunk of a bad size': [`${last(POST, 'Transfer-Encoding: chunked\r\n')}zz\r\na\r\n`, 'reset'],
  'Expect: 100-continue': [`${last(POST, 'Expect: 100-continue\r\nContent-Length: 1\r\n')}a`, 'server'],
  'another Expect': [last(POST, 'Expect: b\r\nContent-Length: 0\r\n'), 'server'],
  'an upgrade that the app does not know': [
    head(GET, 'Connection: Upgrade, close\r\nUpgrade: websocket\r\n'),
    'server',
  ],
  'empty lines before a request': [`\r\n\r\n${last(GET)}`, 'server'],
  'lines that end with LF': [`${GET}\nHost: a\n${CLOSE}\n`, 'reset'],
  'bytes of TLS': ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 'reset'],
  'three pipelined requests': [head(GET) + head(POST, 'Content-Length: 0\r\n') + last(GET), 'server'],
  'three pipelined requests and a half-close': [head(GET) + head(GET) + head(GET), 'half'],
  'one request and a half-close': [head(GET), 'half'],
  'pipelined requests, of which the second one is malformed': [`${head(GET)}nonsense\r\n\r\n`, 'server'],
  'a part of the headers': ['GET / HTTP/1.1\r\nHo', 'reset'],
  'a part of the body': [`${head(POST, 'Content-Length: 9\r\n')}ab`, 'reset'],
}

/** What an attack does. */
export type Attack = 'malformed' | 'aborted'

/** Sends requests, many at the same time, and checks what has become of them. */
export async function attack(framework: Framework, kind: Attack, count: number, seed: number): Promise<void> {
  const random = new Random(seed)
  const limit = Math.ceil(count / 2)
  const limiter = new RateLimiter(fixedWindow({ limit, window: '1h' }), { store: new MemoryStore() })
  const tally = { decided: 0, routed: 0, refused: 0 }
  const take = (...args: Parameters<typeof limiter.take>) => {
    tally.decided++
    return limiter.take(...args)
  }
  const served = await framework.serve({
    options: {
      // Called for each request of a client that is still there.
      limiter: { policies: limiter.policies, take, refund: limiter.refund.bind(limiter) },
      ...(framework.hasAddress ? {} : { key: () => '127.0.0.1' }),
      onRefused: () => void tally.refused++,
    },
    route: async () => {
      tally.routed++
      return { status: 200, body: 'ok' }
    },
  })
  const rejections: unknown[] = []
  const onRejection = (reason: unknown) => void rejections.push(reason)
  process.on('unhandledRejection', onRejection)
  try {
    const warnings = await warningsOf(async () => {
      const statuses = new Set<number>()
      for (let sent = 0; sent < count; ) {
        const together = Math.min(random.whole(1, 32), count - sent)
        const answered =
          kind === 'malformed'
            ? Array.from({ length: together }, () => sendBytes(served.url, ...random.one(Object.values(KINDS))))
            : framework.isHttp2
              ? [resetStreams(served.url, together, random)]
              : Array.from({ length: together }, () => disconnect(served.url, random))
        for (const status of (await Promise.all(answered)).flat()) {
          statuses.add(status)
        }
        sent += together
      }
      await limiter.refund(await limiter.take('another'))
      await expectAnswer(framework, served.url)
      await until(
        'all requests are routed or refused',
        async () => tally.decided === tally.routed + tally.refused,
        30_000,
      )
      expect([...statuses].filter((status) => status >= 500 && ![501, 505].includes(status))).toEqual([])
    })
    const { used } = await limiter.peek('127.0.0.1')
    expect({ charged: used, rejections, warnings }).toEqual({ charged: tally.routed, rejections: [], warnings: [] })
    expect(tally.decided).toBeGreaterThan(0)
  } finally {
    process.off('unhandledRejection', onRejection)
    await served.close()
  }
}

/** All requests before have been read when a later one has its answer. */
async function expectAnswer(framework: Framework, url: string): Promise<void> {
  const client = new Client(framework, { url, close: async () => {} })
  expect([200, 429]).toContain((await client.get()).status)
  client.close()
}

/** Sends bytes. Resolves to the statuses of the answers when the connection is closed. */
function sendBytes(url: string, bytes: string, end: End): Promise<number[]> {
  return new Promise((resolve) => {
    let text = ''
    const socket = opened(url)
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk
    })
    socket.on('close', () => resolve([...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))))
    socket.write(Buffer.from(bytes, 'latin1'), () => {
      if (end === 'half') {
        socket.end()
      } else if (end === 'reset') {
        socket.resetAndDestroy()
      }
    })
  })
}

/** Sends some requests on a connection, and disconnects at a random moment. */
async function disconnect(url: string, random: Random): Promise<number[]> {
  const socket = opened(url)
  socket.resume()
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.write(head(random.one([GET, POST]), 'Content-Length: 0\r\n').repeat(random.whole(1, 3)))
  await turns(random)
  if (random.next() < 0.5) {
    socket.resetAndDestroy()
  } else {
    socket.destroy()
  }
  await closed
  return []
}

/** Sends requests on one session, and resets each at a random moment, or all with the session. */
async function resetStreams(url: string, count: number, random: Random): Promise<number[]> {
  const session: ClientHttp2Session = connectHttp2(url).on('error', () => {})
  await Promise.all(
    Array.from({ length: count }, async () => {
      const stream = session.request({ ':path': '/', ':method': random.one(['GET', 'HEAD', 'POST']) })
      const closed = new Promise((resolve) => stream.once('close', resolve))
      stream.on('error', () => {}).resume()
      if (random.next() < 0.8) {
        stream.end()
      }
      await turns(random)
      stream.close(random.one([constants.NGHTTP2_CANCEL, constants.NGHTTP2_NO_ERROR]))
      await closed
    }),
  )
  session.destroy()
  return []
}

function opened(url: string): Socket {
  return connect({ port: Number(new URL(url).port), host: '127.0.0.1' }).on('error', () => {})
}

/** Waits for a random number of turns of the event loop. */
async function turns(random: Random): Promise<void> {
  for (let turn = random.whole(0, 6); turn > 0; turn--) {
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Runs the attacks on each framework. */
export function attackAll(count: number, seed: number): void {
  test.each(FRAMEWORKS)('$name: malformed requests', (framework) => attack(framework, 'malformed', count, seed))
  test.each([...FRAMEWORKS, ...HTTP2_FRAMEWORKS])('$name: clients that disconnect', (framework) =>
    attack(framework, 'aborted', count, seed),
  )
}
