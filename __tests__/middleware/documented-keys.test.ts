/** The keys of docs/middleware/, for requests that lack what the keys are made from. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { getConnInfo } from '@hono/node-server/conninfo'
import express5 from 'express'
import { Hono } from 'hono'
import { fixedWindow, gcra, RateLimiter } from '../../ts/index.js'
import { rateLimit as forExpress, ipKey } from '../../ts/middleware/express.js'
import { rateLimit as forHono } from '../../ts/middleware/hono.js'
import { warningsOf } from './warnings.js'

const express4 = require('express4') as typeof express5

const limiterOf = () => new RateLimiter(fixedWindow({ limit: 5, window: '1h' }))

let server: Server

async function urlOf(listener: Parameters<typeof createServer>[1]): Promise<string> {
  server = createServer(listener as never)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

afterEach(() => {
  server.closeAllConnections()
  server.close()
})

/** The statuses of requests, and the reasons in the warnings. */
async function run(requests: readonly (() => Promise<Response>)[]) {
  const statuses: number[] = []
  const warnings = await warningsOf(async () => {
    for (const request of requests) {
      const response = await request()
      await response.arrayBuffer()
      statuses.push(response.status)
    }
  })
  return { statuses, codes: warnings.map(({ code }) => code), reason: warnings[0]?.message ?? '' }
}

describe('Hono', () => {
  const serve = (key: (context: never) => string) => {
    const app = new Hono().use(forHono({ limiter: limiterOf(), key: key as never }))
    app.get('/', (context) => context.text('through'))
    return urlOf(getRequestListener(app.fetch))
  }

  test('on a Worker, a request without cf-connecting-ip has no key', async () => {
    const url = await serve((c: { req: { header(name: string): string | undefined } }) => {
      return ipKey(c.req.header('cf-connecting-ip') ?? '')
    })
    const headers = { 'cf-connecting-ip': '192.0.2.1' }
    const { statuses, codes, reason } = await run([() => fetch(url), () => fetch(url, { headers })])
    expect([statuses, codes]).toEqual([[400, 200], ['TOLLGATE_INVALID_INPUT']])
    expect(reason).toMatch(
      /^tollgate\/hono: a request was answered with 400: key cannot be made: the request has no client/,
    )
  })

  test('a header that is missing is no key', async () => {
    const url = await serve((c: { req: { header(name: string): string } }) => c.req.header('x-api-key'))
    const headers = { 'x-api-key': 'ann' }
    const { statuses, codes, reason } = await run([() => fetch(url), () => fetch(url, { headers })])
    expect([statuses, codes]).toEqual([[400, 200], ['TOLLGATE_INVALID_INPUT']])
    expect(reason).toMatch(/key must be a string, got undefined/)
  })

  test("on Node.js, every request has the connection's address", async () => {
    const url = await serve((c) => ipKey(getConnInfo(c).remote.address))
    expect(await run([() => fetch(url)])).toEqual({ statuses: [200], codes: [], reason: '' })
  })
})

test.each([
  ['Express 5', express5, /key threw a TypeError at /],
  ['Express 4', express4, /key.account must be a string, got undefined/],
] as const)('%s: a login without a body, or without an account, has no key', async (_, express, reason) => {
  const login = new RateLimiter({
    ip: gcra({ limit: 20, period: '1m', per: 'ip' }),
    account: gcra({ limit: 5, period: '1h', per: 'account' }),
  })
  const app = express()
  const entered = jest.fn((_request, response) => void response.send('in'))
  const key = (request: express5.Request) => ({ ip: ipKey(request.ip), account: request.body.account })
  app.post('/login', express.json(), forExpress({ limiter: login, key }), entered)
  const url = `${await urlOf(app)}/login`
  const post = (body?: string) => () => {
    const headers = { 'content-type': 'application/json' }
    return fetch(url, { method: 'POST', ...(body !== undefined && { headers, body }) })
  }
  const result = await run([post(), post('{}'), post('{"account":7}'), post('{"account":"ann"}')])
  expect([result.statuses, result.codes]).toEqual([[400, 400, 400, 200], ['TOLLGATE_INVALID_INPUT']])
  expect(result.reason).toMatch(reason)
  expect(entered).toHaveBeenCalledTimes(1)
  // Nothing was counted for the requests without a key.
  const { policies } = await login.peek({ ip: '127.0.0.1', account: 'ann' })
  expect([policies.ip.remaining, policies.account.remaining]).toEqual([19, 4])
})
