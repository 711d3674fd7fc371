/** Calls of `OutgoingClient` that leave without a turn: how many at a time, and what their errors tell. */

import { type ClientOptions, OutgoingClient } from '../../ts/client/index.js'
import {
  concurrency,
  fixedWindow,
  gcra,
  type Policies,
  type Policy,
  type RateLimiter,
  slidingLog,
  tokenBucket,
} from '../../ts/index.js'
import { anything } from '../failure.js'
import { clock, limiterOf, pass } from './clocked.js'

const POLICIES: readonly (readonly [string, Policy | Policies, Partial<ClientOptions>])[] = [
  ['gcra', gcra({ limit: 1_000, period: '1s', burst: 10 }), {}],
  ['tokenBucket', tokenBucket({ capacity: 10, refill: { tokens: 1_000, every: '1s' } }), {}],
  ['fixedWindow', fixedWindow({ limit: 100, window: '100ms' }), {}],
  ['slidingLog', slidingLog({ limit: 100, window: '100ms' }), {}],
  ['concurrency', concurrency({ limit: 10, ttl: '1m' }), {}],
  [
    'concurrency with a rate',
    { rate: gcra({ limit: 1_000, period: '1s', burst: 10 }), most: concurrency({ limit: 10, ttl: '1m' }) },
    {},
  ],
  ['usageOf', gcra({ limit: 1_000, period: '1s', burst: 10 }), { usageOf: () => 1 }],
]

/** The most requests that a test lets through. A client that asks without end would never let the event loop turn. */
const MOST_ASKS = 2_000

/** Counts the requests for turns from a time on. */
function countAsks(limiter: RateLimiter<Policy>): { asks: number } {
  const count = { asks: 0 }
  const methods = limiter as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>
  for (const name of ['wait', 'take', 'acquire', 'reserve']) {
    const method = methods[name]?.bind(limiter)
    methods[name] = (...given) => {
      return ++count.asks > MOST_ASKS ? new Promise(() => {}) : (method?.(...given) as Promise<unknown>)
    }
  }
  return count
}

/** A client with 2,000 calls, of which a few have started. */
async function busyClient(policy: Policy | Policies, options: Partial<ClientOptions>, signal?: AbortSignal) {
  const limiter = limiterOf(policy as Policy)
  const api = new OutgoingClient({ clock, key: 'k', limiter: anything(limiter), maxQueued: 10_000, ...options })
  const codes: unknown[] = []
  for (let index = 0; index < 2_000; index++) {
    const call = api.schedule(() => clock.sleep('10ms'), signal === undefined ? {} : { signal })
    call.catch((error: { readonly code: string }) => codes.push(error.code))
  }
  await pass(50)
  const perTurn: number[] = []
  let [left, isOver] = [0, false]
  api.on('giveUp', () => left++)
  const onTurn = () => {
    perTurn.push(left)
    left = 0
    if (!isOver) {
      setImmediate(onTurn)
    }
  }
  const stop = () => {
    isOver = true
  }
  return { api, limiter, codes, perTurn, onTurn, stop }
}

/** Lets the event loop turn until a client has no waiting calls. */
async function untilEmpty(api: OutgoingClient): Promise<void> {
  for (let turn = 0; turn < 1_000 && api.status().queued > 0; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test.each(POLICIES)('calls that close ends ask for no turns while they leave: %s', async (_, policy, options) => {
  const { api, limiter, codes, perTurn, onTurn, stop } = await busyClient(policy, options)
  const { queued } = api.status()
  expect(queued).toBeGreaterThan(1_000)
  const closing = api.close({ timeout: 100 })
  const count = countAsks(limiter)
  onTurn()
  await Promise.all([pass(200), untilEmpty(api)])
  stop()
  const { notStarted } = await closing
  expect(count.asks).toBeLessThan(MOST_ASKS)
  expect(notStarted).toBeGreaterThan(500)
  expect(codes.filter((code) => code === 'CLOSED').length).toBeGreaterThanOrEqual(notStarted)
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(256)
})

test.each(POLICIES)('a signal that aborts many calls lets a few leave in each turn: %s', async (_, policy, options) => {
  const controller = new AbortController()
  const { api, limiter, codes, perTurn, onTurn, stop } = await busyClient(policy, options, controller.signal)
  const { queued } = api.status()
  expect(queued).toBeGreaterThan(1_000)
  const count = countAsks(limiter)
  onTurn()
  controller.abort()
  // Turns that were under way come meanwhile.
  await Promise.all([pass(100), untilEmpty(api)])
  stop()
  expect(codes.filter((code) => code === 'ABORTED').length).toBeGreaterThanOrEqual(queued)
  expect(Math.max(...perTurn)).toBe(256)
  // A turn of an aborted call goes to no other one.
  expect(count.asks).toBe(0)
  const next = api.schedule(() => 'next')
  await pass(200)
  expect(await next).toBe('next')
})
