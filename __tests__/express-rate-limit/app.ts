import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express, { type RequestHandler } from 'express'
import { type Options, rateLimit } from 'express-rate-limit'
import { rateLimit as rateLimit7 } from 'express-rate-limit-7'
import type { TollgateStore } from '../../ts/middleware/express-rate-limit.js'

/** The supported versions of express-rate-limit. Tests use only their common features. */
export const VERSIONS = { 8: rateLimit, 7: rateLimit7 as unknown as typeof rateLimit }

/** An answer: its status, and its header fields. */
export interface Answer {
  readonly status: number
  readonly limit: number
  readonly remaining: number
  /** Epoch seconds. */
  readonly reset: number
  readonly retryAfter: number | undefined
}

/**
 * An Express app with express-rate-limit, over real HTTP. The header `x-client` names the client.
 */
export class App {
  readonly #url: string
  /** The messages that express-rate-limit logged. */
  readonly logged: unknown[]
  readonly #close: () => Promise<void>

  private constructor(url: string, logged: unknown[], close: () => Promise<void>) {
    this.#url = url
    this.logged = logged
    this.#close = close
  }

  static async start(
    store: TollgateStore,
    { version = 8, ...options }: Partial<Options> & { readonly version?: keyof typeof VERSIONS },
    handler?: RequestHandler,
  ): Promise<App> {
    const logged: unknown[] = []
    const log = (error: unknown) => logged.push(error)
    const app = express()
    const keyGenerator: Options['keyGenerator'] = (req) => req.get('x-client') as string
    const logger = version === 8 ? { logger: { error: log, warn: log } } : {}
    app.use(VERSIONS[version]({ windowMs: 60_000, keyGenerator, ...logger, ...options, store }))
    app.use(handler ?? ((_req, res) => res.send('hello')))
    // Express's own error handling logs each error, unless it is in a test.
    app.set('env', 'test')
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const close = async () => {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    }
    return new App(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, logged, close)
  }

  fetch(client: string, init: RequestInit = {}): Promise<Response> {
    return fetch(this.#url, { ...init, headers: { 'x-client': client } })
  }

  async get(client = 'ann'): Promise<Answer> {
    const response = await this.fetch(client)
    await response.arrayBuffer()
    const number = (name: string) => Number(response.headers.get(name) ?? Number.NaN)
    const retryAfter = response.headers.get('retry-after')
    return {
      status: response.status,
      limit: number('x-ratelimit-limit'),
      remaining: number('x-ratelimit-remaining'),
      reset: number('x-ratelimit-reset'),
      retryAfter: retryAfter === null ? undefined : Number(retryAfter),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close()
  }
}
