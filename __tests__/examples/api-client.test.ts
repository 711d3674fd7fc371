/** The client of somebody else's API: it takes its turns, and does as it is told. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { RedisServer } from '../servers/redis-server.js'
import { start } from './run.js'

const CLIENT = 'examples/api-client.mjs'

/** What the client prints of answers: which item, and with what status. */
const itemsOf = (lines: readonly string[]) =>
  lines.flatMap((line) => {
    const [, item, status] = /^item (\d+): (\d+) after \d+\.\d s$/.exec(line) ?? []
    return item === undefined ? [] : [{ item: Number(item), status }]
  })

/** An API that tells when it was asked, and what it answered. */
interface Api {
  readonly url: string
  readonly asked: { readonly at: number; readonly path: string; readonly status: number }[]
  [Symbol.asyncDispose](): Promise<void>
}

/** @param refuses - Which Retry-After a request is refused with, if it is. */
async function startApi(refuses: (count: number, asked: Api['asked']) => string | undefined): Promise<Api> {
  const asked: Api['asked'] = []
  const server: Server = createServer(({ url = '' }, response) => {
    const retryAfter = refuses(asked.length + 1, asked)
    const status = retryAfter === undefined ? 200 : 429
    asked.push({ at: performance.now(), path: url, status })
    response.writeHead(status, retryAfter === undefined ? {} : { 'Retry-After': retryAfter }).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

test('against an API of its own that allows less than it was told, everything is answered in the end', async () => {
  await using client = start(CLIENT)
  expect(await client.end()).toEqual({ code: 0, stderr: '' })
  const items = itemsOf(client.lines)
  expect(items.map(({ item }) => item).sort((a, b) => a - b)).toEqual(Array.from({ length: 16 }, (_, item) => item))
  expect(items.every(({ status }) => status === '200')).toBe(true)
})

test.each(['in the process', 'over Redis'])('while it has been told to wait, nobody asks: %s', async (place) => {
  await using server = place === 'over Redis' ? await RedisServer.start() : undefined
  // After the fifth request it wants a second of rest, and whoever disturbs it is refused and begins that anew.
  await using api = await startApi((count, asked) => {
    const last = asked.findLast(({ status }) => status === 429)
    return count === 5 || (last !== undefined && performance.now() - last.at < 950) ? '1' : undefined
  })
  await using client = start(CLIENT, { API_URL: api.url, REDIS_URL: server?.url ?? '' })
  expect(await client.end()).toEqual({ code: 0, stderr: '' })
  expect(itemsOf(client.lines)).toHaveLength(16)
  const answered = api.asked.filter(({ status }) => status === 200).map(({ path }) => path)
  expect(answered.sort()).toEqual(Array.from({ length: 16 }, (_, item) => `/items/${item}`).sort())
  // Eleven waited for their turns when it was told, and would each have been refused had they asked. Requests that
  // were on their way already may have been: on a busy machine some, here almost always none.
  expect(api.asked.length - answered.length).toBeLessThan(11)
})

test('what takes longer than its patience is an error that names the time', async () => {
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

test('a date is understood as well as seconds', async () => {
  await using api = await startApi((count) =>
    // To the second, and so up to a second less than it says.
    count === 2 ? new Date(Date.now() + 2_000).toUTCString() : undefined,
  )
  await using client = start(CLIENT, { API_URL: api.url })
  expect(await client.end()).toEqual({ code: 0, stderr: '' })
  const refused = api.asked.findIndex(({ status }) => status === 429)
  const next = api.asked.slice(refused + 1).find(({ at }) => at - (api.asked[refused]?.at ?? 0) > 500)
  expect((next?.at ?? 0) - (api.asked[refused]?.at ?? 0)).toBeGreaterThanOrEqual(950)
  expect(api.asked.filter(({ status }) => status === 200)).toHaveLength(16)
})

test.each(['SIGINT', 'SIGTERM'] as const)('on %s all who wait leave, and it ends', async (signal) => {
  await using api = await startApi((count) => (count > 1 ? '8' : undefined))
  await using client = start(CLIENT, { API_URL: api.url })
  await client.line()
  expect(await client.end(signal)).toEqual({ code: 1, stderr: '' })
  expect(client.lines).toContain('stopped')
  expect(api.asked.length).toBeLessThan(16)
})
