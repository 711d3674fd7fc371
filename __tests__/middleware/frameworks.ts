/** The same small app in each framework, over real HTTP, with its middleware. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createHttp2Server, type Http2Server, type ServerHttp2Session } from 'node:http2'
import type { AddressInfo } from 'node:net'
import 'reflect-metadata'
import { getRequestListener } from '@hono/node-server'
import { getConnInfo } from '@hono/node-server/conninfo'
import { All, Controller, type ExecutionContext, Module, Req, Res } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { NestExpressApplication } from '@nestjs/platform-express'
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify'
import express5 from 'express'
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { type Context, Hono } from 'hono'
import Koa from 'koa'
import type { Decision } from '../../ts/index.js'
import * as forExpress from '../../ts/middleware/express.js'
import fastifyPlugin from '../../ts/middleware/fastify.js'
import * as forFetch from '../../ts/middleware/fetch.js'
import * as forHono from '../../ts/middleware/hono.js'
import * as forKoa from '../../ts/middleware/koa.js'
import { RateLimitModule } from '../../ts/middleware/nest.js'
import type { Ask } from './requests.js'

const express4 = require('express4') as typeof express5
const fastify4 = require('fastify4') as typeof fastify

/** The app's handler for admitted requests. */
export type Route = (path: string, decision: Decision | undefined) => Promise<{ status: number; body: string }>

export interface Setup {
  /** Options of the middleware. Their functions receive the framework's arguments. */
  readonly options: object
  readonly route: Route
  /** Returns the decision from the framework's request, in the route. */
  readonly property?: string
  /** Whether the app trusts one proxy, several, or every proxy. */
  readonly trustsProxy?: boolean | number | 'every'
  /** The unix socket to listen on, in place of a port. */
  readonly path?: string
  /** Headers that an earlier middleware sets. */
  readonly headers?: { readonly [name: string]: string }
  /** Called with each request before the app. */
  readonly onRequest?: (exchange: Exchange) => void
}

/** A request and its response, as Node.js has them. */
export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

export interface ServedApp {
  readonly url: string
  close(): Promise<void>
}

export interface Framework {
  readonly name: string
  /** Whether the app speaks HTTP/2 only. */
  readonly isHttp2?: boolean
  /** Whether the client's address is the default key. */
  readonly hasAddress: boolean
  /** Makes a key of the client's address, as the pages show it. Absent if that is the default key. */
  readonly addressKey?: (context: never) => string
  serve(setup: Setup): Promise<ServedApp>
  /** The request that a protocol above HTTP sends for a path. */
  ask?(ask: Ask): Ask
  /** A request's header, from the arguments of users' functions. */
  header(args: readonly unknown[], name: string): string | undefined
}

type Headers = { readonly headers: { readonly [name: string]: string | undefined } }

const ofNode = (args: readonly unknown[], name: string) => (args[0] as Headers).headers[name]

function expressOf(name: string, express: typeof express5): Framework {
  return {
    name,
    hasAddress: true,
    header: ofNode,
    serve: async ({ options, route, property = 'rateLimit', trustsProxy = false, path, headers = {}, onRequest }) => {
      const app = express()
      app.set('env', 'test')
      if (trustsProxy) {
        app.set('trust proxy', trustsProxy === 'every' || Number(trustsProxy))
      }
      app.use((_, response, next) => {
        response.set(headers)
        next()
      })
      app.use(forExpress.rateLimit(options as forExpress.ExpressRateLimitOptions))
      app.use((request, response, next) => {
        const decision = (request as unknown as { readonly [name: string]: Decision })[property]
        route(request.path, decision).then(({ status, body }) => response.status(status).send(body), next)
      })
      return listening(createServer(app), path, onRequest)
    },
  }
}

const koaOver = (isHttp2: boolean): Framework => ({
  name: isHttp2 ? 'Koa over HTTP/2' : 'Koa',
  isHttp2,
  hasAddress: true,
  header: ofNode,
  serve: async ({ options, route, property = 'rateLimit', trustsProxy = false, path, headers = {}, onRequest }) => {
    const app = new Koa({
      proxy: trustsProxy !== false,
      maxIpsCount: trustsProxy === 'every' ? 0 : Number(trustsProxy),
    })
    app.silent = true
    app.use((context, next) => {
      context.set(headers)
      return next()
    })
    app.use(forKoa.rateLimit(options as forKoa.KoaRateLimitOptions))
    app.use(async (context) => {
      const { status, body } = await route(context.path, context.state[property])
      context.status = status
      context.body = body
    })
    return listening(
      isHttp2 ? createHttp2Server(app.callback() as never) : createServer(app.callback()),
      path,
      onRequest,
    )
  },
})

const fastifyOf = (name: string, create: typeof fastify, isHttp2 = false): Framework => ({
  name,
  isHttp2,
  hasAddress: true,
  header: ofNode,
  serve: async ({ options, route, property = 'rateLimit', trustsProxy = false, path, headers = {}, onRequest }) => {
    // Its types have no number, which programs in JavaScript still set.
    const trustProxy = (trustsProxy === 'every' || trustsProxy) as boolean
    const app = create({ http2: isHttp2 as false, trustProxy })
    const watched = watching(app.server, onRequest)
    app.addHook('onRequest', async (_, reply) => void reply.headers(headers))
    // Without it Fastify answers requests with an unknown type of body itself, after the limiter.
    app.addContentTypeParser('*', (_, __, done) => done(null))
    await app.register(fastifyPlugin, options as forExpress.ExpressRateLimitOptions as never)
    const handle = async (request: FastifyRequest, reply: FastifyReply) => {
      const decision = (request as unknown as { readonly [name: string]: Decision })[property]
      const { status, body } = await route(request.url, decision)
      return reply.code(status).send(body)
    }
    app.all('/*', handle)
    // For targets and methods that are no routes.
    app.setNotFoundHandler(handle)
    await app.listen(path === undefined ? { port: 0, host: '127.0.0.1' } : { path })
    return { url: path ?? urlOf(app.server), close: () => watched.closing(() => app.close()) }
  },
})

const honoOver = (isHttp2: boolean): Framework => ({
  name: isHttp2 ? 'Hono over HTTP/2' : 'Hono',
  isHttp2,
  hasAddress: false,
  addressKey: (context: Context) => forHono.ipKey(getConnInfo(context).remote.address),
  header: (args, name) => (args[0] as { req: { header(name: string): string | undefined } }).req.header(name),
  serve: async ({ options, route, property = 'rateLimit', path, headers = {}, onRequest }) => {
    const app = new Hono()
    app.use((context, next) => {
      for (const [name, value] of Object.entries(headers)) {
        context.header(name, value)
      }
      return next()
    })
    app.use(forHono.rateLimit(options as forHono.HonoRateLimitOptions))
    app.all('*', async (context) => {
      const { status, body } = await route(context.req.path, context.get(property as never) as Decision | undefined)
      return context.body(body, status as 200)
    })
    app.onError((error, context) => {
      const response = (error as { getResponse?(): Response }).getResponse?.()
      return response ?? context.text('Internal Server Error', 500)
    })
    const listener = getRequestListener(app.fetch)
    return listening(isHttp2 ? createHttp2Server(listener) : createServer(listener), path, onRequest)
  },
})

const webOver = (isHttp2: boolean): Framework => ({
  name: isHttp2 ? 'fetch over HTTP/2' : 'fetch',
  isHttp2,
  hasAddress: false,
  header: (args, name) => (args[0] as Request).headers.get(name) ?? undefined,
  serve: async ({ options, route, property = 'rateLimit', path, onRequest }) => {
    const handler = forFetch.withRateLimit(
      async (request) => {
        const decision = (request as unknown as { readonly [name: string]: Decision })[property]
        const { status, body } = await route(new URL(request.url).pathname, decision)
        return new Response(body, { status })
      },
      options as forFetch.FetchRateLimitOptions<string, string, [env: unknown]>,
    )
    const listener = getRequestListener(handler)
    return listening(isHttp2 ? createHttp2Server(listener) : createServer(listener), path, onRequest)
  },
})

function nestOf(
  name: string,
  anyPath: string,
  make: (root: new () => object, setup: Setup) => Promise<unknown>,
  isHttp2 = false,
): Framework {
  return {
    name,
    isHttp2,
    hasAddress: true,
    header: (args, header) => ofNode([(args[0] as ExecutionContext).switchToHttp().getRequest()], header),
    serve: async (setup) => {
      const { options, route, property = 'rateLimit', path, onRequest } = setup
      class Routes {
        async all(request: { readonly url: string; readonly [name: string]: unknown }, response: ResponseLike) {
          const { status, body } = await route(request.url, request[property] as Decision | undefined)
          response.status(status).send(body)
        }
      }
      // Calls the decorators as functions: the tests are compiled without decorators.
      Controller()(Routes)
      All(anyPath)(Routes.prototype, 'all', Object.getOwnPropertyDescriptor(Routes.prototype, 'all') as never)
      Req()(Routes.prototype, 'all', 0)
      Res()(Routes.prototype, 'all', 1)
      class Root {}
      const limits = RateLimitModule.forRoot(options as Parameters<typeof RateLimitModule.forRoot>[0] as never)
      Module({ imports: [limits], controllers: [Routes] })(Root)
      const app = (await make(Root, setup)) as NestApp
      const server = app.getHttpServer() as Server
      const watched = watching(server, onRequest)
      if (path === undefined) {
        await app.listen(0, '127.0.0.1')
      } else {
        // A Nest app over Fastify cannot listen on a socket by itself.
        await app.init()
        await app.getHttpAdapter().getInstance().ready?.()
        await new Promise<void>((resolve) => server.listen(path, resolve))
      }
      return { url: path ?? urlOf(server), close: () => watched.closing(() => app.close()) }
    },
  }
}

/** The common members of Express's response and Fastify's reply. */
interface ResponseLike {
  status(status: number): { send(body: string): unknown }
}

interface NestApp {
  init(): Promise<unknown>
  listen(port: number, host: string): Promise<unknown>
  getHttpAdapter(): { getInstance(): { ready?(): Promise<unknown> } }
  getHttpServer(): unknown
  close(): Promise<void>
}

const nestExpress = nestOf('Nest over Express', '{*path}', async (root, { trustsProxy = false, headers = {} }) => {
  const app = await NestFactory.create<NestExpressApplication>(root, { logger: false })
  app.use((_: unknown, response: ServerResponse, next: () => void) => {
    for (const [name, value] of Object.entries(headers)) {
      response.setHeader(name, value)
    }
    next()
  })
  if (trustsProxy) {
    app.set('trust proxy', trustsProxy === 'every' || Number(trustsProxy))
  }
  return app
})

function nestFastify(name: string, isHttp2: boolean): Framework {
  const make = async (root: new () => object, { trustsProxy = false, headers = {} }: Setup) => {
    const settings: object = { http2: isHttp2, trustProxy: trustsProxy === 'every' || trustsProxy }
    const adapter = new FastifyAdapter(settings)
    adapter.getInstance().addHook('onRequest', async (_, reply) => void reply.headers(headers))
    return NestFactory.create<NestFastifyApplication>(root, adapter, { logger: false })
  }
  return nestOf(name, '*', make, isHttp2)
}

/** The frameworks over HTTP/1.1. */
export const FRAMEWORKS: readonly Framework[] = [
  expressOf('Express 5', express5),
  expressOf('Express 4', express4),
  fastifyOf('Fastify', fastify),
  fastifyOf('Fastify 4', fastify4),
  koaOver(false),
  nestExpress,
  nestFastify('Nest over Fastify', false),
  honoOver(false),
  webOver(false),
]

/** The frameworks that also run over HTTP/2. */
export const HTTP2_FRAMEWORKS: readonly Framework[] = [
  fastifyOf('Fastify over HTTP/2', fastify, true),
  fastifyOf('Fastify 4 over HTTP/2', fastify4, true),
  koaOver(true),
  nestFastify('Nest over Fastify over HTTP/2', true),
  honoOver(true),
  webOver(true),
]

export async function listening(
  server: Server | Http2Server,
  path: string | undefined,
  onRequest?: Setup['onRequest'],
): Promise<ServedApp> {
  const watched = watching(server, onRequest)
  await new Promise<void>((resolve) => {
    if (path === undefined) {
      server.listen(0, '127.0.0.1', resolve)
    } else {
      server.listen(path, resolve)
    }
  })
  const close = () => watched.closing(async () => void server.close())
  return { url: path ?? urlOf(server), close }
}

/** Calls a function with each request of a server, and closes its connections. */
function watching(server: Server | Http2Server, onRequest: Setup['onRequest'] = () => {}) {
  const sessions = new Set<ServerHttp2Session>()
  ;(server as Http2Server).on('session', (session) => void sessions.add(session))
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    onRequest({ request, response })
  })
  return {
    async closing(close: () => Promise<unknown>): Promise<void> {
      ;(server as Partial<Server>).closeAllConnections?.()
      for (const session of sessions) {
        session.destroy()
      }
      await close()
    },
  }
}

function urlOf(server: Server | Http2Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** An `onError` for each framework that records the error and admits the request. */
export function passing({ name }: Framework, record: (error: unknown) => void): unknown {
  if (name.startsWith('Nest')) {
    return async (error: unknown) => {
      record(error)
      return true
    }
  }
  // By the last argument, where there is a `next`.
  return async (error: unknown, ...rest: unknown[]) => {
    record(error)
    const next = rest.at(-1)
    await (typeof next === 'function' ? next() : undefined)
  }
}
