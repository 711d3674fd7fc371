/** Where the middlewares for Web requests find the client: in the `env` of a server on Node.js, or in the signal. */
import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Hono } from 'hono'
import { fixedWindow, RateLimiter } from '../../ts/index.js'
import { withRateLimit } from '../../ts/middleware/fetch.js'
import { rateLimit } from '../../ts/middleware/hono.js'
import type { RequestEnd } from '../../ts/middleware/shared/options.js'
import { until } from '../servers/until.js'

const limiterOf = () => new RateLimiter(fixedWindow({ limit: 10, window: '1h' }))

const key = () => 'ann'

/** The status of a request, by each middleware. */
const HANDLERS: readonly (readonly [string, (request: Request, env?: object) => Promise<number>])[] = [
  [
    'Hono',
    async (request, env) => {
      const app = new Hono()
      app.use(rateLimit({ limiter: limiterOf(), key }))
      app.get('/', (context) => context.text('ok'))
      return (await app.fetch(request, env)).status
    },
  ],
  [
    'fetch',
    async (request, env) => {
      const options = { limiter: limiterOf(), key }
      const handler = withRateLimit(async (_: Request, __: object | undefined) => new Response('ok'), options)
      return (await handler(request, env)).status
    },
  ],
]

const aborted = () => new Request('http://localhost/', { signal: AbortSignal.abort() })

/** An exchange of Node.js, of which the client has gone or not. */
function exchange(destroyed: boolean) {
  const outgoing = Object.assign(new EventEmitter(), { writableEnded: false, req: { socket: { destroyed } } })
  return { incoming: {}, outgoing }
}

describe.each(HANDLERS)('%s', (_, statusOf) => {
  test('without an exchange the signal shows that the client has gone', async () => {
    for (const env of [undefined, {}, { server: {} }, { outgoing: 'https://hooks.example' }]) {
      expect(await statusOf(aborted(), env)).toBe(499)
      expect(await statusOf(new Request('http://localhost/'), env)).toBe(200)
    }
  })

  test('an exchange shows it, also where the development server of Vite passes it', async () => {
    for (const gone of [true, false]) {
      const status = gone ? 499 : 200
      expect(await statusOf(new Request('http://localhost/'), exchange(gone))).toBe(status)
      expect(await statusOf(new Request('http://localhost/'), { server: exchange(gone) })).toBe(status)
    }
  })

  test('a stub of a service, which has each property that is read, is no exchange', async () => {
    const stub: object = new Proxy(() => {}, { get: () => stub })
    for (const env of [{ outgoing: stub }, { server: stub }]) {
      expect(await statusOf(new Request('http://localhost/'), env)).toBe(200)
    }
  })
})

test('Hono: a route that has sent the response itself has not been left by its client', async () => {
  const ends: RequestEnd[] = []
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.use(rateLimit({ limiter: limiterOf(), key, refundWhen: (_, end) => ends.push(end) === 0 }))
  app.get('/', async ({ env: { outgoing } }) => {
    outgoing.end('sent')
    await once(outgoing, 'close')
    return RESPONSE_ALREADY_SENT
  })
  const server = createServer(getRequestListener(app.fetch))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    expect(await response.text()).toBe('sent')
    await until('the request has ended', async () => ends.length === 1, 30_000)
    expect(ends).toEqual([{ aborted: false, status: 200 }])
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
})
