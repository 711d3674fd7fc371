/** The sender of webhooks on docs/client.md: two processes over one Redis, and endpoints that answer by sockets. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { concurrency, gcra, RateLimiter, RedisStore } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { linesOf, startProgram } from '../node.js'
import { codeOf, programFile } from './page-program.js'

/** The policies of the page. */
const POLICIES = { rate: gcra({ limit: 10, period: '1s' }), atOnce: concurrency({ limit: 2, ttl: '1m' }) }

const BEGIN_US = 1_800_000_000_000_000

interface Line {
  readonly started?: string
  readonly blocked?: string
  readonly durationMs?: number
  readonly isApplied?: boolean
  readonly id?: string
  readonly status?: number
}

/** The requests to an endpoint, with the function that answers each. */
class Endpoints {
  readonly attempts: { readonly endpoint: string; readonly id: string }[] = []
  readonly atOnce = new Map<string, number>()
  mostAtOnce = 0
  readonly #server = createServer((request, response) => this.#onRequest(request, response))

  /** @param answer - Answers the attempt of this number on an endpoint, from 1. */
  constructor(
    private readonly answer: (endpoint: string, attempt: number, response: ServerResponse) => Promise<void> | void,
  ) {}

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  on(endpoint: string): number {
    return this.attempts.filter((attempt) => attempt.endpoint === endpoint).length
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #onRequest({ url = '', headers }: IncomingMessage, response: ServerResponse): void {
    const endpoint = url.slice(1)
    this.attempts.push({ endpoint, id: String(headers['idempotency-key']) })
    const now = (this.atOnce.get(endpoint) ?? 0) + 1
    this.atOnce.set(endpoint, now)
    this.mostAtOnce = Math.max(this.mostAtOnce, now)
    response.once('close', () => this.atOnce.set(endpoint, (this.atOnce.get(endpoint) ?? 0) - 1))
    void this.answer(endpoint, this.on(endpoint), response)
  }
}

test('each endpoint gets its limit, retries and pauses, and each attempt is charged once', async () => {
  // Its clock stands still: no unit comes back, and no pause ends, before the test says so.
  const redis = await RedisServer.start({ timeUs: BEGIN_US })
  await using program = programFile(codeOf('client.md', 'Webhooks'), redis.url)
  const endpoints = new Endpoints(async (endpoint, attempt, response) => {
    if (endpoint === 'busy' && attempt === 1) {
      response.writeHead(429, { 'retry-after': '1' }).end()
    } else if (endpoint === 'broken' && attempt === 1) {
      response.writeHead(503).end()
    } else if (endpoint === 'broken' && attempt === 2) {
      response.destroy()
    } else {
      if (endpoint === 'slow' && attempt === 1) {
        await until('two at once', async () => endpoints.on('slow') > 1)
      }
      response.end('received')
    }
  })
  const url = await endpoints.listen()
  const programs: ReturnType<typeof startProgram>[] = []
  const outputs: Line[][] = []
  const send = (...events: readonly (readonly [endpoint: string, id: string])[]) => {
    const given = events.map(([endpoint, id]) => ({ id, endpoint, url: `${url}/${endpoint}`, body: { id } }))
    const sender = startProgram(join(__dirname, 'sender.mjs'), program.file, JSON.stringify(given))
    programs.push(sender)
    const own = linesOf<Line>(sender)
    outputs.push(own.lines)
    return own
  }
  const slow = (name: string) => Array.from({ length: 4 }, (_, index) => ['slow', `${name}-${index}`] as const)
  try {
    const first = send(['busy', 'a'], ['broken', 'b'], ...slow('first'))
    await first.has(1, ({ blocked }) => blocked === 'busy')
    const second = send(['busy', 'c'], ['good', 'd'], ...slow('second'))
    await Promise.all([first.has(1, ({ id }) => id === 'b'), second.has(1, ({ id }) => id === 'd')])
    // The pauses of both processes end by their own clocks, but Redis still knows the block.
    await sleep(1_100)
    expect(endpoints.on('busy')).toBe(1)
    await using store = new RedisStore(redis.url)
    const limiter = new RateLimiter(POLICIES, { store, prefix: 'webhooks' })
    const charged = async (endpoint: string) => (await limiter.peek(endpoint)).policies.rate.used
    expect(await charged('broken')).toBe(3)
    expect(await charged('good')).toBe(1)
    expect(await charged('busy')).toBe(1)
    redis.setTime(BEGIN_US + 2_000_000)
    await Promise.all([first.closed, second.closed])
    await limiter.close()
  } finally {
    for (const sender of programs) {
      sender.kill('SIGKILL')
    }
    await endpoints.close()
    await redis.stop()
  }

  const lines = outputs.flat()
  const results = lines.filter(({ id }) => id !== undefined)
  expect(results.map(({ status }) => status)).toEqual(Array(12).fill(200))
  expect(lines.filter(({ blocked }) => blocked)).toEqual([{ blocked: 'busy', durationMs: 1_000, isApplied: true }])
  // Turns and attempts are as many, and all attempts of an event have its key.
  expect(lines.filter(({ started }) => started)).toHaveLength(endpoints.attempts.length)
  const ids = endpoints.attempts.map(({ endpoint, id }) => `${endpoint} ${id}`)
  expect(ids.filter((id) => id.startsWith('broken'))).toEqual(Array(3).fill('broken b'))
  expect(new Set(ids).size).toBe(12)
  expect(ids).toHaveLength(12 + 2 + 1)
  expect(endpoints.mostAtOnce).toBe(2)
})
