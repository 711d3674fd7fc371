// Servers and clients of the Model Context Protocol over HTTP sockets, of several versions of its SDK.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { z } from 'zod'

const require = createRequire(import.meta.url)

export const {
  concurrency,
  fixedWindow,
  gcra,
  MemoryStore,
  RateLimiter,
  RedisStore,
} = require('../../../dist/index.js')
export const { limitToolCalls, limitTools } = require('../../../dist/mcp/index.js')
export const { TestClock } = require('../../../dist/testing/index.js')

/** A token is `user/client`, or only `/client`. */
const verifier = {
  async verifyAccessToken(token) {
    const [user, clientId] = token.split('/')
    const extra = user === '' ? {} : { extra: { sub: user } }
    return { token, clientId, scopes: [], expiresAt: Math.ceil(Date.now() / 1_000) + 3_600, ...extra }
  },
}

/** Verifies the token of a request by the SDK. A request without a token has no `auth`. */
async function authenticate(version, request, response) {
  const { authorization } = request.headers
  if (authorization === 'Bearer') return
  if (version === 'sdk') {
    const { requireBearerAuth } = await import('@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js')
    await new Promise((resolve) => requireBearerAuth({ verifier })(request, response, resolve))
    return
  }
  const { verifyBearerToken } = await import(`@modelcontextprotocol/${version}`)
  request.auth = await verifyBearerToken(authorization, { verifier })
}

/**
 * Starts a stateless server, which makes a server of the SDK for each request.
 *
 * @param version - `'server'` or `'server-2.0'`; `'sdk'` is version 1.
 * @param build - Registers the tools of a server. `limitOf` is applied before it.
 */
export async function serve(version, limitOf, build) {
  const handle = version === 'sdk' ? await handlerOfSdk1(limitOf, build) : await handlerOfSdk2(version, limitOf, build)
  const http = createServer(async (request, response) => {
    await authenticate(version, request, response)
    await handle(request, response)
  }).listen(0, '127.0.0.1')
  await once(http, 'listening')
  return { url: `http://127.0.0.1:${http.address().port}/`, stop: () => stopped(http) }
}

async function stopped(http) {
  http.close()
  http.closeAllConnections()
  await once(http, 'close')
}

async function handlerOfSdk2(version, limitOf, build) {
  const { createMcpHandler, McpServer } = await import(`@modelcontextprotocol/${version}`)
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'test', version: '1.0.0' })
    limitOf(server)
    build(server, z)
    return server
  })
  return toNodeHandler(handler)
}

async function handlerOfSdk1(limitOf, build) {
  const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js')
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js')
  return async (request, response) => {
    const server = new McpServer({ name: 'test', version: '1.0.0' })
    limitOf(server)
    build(server, z)
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
    response.on('close', () => void server.close())
    await server.connect(transport)
    await transport.handleRequest(request, response)
  }
}

/** Connects a client. `wrap` may limit it. */
export async function connect(version, url, token, wrap = (client) => client) {
  const { Client, StreamableHTTPClientTransport } = await import(`@modelcontextprotocol/${version}`)
  const client = wrap(new Client({ name: 'agent', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } }))
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }))
  return client
}

export const textResult = (text) => ({ content: [{ type: 'text', text }] })
