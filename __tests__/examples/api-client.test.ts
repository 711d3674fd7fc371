/** The example client of a rate-limited API: it paces its requests and obeys Retry-After. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { RedisServer } from '../servers/redis-server.js'
import { start } from './run.js'

const CLIENT = 'examples/api-client.mjs'

/** The client's printed answers: item and status. */
const itemsOf = (lines: readonly string[]) =>
  lines.flatMap((line) => {
    const [, item, status] = /^item (\d+): (\d+) after \d+\.\d s$/.exec(line) ?? []
    return item === undefined ? [] : [{ item: Number(item), status }]
  })

/** An API that records the times of requests and its answers. */
interface Api {
  readonly url: string
  readonly requests: { readonly at: number; readonly path: string; readonly status: number }[]
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * @param refuses - The Retry-After with which a request is refused, if any.
 */
async function startApi(refuses: (count: number, requests: Api['requests']) => string | undefined): Promise<Api> {
  const requests: Api['requests'] = []
  const server: Server = createServer(({ url = '' }, response) => {
    const retryAfter = refuses(requests.length + 1, requests)
    const status = retryAfter === undefined ? 200 : 429
    requests.push({ at: performance.now(), path: url, status })
    response.writeHead(status, retryAfter === undefined ? {} : { 'Retry-After': retryAfter }).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

test('every item is answered in the end by an API that allows less than configured', async () => {
  await using client = start(CLIENT)
  expect(await client.end()).toEqual({ code: 0, stderr: '' })
  const items = itemsOf(client.lines)
  expect(items.map(({ item }) => item).sort((a, b) => a - b)).toEqual(Array.from({ length: 16 }, (_, item) => item))
  expect(items.every(({ status }) => status === '200')).toBe(true)
})

test.each(['in the process', 'over Redis'])('no request is sent during a Retry-After pause: %s', async (place) => {
  await using server = place === 'over Redis' ? await RedisServer.start() : undefined
  // After the fifth request the API wants a second of rest, and any request during it is refused
  // and restarts the second.
  await using api = await startApi((count, requests) => {
    const last = requests.findLast(({ status }) => status === 429)
    return count === 5 || (last !== undefined && performance.now() - last.at < 950) ? '1' : undefined
  })
  await using client = start(CLIENT, { API_URL: api.url, REDIS_URL: server?.url ?? '' })
  expect(await client.end()).toEqual({ code: 0, stderr: '' })
  expect(itemsOf(client.lines)).toHaveLength(16)
  const answered = api.requests.filter(({ status }) => status === 200).map(({ path }) => path)
  expect(answered.sort()).toEqual(Array.from({ length: 16 }, (_, item) => `/items/${item}`).sort())
  // Eleven requests waited when the pause began, and each would have been refused if sent. Requests
  // already sent may have been refused: a few on a busy machine, here almost always none.
  expect(api.requests.length - answered.length).toBeLessThan(11)
})

test("a wait beyond the client's maximum is an error that names the time", async () => {
  await using api = await startApi((count) => (count === 3 ? '3600' : undefined))
  await using client = start(CLIENT, { API_URL: api.url })
  const { code, stderr } = await client.end()
  expect([code, stderr]).toEqual([1, ''])
  const [, ms] =
    /^127\.0\.0\.1:\d+ is busy: try again in (\d+) ms$/.exec(
      client.lines.find((line) => line.includes('busy')) ?? '',
    ) ?? []
  expect(Number(ms)).toBeGreaterThan(3_590_000)
  expect(Number(ms)).toBeLessThanOrEqual(3_600_000)
})

test('Retry-After may be a date as well as seconds', async () => {
  let restsUntil = 0
  await using api = await startApi((count) => {
    if (count === 2) {
      // The date has whole seconds.
      restsUntil = Math.floor(Date.now() / 1_000) * 1_000 + 2_000
    }
    return Date.now() < restsUntil ? new Date(restsUntil).toUTCString() : undefined
  })
  await using client = start(CLIENT, { API_URL: api.url })
  expect(await client.end()).toEqual({ code: 0, stderr: '' })
  expect(api.requests.filter(({ status }) => status === 200)).toHaveLength(16)
  // Those that waited when the pause began were not sent during it.
  expect(api.requests.filter(({ status }) => status === 429).length).toBeLessThan(11)
})

test.each(['SIGINT', 'SIGTERM'] as const)(
  'on %s all waiting calls are aborted, and the process exits',
  async (signal) => {
    await using api = await startApi((count) => (count > 1 ? '8' : undefined))
    await using client = start(CLIENT, { API_URL: api.url })
    await client.line()
    expect(await client.end(signal)).toEqual({ code: 1, stderr: '' })
    expect(client.lines).toContain('stopped')
    expect(api.requests.length).toBeLessThan(16)
  },
)
