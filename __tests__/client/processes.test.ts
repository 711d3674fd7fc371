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

const WINDOWS = 5

interface Window {
  admitted: number
  /** The refused requests by process. */
  readonly refused: Map<string, number>
}

test('at most one 429 per window and process, and at least 95 % of what the server admits', async () => {
  const windows: Window[] = []
  let began = 0
  const server = createServer((req, res) => {
    began ||= Date.now()
    const sinceBegin = Date.now() - began
    const number = Math.floor(sinceBegin / WINDOW_MS)
    windows[number] ??= { admitted: 0, refused: new Map() }
    const { refused } = windows[number] as Window
    if ((windows[number] as Window).admitted < LIMIT) {
      ;(windows[number] as Window).admitted++
      res.end('yes')
      return
    }
    const name = String(req.headers['x-process'])
    refused.set(name, (refused.get(name) ?? 0) + 1)
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
  const whole = windows.slice(0, WINDOWS)
  expect(whole).toHaveLength(WINDOWS)
  const admitted = whole.reduce((sum, window) => sum + window.admitted, 0)
  const refusals = whole.map(({ refused }) => [...refused.values()])
  console.info(`admitted ${admitted} of ${LIMIT * WINDOWS}; refused by process: ${JSON.stringify(refusals)}`)
  expect(admitted).toBeGreaterThanOrEqual(0.95 * LIMIT * WINDOWS)
  // A request that a busy machine sent together with the refused one is refused, too: so one window
  // may have one more.
  const surplus = refusals.flat().map((count) => count - 1)
  expect(surplus.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(1)
}, 60_000)
