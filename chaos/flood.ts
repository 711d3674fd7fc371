/**
 * Many calls in one turn of the event loop, on a store that cannot decide them or is being closed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { RateLimiter, RedisStore, type RedisStoreOptions, TollgateError } from 'tollgate'
import { until } from '../__tests__/servers/until.js'
import type { Row } from './fault.js'
import { LoopDelay } from './loop-delay.js'
import { sockets, socketsSettle } from './resources.js'
import { GRACE_MS, TIMEOUT_MS } from './scene.js'
import { POLICIES } from './traffic.js'

/** The result of one call of a flood. */
export interface Ended {
  readonly start: number
  readonly settled: number
  readonly code: string
}

/** Makes calls in one turn of the event loop, and returns the result of each. */
export function flood(limiter: RateLimiter, count: number): Promise<Ended[]> {
  const calls = Array.from({ length: count }, async (_, index) => {
    const start = performance.now()
    const code = await limiter.take(`key-${index % 1_000}`).then(
      () => 'settled',
      (error: unknown) => (TollgateError.is(error) ? error.code : `${error}`),
    )
    return { start, settled: performance.now(), code }
  })
  return Promise.all(calls)
}

/** A row for calls outside of a load. */
export function rowOf(all: readonly Ended[], delay: LoopDelay, found: Pick<Row, 'normalMs' | 'notes' | 'broken'>): Row {
  const errors: Record<string, number> = {}
  for (const { code } of all.filter(({ code }) => code !== 'settled')) {
    errors[code] = (errors[code] ?? 0) + 1
  }
  const longest = (ms: (one: Ended) => number) => all.reduce((most, one) => Math.max(most, ms(one)), 0)
  const longestMs = longest(({ start, settled }) => delay.net(start, settled, TIMEOUT_MS))
  const isLate = longestMs > TIMEOUT_MS + GRACE_MS
  const late = isLate ? [`a call was pending for ${longestMs.toFixed()} ms of ${TIMEOUT_MS}`] : []
  return {
    calls: all.length,
    longestMs,
    longestRawMs: longest(({ start, settled }) => settled - start),
    loopDelayMs: delay.longestMs,
    errors,
    admitted: [],
    ...found,
    broken: [...found.broken, ...late],
  }
}

const FLOOD = 10_000

/** On a busy machine, a call that was not sent may time out before its failure is known. */
const AWAY: readonly string[] = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT']

/** Starts 10,000 calls in one turn without a server; then the server starts and decides as many. */
export async function floodedWhileDown(options: RedisStoreOptions, begin: () => Promise<unknown>): Promise<Row> {
  const broken: string[] = []
  const delay = new LoopDelay()
  const store = new RedisStore({ commandTimeout: TIMEOUT_MS, ...options })
  const limiter = new RateLimiter(POLICIES.count, { store, prefix: 'flood' })
  delay.start()
  const first = await flood(limiter, FLOOD)
  const codes = [...new Set(first.map(({ code }) => code))]
  if (codes.some((code) => !AWAY.includes(code)) || !codes.includes('STORE_UNAVAILABLE')) {
    broken.push(`calls fail with ${AWAY}, not with ${codes}`)
  }
  // Now the store is known to be down.
  const second = await flood(limiter, FLOOD)
  if (second.some(({ code }) => code !== 'STORE_UNAVAILABLE')) {
    broken.push('once the store is known to be down all calls fail with STORE_UNAVAILABLE')
  }
  await sleep(10)
  const slowest = Math.max(...second.map(({ start, settled }) => delay.net(start, settled, 0)))
  if (slowest > GRACE_MS) {
    broken.push(`once the store is known to be down calls fail at once, not after ${slowest.toFixed()} ms`)
  }
  await begin()
  const begun = performance.now()
  for (;;) {
    const [one] = await flood(limiter, 1)
    if (one?.code === 'settled') {
      break
    }
    await sleep(5)
  }
  const normal = performance.now()
  await sleep(10)
  const normalMs = delay.ofWhich(begun, normal)
  if (normalMs > 1_000) {
    broken.push(`calls failed for ${normalMs.toFixed()} ms after the store was there`)
  }
  const again: Ended[] = []
  let most = 0
  // On a busy machine there may be too many calls for their deadline.
  for (let tries = 0; tries < 5 && most < FLOOD / 2; tries++) {
    const these = await flood(limiter, FLOOD)
    again.push(...these)
    most = Math.max(most, these.filter(({ code }) => code === 'settled').length)
  }
  const notes = [`${most} of ${FLOOD} calls in one turn are decided when it is there`]
  if (most < FLOOD / 10) {
    broken.push('as many calls, or the most of them that there is time for, are decided when it is there')
  }
  await sleep(10)
  delay.stop()
  await store.close()
  return rowOf([...first, ...second, ...again], delay, { normalMs, notes, broken })
}

/** A condition that makes a store useless. `begin` causes it, and `end` ends it. */
export interface Trouble {
  readonly name: string
  begin(): Promise<unknown>
  end(): Promise<unknown>
}

/** Closes a store with 1,000 calls in flight, under each condition. */
export async function closedInTrouble(options: RedisStoreOptions, troubles: readonly Trouble[]): Promise<Row> {
  const [broken, notes]: [string[], string[]] = [[], []]
  const all: Ended[] = []
  const delay = new LoopDelay()
  delay.start()
  const before = sockets()
  for (const { name, begin, end } of troubles) {
    const store = new RedisStore({ commandTimeout: TIMEOUT_MS, ...options })
    const limiter = new RateLimiter(POLICIES.count, { store, prefix: 'close' })
    await until('the store answers', () => limiter.ready().then(() => true))
    await begin()
    const calls = flood(limiter, 1_000)
    await sleep(20)
    const start = performance.now()
    const closed = store.close()
    const late = await flood(limiter, 1)
    await closed
    const settled = performance.now()
    // Wait until the last stall has been recorded.
    await sleep(10)
    const ms = delay.net(start, settled, TIMEOUT_MS)
    notes.push(`${name}: ${(settled - start).toFixed()} ms`)
    if (ms > TIMEOUT_MS + GRACE_MS) {
      broken.push(`${name}: close() took ${ms.toFixed()} ms`)
    }
    if (late[0]?.code !== 'CLOSED') {
      broken.push(`${name}: a call after close() ends with ${late[0]?.code}`)
    }
    all.push(...(await calls))
    await end()
  }
  const left = (await socketsSettle(before)) - before
  if (left > 0) {
    broken.push(`${left} sockets left open`)
  }
  delay.stop()
  return rowOf(all, delay, { normalMs: 0, notes, broken })
}
