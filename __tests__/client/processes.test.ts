/**
 * Three processes call a server that limits by itself, in virtual time: the figures of the whole.
 * `processes.deep.test.ts` measures real processes.
 */
import { OutgoingClient } from '../../ts/client/index.js'
import { gcra, MemoryStore, RateLimiter } from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'
import { anything } from '../failure.js'
import { VirtualProcess } from '../permits/virtual-process.js'

/** The server admits this many requests in each of its windows. */
const LIMIT = 100

const WINDOW_MS = 2_000

const WINDOWS = 8

/** The time of a request and of its answer, and of a call to the store and of its answer, in milliseconds. */
const DISTANCE_MS = 1

// promise: client-blocks-key
test('at most one 429 per window and process, and at least 95 % of what the server admits', async () => {
  const clock = new TestClock()
  const began = clock.now()
  const admitted: number[] = []
  const refused: [window: number, process: number][] = []
  const sleep = (millis: number) => new Promise<void>((resolve) => clock.setTimeout(resolve, millis))
  const server = async (process: number) => {
    await sleep(DISTANCE_MS)
    const sinceBegin = clock.now() - began
    const number = Math.floor(sinceBegin / WINDOW_MS)
    const count = admitted[number] ?? 0
    const isAdmitted = count < LIMIT
    if (isAdmitted) {
      admitted[number] = count + 1
    } else {
      refused.push([number, process])
    }
    await sleep(DISTANCE_MS)
    const seconds = Math.ceil((WINDOW_MS - (sinceBegin % WINDOW_MS)) / 1_000)
    return new Response('', isAdmitted ? {} : { status: 429, headers: { 'Retry-After': String(seconds) } })
  }
  // The clients expect more than the server admits, as callers who do not know its limit.
  const policy = gcra({ limit: (LIMIT * 2 * 1_000) / WINDOW_MS, period: '1s', burst: 1 })
  const shared = new MemoryStore({ clock })
  let isRunning = true
  const clients = [0, 1, 2].map((process) => {
    const store = anything(new VirtualProcess(shared, clock, () => DISTANCE_MS))
    const limiter = new RateLimiter(policy, { store, prefix: 'sending' })
    return new OutgoingClient({ limiter, key: 'api', retries: 10, clock, fetch: () => server(process) })
  })
  const callers = clients.flatMap((client) =>
    Array.from({ length: 20 }, async () => {
      while (isRunning) {
        await client.fetch('https://api.example.com/')
      }
    }),
  )
  await clock.advance(WINDOWS * WINDOW_MS - 1)
  const sum = admitted.reduce((all, count) => all + count, 0)
  isRunning = false
  await clock.advance(2 * WINDOW_MS)
  await Promise.all(callers)
  expect(sum).toBeGreaterThanOrEqual(0.95 * LIMIT * WINDOWS)
  const pairs = refused.map((pair) => pair.join(' by '))
  expect(pairs.filter((pair, index) => pairs.indexOf(pair) !== index)).toEqual([])
  expect(refused.length).toBeGreaterThan(WINDOWS / 2)
  for (const client of clients) {
    await client.close()
  }
})
