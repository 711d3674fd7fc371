/** Three processes call a real HTTP server that limits by itself: the figures of the whole. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { openedRedis } from '../redis/opened.js'

const redis = openedRedis()

/** The server admits this many requests in each of its windows. */
const LIMIT = 100

const WINDOW_MS = 2_000

const WINDOWS = 4

interface Window {
  admitted: number
  /** The refused requests by process. */
  readonly refused: Map<string, number>
}

/** What the server counted while three processes sent requests. */
interface Measured {
  readonly admitted: number
  /** The refused requests of each window, by process. */
  readonly refused: readonly (readonly number[])[]
}

async function measure(): Promise<Measured> {
  const windows: Window[] = []
  let began = 0
  const server = createServer((req, res) => {
    began ||= Date.now()
    const sinceBegin = Date.now() - began
    const number = Math.floor(sinceBegin / WINDOW_MS)
    windows[number] ??= { admitted: 0, refused: new Map() }
    const window = windows[number] as Window
    if (window.admitted < LIMIT) {
      window.admitted++
      res.end('yes')
      return
    }
    const name = String(req.headers['x-process'])
    window.refused.set(name, (window.refused.get(name) ?? 0) + 1)
    const seconds = Math.ceil((WINDOW_MS - (sinceBegin % WINDOW_MS)) / 1_000)
    res.writeHead(429, { 'Retry-After': String(seconds) })
    res.end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  // The clients expect more than the server admits, as callers who do not know its limit.
  const rate = (LIMIT * 2 * 1_000) / WINDOW_MS
  const children: ChildProcess[] = ['a', 'b', 'c'].map((name) => {
    return fork(join(__dirname, 'sending.cjs'), [redis.server.url, url, name, String(rate)])
  })
  const exits = children.map((child) => once(child, 'exit'))
  try {
    await Promise.all(children.map((child) => once(child, 'message')))
    await sleep(WINDOWS * WINDOW_MS + 500)
  } finally {
    for (const child of children) {
      child.disconnect()
    }
    await Promise.all(exits)
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  const whole = Array.from({ length: WINDOWS }, (_, index) => windows[index] ?? { admitted: 0, refused: new Map() })
  const admitted = whole.reduce((sum, window) => sum + window.admitted, 0)
  return { admitted, refused: whole.map(({ refused }) => [...refused.values()]) }
}

test('processes that a server refuses pause, and get most of what it admits', async () => {
  const { admitted, refused } = await measure()
  console.info(`admitted ${admitted} of ${LIMIT * WINDOWS}; refused by process: ${JSON.stringify(refused)}`)
  // A machine that stops a process for many milliseconds sends the requests of this time together, and they are
  // refused together. In virtual time, `processes.test.ts` finds at most one refusal per window and process.
  expect(admitted).toBeGreaterThan(0.5 * LIMIT * WINDOWS)
  const sum = refused.flat().reduce((all, count) => all + count, 0)
  expect(sum).toBeLessThan(0.25 * LIMIT * WINDOWS)
})
