/** The apps of the contract in the frameworks of these packages, in place of those of `middleware/frameworks.ts`. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { node } from '@elysiajs/node'
import { Elysia } from 'elysia'
import type { Decision } from '../../../ts/index.js'
import { type FetchRateLimitOptions, withRateLimit } from '../../../ts/middleware/fetch.js'
import { type Framework, FRAMEWORKS as OTHERS } from '../../middleware/frameworks'

export type { Exchange, Framework, ServedApp, Setup } from '../../middleware/frameworks'

type Handle = (request: Request) => Promise<Response>

/** Its adapter is `tollgate/fetch`, so that what does not apply there does not apply here. */
const elysia: Framework = {
  name: 'fetch in Elysia',
  hasAddress: false,
  header: (args, name) => (args[0] as Request).headers.get(name) ?? undefined,
  serve: async ({ options, route, property = 'rateLimit', onRequest }) => {
    const limited = withRateLimit(
      (request, handle: Handle) => handle(request),
      options as FetchRateLimitOptions<string, string, [Handle]>,
    )
    const app = new Elysia({ adapter: node() })
      .wrap((handle) => (request: Request) => {
        const answer = limited(request, handle as unknown as Handle)
        return answer.catch(() => new Response('Internal Server Error', { status: 500 }))
      })
      .all('/*', async ({ request }) => {
        const decision = (request as unknown as { readonly [name: string]: Decision })[property]
        const { status, body } = await route(new URL(request.url).pathname, decision)
        return new Response(body, { status })
      })
    const server = await new Promise<Server>((resolve) => {
      app.listen({ port: 0, hostname: '127.0.0.1' }, (served) => {
        resolve((served as unknown as { readonly raw: { readonly node: { readonly server: Server } } }).raw.node.server)
      })
    })
    server.prependListener('request', (request, response) => onRequest?.({ request, response }))
    if (!server.listening) {
      await once(server, 'listening')
    }
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      close: async () => {
        server.closeAllConnections()
        server.close()
      },
    }
  },
}

const isNest = ({ name }: Framework) => name === 'Nest over Express'

export const FRAMEWORKS: readonly Framework[] = [
  ...OTHERS.filter(isNest).map((nest) => ({ ...nest, name: 'Nest over Express, version 12' })),
  elysia,
]

export const HTTP2_FRAMEWORKS: readonly Framework[] = []
