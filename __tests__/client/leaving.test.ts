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

describe('an error of the limiter', () => {
  test.each([
    ['a slot', gcra({ limit: 1, period: '10s' })],
    ['a permit', concurrency({ limit: 1, ttl: '1m' })],
  ])('tells that the call, which waits for %s, has never run', async (_, policy) => {
    const limiter = limiterOf<Policy>(policy)
    const api = new OutgoingClient({ clock, key: 'k', limiter: anything(limiter) })
    const running = api.schedule(() => clock.sleep('1s'))
    const waiting = api.schedule(() => {}).catch((error: unknown) => error)
    await pass(10)
    await limiter.close()
    expect(await waiting).toMatchObject({ code: 'CLOSED', attempts: 0, cause: { code: 'CLOSED' } })
    await pass(1_000)
    await running
  })

  test('tells how often the call has run', async () => {
    const limiter = limiterOf(fixedWindow({ limit: 5, window: '10s' }))
    const api = new OutgoingClient({ clock, key: 'k', limiter, retries: { limit: 3, minDelay: '200ms' } })
    const failed = () => new Response(null, { status: 503 })
    const call = api.schedule(failed, { isIdempotent: true }).catch((error: unknown) => error)
    await pass(50)
    await limiter.close()
    await pass(200)
    expect(await call).toMatchObject({ code: 'CLOSED', attempts: 1, message: 'the limiter has been closed' })
  })
})

test('a queue that still asks the store does not replace a later one of its key', async () => {
  const limiter = limiterOf(fixedWindow({ limit: 1, window: '1h' }))
  const peek = limiter.peek.bind(limiter)
  limiter.peek = async (...given) => {
    const decision = await peek(...given)
    await clock.sleep('200ms')
    return decision
  }
  const api = new OutgoingClient({ clock, key: 'k', limiter, maxWait: '2h' })
  await limiter.take('k')
  const controller = new AbortController()
  const first = api.schedule(() => {}, { signal: controller.signal }).catch((error: unknown) => error)
  await pass(5_050)
  controller.abort()
  api.resume()
  const second = api.schedule(() => {}).catch((error: unknown) => error)
  await pass(400)
  expect(await first).toMatchObject({ code: 'ABORTED' })
  const closing = api.close({ timeout: 50 })
  await pass(50)
  expect(await closing).toEqual({ notStarted: 1, interrupted: 0 })
  expect(await second).toMatchObject({ code: 'CLOSED', attempts: 0 })
})
