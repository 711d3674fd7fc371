/** `OutgoingClient` by a `TestClock`: the order of its calls, pauses and their ends, `map`, and what `close` tells. */

import { type ClientOptions, OutgoingClient } from '../../ts/client/index.js'
import type { ScheduledCall } from '../../ts/client/scheduled-call.js'
import { WaitingCalls } from '../../ts/client/waiting-calls.js'
import {
  concurrency,
  fixedWindow,
  gcra,
  MemoryStore,
  type Policies,
  type Policy,
  RateLimiter,
  tiers,
} from '../../ts/index.js'
import { timeOf } from '../../ts/platform/waiting-time.js'
import { anything } from '../failure.js'
import { clock, limiterOf, pass, renewClock } from './clocked.js'

const clientOf = (options: Partial<ClientOptions> = {}) => {
  return new OutgoingClient({ clock, key: 'k', limiter: limiterOf(gcra({ limit: 1, period: '1s' })), ...options })
}

const usageOf = () => 1

describe('ageing', () => {
  /** When a call of priority 0 starts behind a stream of calls of priority 10 that use the whole rate. */
  async function startOfLow(options: Partial<ClientOptions>): Promise<number | undefined> {
    const api = clientOf({ ...options, maxWait: '10m' })
    await api.schedule(() => {})
    const began = clock.now()
    let startedAt: number | undefined
    const calls = [
      api.schedule(() => {
        startedAt = clock.now() - began
      }),
    ]
    for (let second = 0; second < 60; second++) {
      calls.push(api.schedule(() => {}, { priority: 10 }))
      await pass(1_000)
    }
    const found = startedAt
    await pass(5_000)
    await Promise.all(calls)
    return found
  }

  test('a call waits for more urgent ones that come later only for its steps of priority', async () => {
    expect(await startOfLow({})).toBe(11_000)
    renewClock()
    expect(await startOfLow({ ageing: '2s' })).toBe(21_000)
  })

  test('with a day priorities are strict', async () => {
    expect(await startOfLow({ ageing: '1d' })).toBeUndefined()
  })

  test('a call that is sent again keeps its place', async () => {
    const api = clientOf({ retries: { limit: 1, minDelay: '1ms' } })
    await api.schedule(() => {})
    const order: string[] = []
    const first = api.schedule(
      async ({ attempt }) => {
        order.push(`first ${attempt}`)
        return new Response(null, { status: attempt === 1 ? 500 : 200 })
      },
      { isIdempotent: true },
    )
    await pass(500)
    const others = ['a', 'b', 'c'].map((name) => api.schedule(() => void order.push(name)))
    await pass(6_000)
    await Promise.all([first, ...others])
    expect(order).toEqual(['first 1', 'first 2', 'a', 'b', 'c'])
  })
})

describe('many waiting calls', () => {
  test('100,000 calls of random priorities start in order, and one abort for all goes in slices', async () => {
    const left: { readonly turn: number; readonly reason: string }[] = []
    let turn = 0
    const calls = new WaitingCalls({
      time: timeOf(clock),
      hopelessUntil: () => Number.NEGATIVE_INFINITY,
      leave: (_, reason) => left.push({ turn, reason }),
      onLeft: () => {
        turn++
      },
    })
    const controller = new AbortController()
    const waitsSince = clock.now()
    for (let sequence = 0; sequence < 100_000; sequence++) {
      const rank = (sequence * 7_919) % 201
      const call = { cost: 1, signal: controller.signal, maxWait: 60_000, waitsSince, sequence, rank }
      calls.add(anything(call))
    }
    const first = calls.first(3).map(({ rank, sequence }) => [rank, sequence])
    expect(first).toEqual([
      [0, 0],
      [0, 201],
      [0, 402],
    ])
    const taken = Array.from({ length: 1_000 }, () => calls.take({ cost: 1, tier: undefined }) as ScheduledCall)
    const inOrder = [...taken].sort((a, b) => a.rank - b.rank || a.sequence - b.sequence)
    expect(taken).toEqual(inOrder)
    controller.abort()
    // The first slice leaves at once.
    expect(left).toHaveLength(256)
    while (calls.size > 0) {
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(left).toHaveLength(99_000)
    expect(left.every(({ reason }) => reason === 'aborted')).toBe(true)
    const perTurn = new Map<number, number>()
    for (const { turn } of left) {
      perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1)
    }
    expect(Math.max(...perTurn.values())).toBe(256)
    expect(clock.timerCount).toBe(0)
  })

  test('map makes a call for each of 1,500 values, of which few wait at a time', async () => {
    const api = clientOf({ limiter: limiterOf(concurrency({ limit: 50 })) })
    const values = Array.from({ length: 1_500 }, (_, index) => index)
    let [read, most, ended] = [0, 0, 0]
    function* reading() {
      for (const value of values) {
        most = Math.max(most, ++read - ended)
        yield value
      }
    }
    const mapped = api.map(reading(), async (value, index, { attempt }) => {
      await clock.sleep('10ms')
      ended++
      return [value * 2, index, attempt]
    })
    await pass(5_000)
    expect(await mapped).toEqual(values.map((value) => [value * 2, value, 1]))
    // 50 run, 64 wait, and one is being read.
    expect(most).toBeLessThanOrEqual(50 + 64 + 1)
  })

  test('map waits for room if other calls fill the queue', async () => {
    const api = clientOf({ limiter: limiterOf(concurrency({ limit: 1 })), maxQueued: 2 })
    const maps = ['a', 'b', 'c'].map((name) => api.map([1, 2, 3], async (value) => `${name}${value}`))
    await pass(1_000)
    expect(await Promise.all(maps)).toEqual([
      ['a1', 'a2', 'a3'],
      ['b1', 'b2', 'b3'],
      ['c1', 'c2', 'c3'],
    ])
  })

  test('map ends with the first error: it takes no further value, and aborts the others', async () => {
    const api = clientOf({ limiter: limiterOf(concurrency({ limit: 2 })) })
    const started: number[] = []
    const aborted: number[] = []
    async function* forever() {
      for (let value = 0; ; value++) {
        yield value
      }
    }
    const mapped = api.map(forever(), async (value, _, { signal }) => {
      started.push(value)
      signal.addEventListener('abort', () => aborted.push(value))
      await clock.sleep(value === 2 ? '10ms' : '50ms')
      if (value === 2) {
        throw new Error('two')
      }
    })
    const failed = mapped.catch((error: unknown) => error)
    await pass(500)
    expect(await failed).toMatchObject({ message: 'two' })
    expect(started).toEqual([0, 1, 2, 3])
    expect(aborted).toEqual([3])
    expect(api.status()).toMatchObject({ queued: 0, running: 0 })
    await expect(api.map(anything(7), () => {})).rejects.toThrow('values must be an iterable, got 7')
  })
})

describe('the end of a pause', () => {
  const refused = () => new Response(null, { status: 429, headers: { 'Retry-After': '3600' } })

  test.each(['unblock', 'reset'] as const)('%s of the limiter reaches calls that wait, and later ones', async (end) => {
    const limiter = limiterOf(gcra({ limit: 100, period: '1s' }))
    const api = clientOf({ limiter, retries: 0 })
    await api.schedule(refused)
    await pass(10)
    const waiting = api.schedule(() => 'waiting', { maxWait: '2h' })
    await expect(api.schedule(() => {})).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
    await limiter[end]('k')
    await pass(5_010)
    expect(await waiting).toBe('waiting')
    expect(await api.schedule(() => 'later')).toBe('later')
  })

  test('a pause for which nobody waits ends for the next call, too', async () => {
    const limiter = limiterOf(gcra({ limit: 100, period: '1s' }))
    const api = clientOf({ limiter, retries: 0 })
    await api.schedule(refused)
    await pass(10)
    await limiter.unblock('k')
    await pass(5_010)
    const next = api.schedule(() => 'next')
    await pass(10)
    expect(await next).toBe('next')
  })

  test('resume ends it at once; a limiter that still blocks goes on', async () => {
    const limiter = limiterOf(gcra({ limit: 100, period: '1s' }))
    const api = clientOf({ limiter, retries: 0 })
    await api.schedule(refused)
    await pass(10)
    const waiting = api.schedule(() => 'waiting', { maxWait: '2h' })
    api.resume()
    await pass(100)
    expect(api.status().queued).toBe(1)
    await limiter.unblock('k')
    api.resume('k')
    await pass(10)
    expect(await waiting).toBe('waiting')
    api.resume('unknown')
    expect(() => new OutgoingClient({ limiter }).resume()).toThrow('key must be given, to resume or to the client')
  })

  test('a block of 60 days, and one of a tier with a cost, are read as they are', async () => {
    const policy = tiers({
      pro: fixedWindow({ limit: 5, window: '1s' }),
      free: fixedWindow({ limit: 1, window: '1s' }),
    })
    const limiter = new RateLimiter(policy, { store: new MemoryStore({ clock }) })
    await limiter.block('k', '60d')
    const api = new OutgoingClient({ clock, key: 'k', limiter, retries: 0 })
    await expect(api.schedule(() => {}, { tier: 'pro' })).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
    await limiter.unblock('k')
    const errors: unknown[] = []
    api.on('block', ({ applied, error }) => errors.push([applied, error]))
    await api.schedule(refused, { tier: 'pro', cost: 3 })
    await pass(10)
    expect(errors).toEqual([['store', undefined]])
  })
})

describe('close tells', () => {
  test('which calls have run, and which never started', async () => {
    const api = clientOf({ limiter: limiterOf(concurrency({ limit: 1 })), retries: { minDelay: '20s' } })
    const failed = async () => new Response(null, { status: 502 })
    const between = api.schedule(failed, { isIdempotent: true }).catch((error: unknown) => error)
    await pass(10)
    const reasons: unknown[] = []
    const running = api.schedule(({ signal }) => {
      return new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          reasons.push(signal.reason)
          resolve('stopped')
        })
      })
    })
    await pass(10)
    const waiting = Array.from({ length: 600 }, () => api.schedule(() => {}).catch((error: unknown) => error))
    const closing = api.close({ timeout: 100 })
    await pass(100)
    expect(await closing).toEqual({ notStarted: 600, interrupted: 2 })
    expect(await between).toMatchObject({ code: 'CLOSED', attempts: 1 })
    for (const error of await Promise.all(waiting)) {
      expect(error).toMatchObject({
        code: 'CLOSED',
        attempts: 0,
        message: 'the client has been closed; the call has not started',
      })
    }
    expect(await running).toBe('stopped')
    expect(reasons).toMatchObject([
      { code: 'CLOSED', attempts: 1, message: 'the client has been closed; attempt 1 of the call has started' },
    ])
    await expect(api.schedule(() => {})).rejects.toMatchObject({ code: 'CLOSED', attempts: 0 })
    await expect(api.map([1], () => {})).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test('nothing, if it waits for all', async () => {
    const api = clientOf()
    const call = api.schedule(() => 1)
    expect(await api.close()).toEqual({ notStarted: 0, interrupted: 0 })
    expect(await call).toBe(1)
  })
})

// promise: client-uses-rate
test.each([
  ['beside concurrency', 50, 1],
  ['beside concurrency', 200, 1],
  ['beside concurrency', 1_000, 1],
  ['beside concurrency', 300, 2],
  ['with usageOf', 200, 1],
  ['with usageOf', 1_000, 1],
] as const)('%s at least 95 %% of a rate of %d a second with a burst of %d are used', async (kind, limit, burst) => {
  const rate = gcra({ limit, period: '1s', burst })
  const both = { rate, most: concurrency({ limit: 50, ttl: '1m' }) }
  const limiter = limiterOf<Policy | Policies>(kind === 'with usageOf' ? { rate } : both)
  const api = clientOf({ limiter: anything(limiter), maxQueued: 10_000, ...(kind === 'with usageOf' && { usageOf }) })
  let started = 0
  const calls = Array.from({ length: limit * 3 }, () => api.schedule(() => void started++))
  await pass(2_000)
  expect(started).toBeGreaterThanOrEqual(0.95 * limit * 2)
  expect(started).toBeLessThanOrEqual(limit * 2 + burst)
  await pass(2_000)
  await Promise.all(calls)
})
