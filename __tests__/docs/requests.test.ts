/** Requests with unusual headers to every program of the pages that serves some. */
import { once } from 'node:events'
import { createServer, type RequestListener, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import express5 from 'express'
import fastify, { type FastifyInstance } from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { RedisServer } from '../servers/redis-server.js'
import { type Block, blocks, placeOf } from './pages.js'
import { run } from './run.js'

const express4 = require('express4') as typeof express5

/** The values of headers from which a program may make a key. */
const VALUES: readonly (readonly [string, string | string[] | undefined])[] = [
  ['missing', undefined],
  ['empty', ''],
  ['long', 'a'.repeat(1_025)],
  ['repeated', ['ann', 'bob']],
  ['repeated and empty', ['', '']],
  ['no text of UTF-8', '\xff\xfe'],
]

const NAMES = ['x-api-key', 'x-user', 'x-forwarded-for', 'cf-connecting-ip', 'authorization']

/** The code that gives a block what its page leaves out. */
const GIVEN: Readonly<Record<string, string>> = {
  limiter:
    "const limiter = new (require('tollgate').RateLimiter)(require('tollgate').gcra({ limit: 1e6, period: '1s' }))",
  redis: "const redis = new (require('tollgate').RedisStore)('redis://localhost:6379')",
  search: 'const search = async () => ({})',
  health: "const health = async () => 'ok'",
  cors: "const cors = ({ origin }) => (_, response, next) => (response.set('access-control-allow-origin', origin), next())",
}

const APPS: Readonly<Record<string, string>> = {
  "import('express').Express": "const app = require('express')()",
  "import('fastify').FastifyInstance": "const app = require('fastify')()",
}

/** A block that begins a server, or makes the app of one. */
function serves({ language, code, given }: Block): boolean {
  const isApp = /\bapp = (express|fastify|new Koa|new Hono)\(|export default \{ fetch/.test(code)
  const isGiven = given.some(([name, type]) => name === 'app' && APPS[type] !== undefined)
  const isOurs = code.includes("'tollgate") && !code.startsWith('// before')
  return ['js', 'ts'].includes(language) && isOurs && (isApp || isGiven)
}

/** The apps that a program makes. */
class Made {
  readonly listeners: RequestListener[] = []
  readonly fastifies: FastifyInstance[] = []
  readonly modules: Readonly<Record<string, unknown>>

  constructor(express: typeof express5) {
    const made = this
    const newApp = () => {
      const app = express()
      // Express's own error handling logs each error, unless it is in a test.
      app.set('env', 'test')
      made.listeners.push(app)
      return Object.assign(app, { listen: () => ({ close: () => {} }) })
    }
    class RecordedKoa extends Koa {
      constructor(options?: object) {
        super(options)
        this.silent = true
        made.listeners.push((request, response) => this.callback()(request, response))
      }
    }
    class RecordedHono extends Hono {
      constructor() {
        super()
        made.listeners.push(getRequestListener((request, env) => this.fetch(request, env)))
      }
    }
    const newFastify = () => {
      const app = fastify()
      made.fastifies.push(app)
      return app
    }
    this.modules = {
      express: Object.assign(newApp, express),
      fastify: newFastify,
      koa: RecordedKoa,
      hono: { Hono: RecordedHono },
    }
  }

  /** Begins the servers of all apps. */
  async servers(exported: { readonly default?: { readonly fetch?: (request: Request) => Promise<Response> } }) {
    const fetch = exported.default instanceof Hono ? undefined : exported.default?.fetch
    if (fetch !== undefined) {
      this.listeners.push(getRequestListener((request) => fetch(request)))
    }
    const servers: Server[] = []
    for (const app of this.fastifies) {
      await app.ready()
      servers.push(app.server)
    }
    servers.push(...this.listeners.map((listener) => createServer(listener)))
    for (const server of servers) {
      await once(server.listen(0, '127.0.0.1'), 'listening')
    }
    return servers
  }
}

/** The status of a request. A request without an answer fails. */
async function statusOf(server: Server, method: string, path: string, value: string | string[] | undefined) {
  const { port } = server.address() as AddressInfo
  const headers = value === undefined ? {} : Object.fromEntries(NAMES.map((name) => [name, value]))
  const signal = AbortSignal.timeout(10_000)
  const outgoing = request({ host: '127.0.0.1', port, method, path, headers, signal, agent: false })
  outgoing.end()
  const [response] = await once(outgoing, 'response')
  response.resume()
  return response.statusCode as number
}

const PROGRAMS = blocks.filter(serves)

test('programs of these pages serve requests', () => {
  const pages = new Set(PROGRAMS.map(({ page }) => page))
  expect([...pages].sort()).toEqual([
    'README.md',
    'docs/getting-started.md',
    'docs/llm-budgets.md',
    'docs/middleware.md',
    'docs/middleware/express.md',
    'docs/middleware/fastify.md',
    'docs/middleware/fetch.md',
    'docs/middleware/headers.md',
    'docs/middleware/keys.md',
    'docs/middleware/refusals.md',
    'docs/migrating.md',
  ])
})

describe.each([
  ['Express 5', express5],
  ['Express 4', express4],
] as const)('with %s', (_, express) => {
  let redis: RedisServer

  beforeAll(async () => {
    redis = await RedisServer.start()
  })

  afterAll(() => redis.stop())

  test.each(PROGRAMS.map((block) => [placeOf(block), block] as const))('%s', async (_, block) => {
    const made = new Made(express)
    const given = block.given.map(([name, type]) => (name === 'app' ? APPS[type] : GIVEN[name]) ?? '')
    const signals = process.listeners('SIGTERM')
    const silenced = [jest.spyOn(process, 'emitWarning'), jest.spyOn(console, 'warn')]
    for (const spy of silenced) {
      ;(spy as jest.SpyInstance).mockImplementation(() => {})
    }
    const code = [...given, block.code].join('\n')
    const { exports } = await run<object>({ ...block, code }, { redisUrl: redis.url, modules: made.modules })
    const servers = await made.servers(exports)
    try {
      expect(servers.length).toBeGreaterThan(0)
      for (const server of servers) {
        for (const [value, header] of VALUES) {
          for (const [method, path] of [
            ['GET', '/'],
            ['POST', '/login'],
          ] as const) {
            const status = await statusOf(server, method, path, header)
            expect([value, method, path, status < 500]).toEqual([value, method, path, true])
          }
        }
      }
    } finally {
      for (const spy of silenced) {
        spy.mockRestore()
      }
      for (const listener of process.listeners('SIGTERM').filter((one) => !signals.includes(one))) {
        process.removeListener('SIGTERM', listener)
      }
      for (const server of servers) {
        server.closeAllConnections()
        server.close()
      }
    }
  })
})
