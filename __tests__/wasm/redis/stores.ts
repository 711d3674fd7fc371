/** A server, and the clients through which `RedisStore.from` uses it. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Redis as Upstash } from '@upstash/redis'
import { GlideClient, Logger } from '@valkey/valkey-glide'
import { Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import { createClient } from 'redis'
import { createClient as createClient6, createClientPool } from 'redis-6'
import { type NodeRedisClient, RedisStore, type RedisStoreFromOptions } from '../../../ts/wasm/index.js'
import { RedisServer } from '../../servers/redis-server.js'

/** A client's store under test. */
export interface ClientStore {
  readonly store: RedisStore
  close(): Promise<void>
}

/**
 * Closes the clients. A client left by a failed test would reconnect for ever, and keep Jest
 * running.
 */
const ends: (() => void)[] = []

afterAll(() => {
  for (const end of ends) {
    end()
  }
})

/** A client from a function that carries only text. */
export function ioredis(port: number): Redis {
  const client = new Redis({ port, autoResendUnfulfilledCommands: false, enableReadyCheck: false })
  client.on('error', () => {})
  ends.push(() => client.status !== 'end' && client.disconnect())
  return client
}

/** A client of node-redis. */
interface AnyNodeRedisClient extends NodeRedisClient {
  readonly isOpen: boolean
  on(event: 'error', listener: () => void): unknown
  connect(): Promise<unknown>
  destroy(): void
}

async function nodeRedis(client: AnyNodeRedisClient, options?: RedisStoreFromOptions): Promise<ClientStore> {
  client.on('error', () => {})
  ends.push(() => client.isOpen && client.destroy())
  await client.connect()
  return { store: RedisStore.from(client, options), close: async () => client.destroy() }
}

/** The stores by client library. */
export const CLIENT_STORES: Record<string, (port: number, options?: RedisStoreFromOptions) => Promise<ClientStore>> = {
  async ioredis(port, options) {
    const client = ioredis(port)
    return { store: RedisStore.from(client, options), close: async () => client.disconnect() }
  },
  async iovalkey(port, options) {
    const client = new Valkey({ port, autoResendUnfulfilledCommands: false, enableReadyCheck: false })
    client.on('error', () => {})
    ends.push(() => client.status !== 'end' && client.disconnect())
    return { store: RedisStore.from(client, options), close: async () => client.disconnect() }
  },
  async 'node-redis'(port, options) {
    return nodeRedis(createClient({ socket: { port } }), options)
  },
  async 'node-redis 6'(port, options) {
    return nodeRedis(createClient6({ socket: { port } }), options)
  },
  async 'a pool of node-redis 6'(port, options) {
    return nodeRedis(createClientPool({ socket: { port } }, { minimum: 2 }), options)
  },
  async '@valkey/valkey-glide'(port, options) {
    Logger.init('off')
    const addresses = [{ host: '127.0.0.1', port }]
    const client = await GlideClient.createClient({ addresses, requestTimeout: 10_000 })
    ends.push(() => client.close())
    return { store: RedisStore.from(client, options), close: async () => client.close() }
  },
  async '@upstash/redis'(port, options) {
    const bridge = await Bridge.start(port)
    const client = new Upstash({ url: bridge.url, token: 'secret', retry: { retries: 0 } })
    return { store: RedisStore.from(client, options), close: () => bridge.close() }
  },
  async 'a function'(port, options) {
    const client = ioredis(port)
    const run = ([name = '', ...args]: string[]) => client.call(name, ...args)
    return { store: RedisStore.from(run, options), close: async () => client.disconnect() }
  },
}

/**
 * Redis behind HTTP with the protocol of Upstash's service: JSON arrays for one command or for
 * several.
 */
export class Bridge {
  readonly #server: Server
  readonly #client: Redis
  /** The requests that were made. */
  requests = 0

  private constructor(port: number) {
    this.#client = ioredis(port)
    this.#server = createServer(async (request, response) => {
      this.requests++
      const chunks: Buffer[] = []
      for await (const chunk of request) {
        chunks.push(chunk as Buffer)
      }
      const body = JSON.parse(Buffer.concat(chunks).toString()) as string[] | string[][]
      const isBase64 = request.headers['upstash-encoding'] === 'base64'
      const several = Array.isArray(body[0])
      const answers = await Promise.all(
        (several ? body : [body]).map((command) => this.#answer((command as string[]).map(String), isBase64)),
      )
      response.statusCode = several || answers[0]?.error === undefined ? 200 : 400
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(several ? answers : answers[0]))
    })
  }

  static async start(port: number): Promise<Bridge> {
    const bridge = new Bridge(port)
    await new Promise<void>((resolve) => bridge.#server.listen(0, '127.0.0.1', resolve))
    return bridge
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    this.#client.disconnect()
  }

  async #answer([name = '', ...args]: string[], isBase64: boolean): Promise<{ result?: unknown; error?: string }> {
    try {
      const result = await this.#client.callBuffer(name, ...args)
      return { result: coded(result, isBase64) }
    } catch (error) {
      return { error: (error as Error).message }
    }
  }
}

function coded(value: unknown, isBase64: boolean): unknown {
  if (Buffer.isBuffer(value)) {
    return isBase64 ? value.toString('base64') : value.toString()
  }
  return Array.isArray(value) ? value.map((one) => coded(one, isBase64)) : value
}

/** A server that runs during the tests of a file. */
export function openedServer(): { readonly server: RedisServer } {
  let server: RedisServer
  beforeAll(async () => {
    server = await RedisServer.start()
  })
  afterAll(() => server.stop())
  return {
    get server() {
      return server
    },
  }
}
