import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { RateLimiter, type RedisUrl } from '../../api/rate-limiter.js'
import { withRateLimit } from '../../middleware/fetch.js'
import { gcra } from '../../policies/gcra.js'

export const POLICY = gcra({ limit: 10, period: '1s', burst: 20 })

export const POLICY_TEXT = "gcra({ limit: 10, period: '1s', burst: 20 })"
export const BOUND_TEXT = '20 + 10 per second'

/** The most units that a client can get in any span of this length. */
export function boundOf(seconds: number): number {
  return Math.floor(20 + 10 * seconds)
}

export interface DemoServer {
  readonly url: string
  close(): Promise<void>
}

/** The counts of a server's limiter: in Redis, or in its process. */
export interface DemoRedis {
  readonly store: RedisUrl
  readonly prefix: string
}

/** Rejects if the URL is invalid or Redis cannot be reached. */
export async function checkRedis(shared: DemoRedis): Promise<void> {
  const limiter = new RateLimiter(POLICY, shared)
  try {
    await limiter.peek('polite')
  } finally {
    await limiter.close()
  }
}

/** Starts a limited server on a free port of the loopback interface. */
export async function startServer(shared?: DemoRedis): Promise<DemoServer> {
  const limiter = shared === undefined ? new RateLimiter(POLICY) : new RateLimiter(POLICY, shared)
  const handle = withRateLimit(() => Response.json({ hello: 'world' }), {
    limiter,
    // A real service takes the key from verified data, such as a session or an API key.
    key: (request: Request) => request.headers.get('x-client') ?? 'anonymous',
  })
  const server = createServer((request, response) => {
    void respond(handle, request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.close()
      // fetch keeps its connections open for further requests, which will not come.
      server.closeAllConnections()
      await once(server, 'close')
      await limiter.close()
    },
  }
}

/** The hosts of requests from this machine. A page of a site whose name has this address sends that name. */
const LOCAL_HOST = /^(localhost|127\.0\.0\.1)(:\d+)?$/i

/** Answers a request. All paths have one answer, so that no URL of a request is read. It never rejects. */
async function respond(
  handle: (request: Request) => Promise<Response>,
  { method, headers }: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    const { host = '', 'x-client': client = 'anonymous' } = headers
    const refusal = !LOCAL_HOST.test(host) ? 403 : method === 'GET' ? undefined : 405
    if (refusal !== undefined) {
      response.writeHead(refusal).end()
      return
    }
    const answer = await handle(new Request('http://localhost/', { headers: { 'x-client': String(client) } }))
    response.writeHead(answer.status, [...answer.headers].flat()).end(await answer.text())
  } catch {
    response.writeHead(500).end()
  }
}
