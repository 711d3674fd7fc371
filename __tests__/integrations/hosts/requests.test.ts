/**
 * Requests of a Worker that share limiters. On workerd a socket and a timer belong to the request that made them, and
 * end with it.
 */
import { readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { concurrency, RateLimiter, RedisStore } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { Bridge } from '../../wasm/redis/stores.js'
import { EARLIEST, HeldServer, LATEST, type ServedWorker, serveWorker } from './workerd.js'

let redis: RedisServer
let bridge: Bridge
/** Upstash, as the Worker sees it. */
let upstash: HeldServer
/** A server that the requests of the Worker wait for. */
let other: HeldServer
let worker: ServedWorker

beforeAll(async () => {
  redis = await RedisServer.start()
  bridge = await Bridge.start(redis.port)
  upstash = await HeldServer.start(
    ({ method = 'GET', headers }, body, response) => {
      const forwarded = httpRequest(bridge.url, { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 0, answer.headers)
        answer.pipe(response)
      })
      forwarded.end(body)
    },
    // Not the registry of policies, which a call of any request writes.
    (body) => /evalsha/i.test(String(body)),
  )
  other = await HeldServer.start(({ url }, _, response) => response.end(url))
})

afterAll(async () => {
  await Promise.all([other?.stop(), upstash?.stop()])
  await bridge?.close()
  await redis?.stop()
})

beforeEach(async () => {
  upstash.release()
  await redis.command('FLUSHALL')
})

/** Starts a request of the Worker, which waits for `/NAME` of the other server. */
function begin(path: string, name = path.slice(1)) {
  const controller = new AbortController()
  const answer = fetch(`${worker.url}${path}?until=${encodeURIComponent(`${other.url}/${name}`)}`, controller).then(
    async (response) => {
      const text = await response.text()
      return response.ok ? JSON.parse(text) : text
    },
  )
  answer.catch(() => {})
  return { answer, abort: () => controller.abort() }
}

describe.each([EARLIEST, LATEST])('$compatibilityDate $compatibilityFlags', (compatibility) => {
  beforeAll(async () => {
    const program = readFileSync(join(__dirname, 'worker.mjs'), 'utf8')
    worker = await serveWorker(program, { UPSTASH_URL: upstash.url }, compatibility)
  })

  afterAll(() => worker?.stop())

  test('a call does not wait for a call of another request, which may end before', async () => {
    await begin('/take').answer
    upstash.isHeld = true
    const first = begin('/take')
    const held = await upstash.next()
    const second = begin('/take')
    const next = await upstash.next()
    first.abort()
    next()
    expect(await second.answer).toBe(98)
    held()
  })

  test('a call of a request that was cancelled does not count as pending for ever', async () => {
    expect(await begin('/one').answer).toBe(true)
    upstash.isHeld = true
    const first = begin('/one')
    await upstash.next()
    first.abort()
    upstash.release()
    await until('the store has room', async () => (await begin('/one').answer) === true)
  })

  test('a permit is renewed after the request that acquired another one has ended', async () => {
    const first = begin('/permit', 'first')
    const firstHeld = await other.next()
    const second = begin('/permit', 'second')
    const secondHeld = await other.next()
    firstHeld()
    expect(await first.answer).toEqual({ isAborted: false, wasHeld: true })
    // The renewals of the second permit, over more than its life.
    upstash.isHeld = true
    for (let count = 0; count < 4; count++) {
      ;(await upstash.next())()
    }
    upstash.release()
    secondHeld()
    expect(await second.answer).toEqual({ isAborted: false, wasHeld: true })
  })

  test('a request gets a permit after another one has abandoned its wait', async () => {
    await using store = new RedisStore(redis.url)
    const limiter = new RateLimiter(concurrency({ limit: 1, ttl: '1m' }), { store, prefix: 'single' })
    const permit = await limiter.acquire('all')
    upstash.isHeld = true
    const first = begin('/abandoned-acquire')
    const firstHeld = await other.next()
    ;(await upstash.next())()
    const second = begin('/acquire', 'second')
    ;(await upstash.next())()
    ;(await upstash.next())()
    upstash.release()
    firstHeld()
    expect(await first.answer).toBe('ABORTED')
    expect(permit.allowed && (await permit.release())).toBe(true)
    ;(await other.next())()
    expect(await second.answer).toEqual({ wasHeld: true })
  })

  test('a request gets its slot after another one has abandoned an earlier slot', async () => {
    expect(await begin('/wait').answer).toBe(true)
    upstash.isHeld = true
    const first = begin('/abandoned-wait')
    const firstHeld = await other.next()
    ;(await upstash.next())()
    const second = begin('/wait')
    ;(await upstash.next())()
    upstash.release()
    firstHeld()
    expect(await first.answer).toBe('ABORTED')
    expect(await second.answer).toBe(true)
  })

  test('the calls of a client run in their own requests', async () => {
    const calls = ['first', 'second', 'third'].map((name) => begin('/client', name))
    for (const _ of calls) {
      ;(await other.next())()
    }
    expect(await Promise.all(calls.map(({ answer }) => answer))).toEqual(['/first', '/second', '/third'])
  })
})
