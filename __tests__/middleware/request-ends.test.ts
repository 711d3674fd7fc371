/** Refunds after a request has ended, in each framework. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect, createServer } from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import Koa from 'koa'
import type { Decision } from '../../ts/index.js'
import { fixedWindow, RateLimiter } from '../../ts/index.js'
import { rateLimit } from '../../ts/middleware/koa.js'
import type { RequestEnd } from '../../ts/middleware/shared/options.js'
import { until } from '../servers/until.js'
import { FRAMEWORKS, type Framework, type ServedApp } from './frameworks.js'
import { warningsOf } from './warnings.js'

const open: ServedApp[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((served) => served.close()))
})

const LIMIT = 10

/** A limiter of 10 that counts its refund calls. */
function countingLimiter() {
  const limiter = new RateLimiter(fixedWindow({ limit: LIMIT, window: '1h' }))
  const refund = jest.fn((decision: Decision<'default'>) => limiter.refund(decision))
  const used = async () => LIMIT - (await limiter.peek('ann')).remaining
  return { limiter: { policies: limiter.policies, take: limiter.take.bind(limiter), refund }, used, refund }
}

/** A promise that is resolved from outside. */
function pending() {
  let resolve = () => {}
  const promise = new Promise<void>((kept) => {
    resolve = kept
  })
  return { promise, resolve }
}

/**
 * An app with `/ok`, `/missing`, `/thrown`, and `/slow`, which waits for a promise before it
 * answers.
 */
async function serve(framework: Framework, options: object) {
  const [entered, released] = [pending(), pending()]
  const served = await framework.serve({
    options: { key: () => 'ann', ...options },
    route: async (path) => {
      if (path === '/thrown') {
        throw new Error('the route failed')
      }
      if (path === '/slow') {
        entered.resolve()
        await released.promise
      }
      return { status: path === '/missing' ? 404 : 200, body: path }
    },
  })
  open.push(served)
  const status = async (path: string) => {
    const response = await fetch(served.url + path)
    await response.arrayBuffer()
    return response.status
  }
  return { served, status, entered, released }
}

describe.each(FRAMEWORKS.map((framework) => [framework.name, framework] as const))('%s', (_, framework) => {
  test('failed requests are refunded, others are not', async () => {
    const { limiter, used, refund } = countingLimiter()
    const { status } = await serve(framework, { limiter, refundWhen: 'failed', cost: 3 })
    expect(await status('/ok')).toBe(200)
    expect(await status('/missing')).toBe(404)
    expect(await status('/thrown')).toBe(500)
    await until(
      'both are given back',
      async () => (refund.mock.calls.length === 2 && (await used()) === 3) || undefined,
    )
  })

  test('successful requests are refunded, others are not', async () => {
    const { limiter, used, refund } = countingLimiter()
    const { status } = await serve(framework, { limiter, refundWhen: 'successful', cost: 3 })
    expect(await status('/missing')).toBe(404)
    expect(await status('/ok')).toBe(200)
    await until('one is given back', async () => (refund.mock.calls.length === 1 && (await used()) === 3) || undefined)
  })

  test('a function decides by the outcome of a request; refused requests have nothing to refund', async () => {
    const { limiter, used, refund } = countingLimiter()
    const ends: RequestEnd[] = []
    const refundWhen = async (...args: unknown[]) => {
      const end = args.at(-1) as RequestEnd
      ends.push(end)
      return framework.header(args, 'host') !== undefined && end.status === 404
    }
    const { status } = await serve(framework, { limiter, refundWhen, cost: 6 })
    expect(await status('/missing')).toBe(404)
    await until('it is given back', async () => (await used()) === 0 || undefined)
    expect(await status('/ok')).toBe(200)
    expect(await status('/ok')).toBe(429)
    await until('both have ended', async () => ends.length === 2 || undefined)
    expect(ends).toEqual([
      { status: 404, aborted: false },
      { status: 200, aborted: false },
    ])
    expect(refund).toHaveBeenCalledTimes(1)
    expect(await used()).toBe(6)
  })

  test('a request aborted by its client has failed, and is refunded once', async () => {
    const { limiter, used, refund } = countingLimiter()
    const ends: RequestEnd[] = []
    const refundWhen = (...args: unknown[]) => {
      ends.push(args.at(-1) as RequestEnd)
      return (args.at(-1) as RequestEnd).aborted
    }
    const { served, entered, released, status } = await serve(framework, { limiter, refundWhen })
    const client = request(`${served.url}/slow`)
    client.on('error', () => {})
    client.end()
    await entered.promise
    expect(await used()).toBe(1)
    client.destroy()
    await until('it is given back', async () => (await used()) === 0 || undefined)
    released.resolve()
    // The route's later answer changes nothing.
    expect(await status('/ok')).toBe(200)
    await until('the other has ended', async () => ends.length === 2 || undefined)
    expect(ends.map(({ aborted }) => aborted)).toEqual([true, false])
    expect(refund).toHaveBeenCalledTimes(1)
    expect(await used()).toBe(1)
  })

  test('a client that disconnects before the decision is refunded, too', async () => {
    const { limiter, used, refund } = countingLimiter()
    const [keyCalled, keyReleased] = [pending(), pending()]
    const key = async () => {
      keyCalled.resolve()
      await keyReleased.promise
      return 'ann'
    }
    const { served } = await serve(framework, { limiter, refundWhen: 'failed', key })
    const sockets: Socket[] = []
    const onSocket = (message: unknown) => void sockets.push((message as { socket: Socket }).socket)
    subscribe('net.server.socket', onSocket)
    const client = request(`${served.url}/ok`)
    const gone = new Promise<void>((resolve) => client.on('error', () => resolve()))
    client.end()
    await keyCalled.promise
    unsubscribe('net.server.socket', onSocket)
    client.destroy()
    await gone
    await until('the server has noticed it', async () => sockets.length > 0 && sockets.every(({ closed }) => closed))
    keyReleased.resolve()
    await until('it is given back', async () => (refund.mock.calls.length === 1 && (await used()) === 0) || undefined)
  })

  // promise: refunded-once
  test('a failed refund causes one warning, and affects no request', async () => {
    const { limiter } = countingLimiter()
    const refund = jest.fn(async () => Promise.reject(new Error('the store is away')))
    const { status } = await serve(framework, { limiter: { ...limiter, refund }, refundWhen: 'successful' })
    const warnings = await warningsOf(async () => {
      expect([await status('/ok'), await status('/ok')]).toEqual([200, 200])
      await until('both have been tried', async () => refund.mock.calls.length === 2 || undefined)
      await new Promise((resolve) => setImmediate(resolve))
    })
    expect(warnings).toEqual([
      { code: 'TOLLGATE_REFUND_FAILED', message: expect.stringContaining('the store is away') },
    ])
  })
})

test('over HTTP/2 requests end as over HTTP/1.1', async () => {
  const { limiter, used, refund } = countingLimiter()
  const [entered, released] = [pending(), pending()]
  const app = new Koa().use(rateLimit({ limiter, key: () => 'ann', refundWhen: 'failed' })).use(async (context) => {
    if (context.path === '/slow') {
      entered.resolve()
      await released.promise
    }
    context.status = context.path === '/missing' ? 404 : 200
  })
  const server = createServer(app.callback()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  try {
    for (const [path, status] of [
      ['/ok', 200],
      ['/missing', 404],
    ] as const) {
      const stream = client.request({ ':path': path })
      const [headers] = await once(stream, 'response')
      expect(headers).toMatchObject({ ':status': status, ratelimit: expect.stringContaining('"default";r=') })
      stream.resume()
      await once(stream, 'close')
    }
    await until('the failed one is given back', async () => (await used()) === 1 || undefined)
    const slow = client.request({ ':path': '/slow' })
    slow.on('error', () => {})
    await entered.promise
    expect(await used()).toBe(2)
    slow.destroy()
    await until('the aborted one is given back', async () => (await used()) === 1 || undefined)
    released.resolve()
    expect(refund).toHaveBeenCalledTimes(2)
  } finally {
    client.destroy()
    server.close()
  }
})
