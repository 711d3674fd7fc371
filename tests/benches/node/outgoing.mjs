/** Outgoing calls: three processes against a server that limits its callers by itself. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { end, failureOf, minded } from './children.mjs'
import { LIMITS, PROCESSES } from './outgoing-limits.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets } from './report.mjs'

export const title = 'Outgoing calls: three processes, a server that limits its callers'

export const peers = ['bottleneck', 'p-throttle', 'p-queue', 'ioredis']

export const paces = { full: { rounds: 3, calls: 300 }, quick: { rounds: 1, calls: 100 } }

const LIBRARIES = ['tollgate', 'bottleneck', 'p-throttle', 'p-queue']

const SERVICE_MS = 100

/**
 * A server that refuses with 429 and `Retry-After`, cuts every fiftieth connection before it decides, and
 * is unavailable for half a second.
 */
async function limitedServer({ perSecond, atATime }) {
  const counts = { admitted: new Map(), refused: 0, cut: 0, unavailable: 0 }
  let [windowEnd, used, running, seen, outageEnd] = [0, 0, 0, 0, Number.POSITIVE_INFINITY]
  const server = createServer(async (request, response) => {
    const now = performance.now()
    seen++
    if (seen % 50 === 0) {
      counts.cut++
      request.socket.destroy()
      return
    }
    if (counts.admitted.size === 100 && outageEnd === Number.POSITIVE_INFINITY) outageEnd = now + 500
    if (counts.admitted.size >= 100 && now < outageEnd) {
      counts.unavailable++
      response.writeHead(503, { 'retry-after': '1' }).end()
      return
    }
    if (now >= windowEnd) [windowEnd, used] = [now - (now % 1_000) + 1_000, 0]
    const fits = perSecond === undefined ? running < atATime : used < perSecond
    if (!fits) {
      counts.refused++
      response.writeHead(429, { 'retry-after': '1' }).end()
      return
    }
    used++
    running++
    counts.admitted.set(request.url, (counts.admitted.get(request.url) ?? 0) + 1)
    if (atATime !== undefined) await new Promise((resolve) => setTimeout(resolve, SERVICE_MS))
    running--
    response.end('ok')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  return { url: `http://127.0.0.1:${port}`, counts, close: () => server.close() }
}

async function runOnce(library, limitName, calls) {
  const [redis, server] = [await startRedis(), await limitedServer(LIMITS[limitName])]
  const children = Array.from({ length: PROCESSES }, (_, index) => {
    const numbers = [index * calls + 1, (index + 1) * calls].map(String)
    const file = fileURLToPath(new URL('outgoing-child.mjs', import.meta.url))
    return minded(fork(file, [library, limitName, server.url, redis.url, ...numbers]))
  })
  try {
    const messages = () =>
      Promise.all(children.map((child) => Promise.race([once(child, 'message'), failureOf(child, library)])))
    await messages()
    const start = performance.now()
    const reports = messages()
    for (const child of children) child.send('start')
    const failed = (await reports).reduce((sum, [report]) => sum + report.failed, 0)
    const seconds = (performance.now() - start) / 1_000
    const { admitted, refused, unavailable } = server.counts
    const twice = [...admitted.values()].filter((times) => times > 1).length
    return { seconds, refused, unavailable, failed, lost: PROCESSES * calls - admitted.size, twice }
  } finally {
    await Promise.all(children.map(end))
    server.close()
    await redis.stop()
  }
}

/** @param {{ rounds: number, calls: number }} pace */
export async function run({ rounds, calls }) {
  const results = []
  for (const limitName of Object.keys(LIMITS)) {
    const { perSecond = (LIMITS[limitName].atATime * 1_000) / SERVICE_MS } = LIMITS[limitName]
    const measured = new Map(LIBRARIES.map((library) => [library, []]))
    for (let round = 0; round < rounds; round++) {
      for (const [library, rows] of measured) {
        // p-throttle cannot limit calls at a time.
        if (library === 'p-throttle' && LIMITS[limitName].perSecond === undefined) continue
        rows.push(await runOnce(library, limitName, calls))
      }
    }
    for (const [library, rows] of measured) {
      if (rows.length === 0) continue
      const medians = Object.keys(rows[0]).map((name) => [name, median(rows.map((row) => row[name]))])
      const figures = Object.fromEntries(medians)
      // Less the second for which the server asks its callers to wait.
      const share = (PROCESSES * calls) / perSecond / (figures.seconds - 1)
      results.push({ name: library, limit: limitName, share, ...figures, rounds: rows })
    }
  }
  return { results, targets: [] }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ results, targets }) {
  console.log('  the server cuts every fiftieth connection, and is unavailable for half a second (503, Retry-After: 1)')
  const head = ['library', 'limit', 'share of the limit', 'seconds', '429', '503', 'failed', 'lost', 'twice']
  const rowOf = ({ name, limit, share, seconds, refused, unavailable, failed, lost, twice }) => {
    return [name, limit, share.toFixed(2), seconds.toFixed(1), refused, unavailable, failed, lost, twice]
  }
  printColumns(
    head,
    results.map(rowOf).map((row) => row.map(String)),
  )
  printTargets(targets)
}
