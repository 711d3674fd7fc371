/** `OutgoingClient` by a `TestClock`: order, limits, retries, blocks and the end. */

import { type ClientLimiter, OutgoingClient } from '../../ts/client/index.js'
import { concurrency, fixedWindow, gcra, MemoryStore, RateLimiter, TollgateError, tiers } from '../../ts/index.js'
import { clock, limiterOf, pass } from './clocked.js'

const refusal = (seconds?: number) => {
  return new Response(null, { status: 429, headers: seconds === undefined ? {} : { 'Retry-After': String(seconds) } })
}

describe('turns', () => {
  test('under a rate calls start at their slots', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(gcra({ limit: 10, period: '1s', burst: 1 })), key: 'k' })
    const starts: number[] = []
    const begin = clock.now()
    const calls = Array.from({ length: 8 }, (_, index) => {
      return api.schedule(() => {
        starts.push(clock.now() - begin)
        return index
      })
    })
    await pass(700)
    expect(await Promise.all(calls)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect(starts).toEqual([0, 100, 200, 300, 400, 500, 600, 700])
    expect(api.status()).toEqual({ queued: 0, running: 0, isClosed: false })
  })

  test('under concurrency as many run as the limit allows', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(concurrency({ limit: 3 })), key: 'k' })
    let [running, most] = [0, 0]
    const calls = Array.from({ length: 20 }, () => {
      return api.schedule(async () => {
        most = Math.max(most, ++running)
        await clock.sleep('200ms')
        running--
      })
    })
    await pass(100)
    expect(api.status()).toEqual({ queued: 17, running: 3, isClosed: false })
    await pass(2_000)
    await Promise.all(calls)
    expect(most).toBe(3)
  })

  test('under a window calls start when it has units again', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(fixedWindow({ limit: 4, window: '1s' })), key: 'k' })
    const starts: number[] = []
    const begin = clock.now()
    const calls = Array.from({ length: 10 }, () => api.schedule(() => starts.push(clock.now() - begin)))
    await pass(2_100)
    await Promise.all(calls)
    expect(starts.filter((at) => at < 1_000)).toHaveLength(4)
    expect(starts.filter((at) => at >= 1_000 && at < 2_000)).toHaveLength(4)
    expect(starts.filter((at) => at >= 2_000)).toHaveLength(2)
  })

  test('a compound of a rate and concurrency keeps both', async () => {
    const limiter = limiterOf({ rate: gcra({ limit: 5, period: '1s' }), most: concurrency({ limit: 2 }) })
    const api = new OutgoingClient({ clock, limiter, key: 'k' })
    const starts: number[] = []
    const begin = clock.now()
    const calls = Array.from({ length: 8 }, () => {
      return api.schedule(async () => {
        starts.push(clock.now() - begin)
        await clock.sleep('50ms')
      })
    })
    await pass(2_000)
    await Promise.all(calls)
    expect(starts).toHaveLength(8)
    expect(starts.slice(0, 2)).toEqual([0, 0])
    expect(starts[2]).toBeGreaterThanOrEqual(50)
    expect(starts[7]).toBeGreaterThanOrEqual(600)
  })

  test('keys wait separately, and costs and tiers count', async () => {
    const policy = tiers({ free: gcra({ limit: 1, period: '1s' }), pro: gcra({ limit: 10, period: '1s', burst: 1 }) })
    const store = new MemoryStore({ clock })
    const api = new OutgoingClient({ clock, limiter: new RateLimiter(policy, { store }) })
    const starts: [string, number][] = []
    const begin = clock.now()
    const call = (key: string, tier: 'free' | 'pro') => {
      return api.schedule(() => starts.push([key, clock.now() - begin]), { key, tier })
    }
    const calls = [call('a', 'free'), call('a', 'free'), call('b', 'pro'), call('b', 'pro')]
    await pass(1_000)
    await Promise.all(calls)
    expect(starts).toEqual([
      ['a', 0],
      ['b', 0],
      ['b', 100],
      ['a', 1_000],
    ])
  })
})

describe('the queue', () => {
  test('starts calls by priority, then in order, also before calls whose turn was requested', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(gcra({ limit: 1, period: '1s' })), key: 'k' })
    const order: string[] = []
    const call = (name: string, priority: number) => api.schedule(() => void order.push(name), { priority })
    const calls = [call('first', 0), call('low', -1), call('a', 0), call('b', 0)]
    await pass(500)
    calls.push(call('high', 9))
    await pass(5_000)
    await Promise.all(calls)
    expect(order).toEqual(['first', 'high', 'a', 'b', 'low'])
  })

  test('a call with another cost and a higher priority withdraws the request before it', async () => {
    const limiter = limiterOf(concurrency({ limit: 4 }))
    const api = new OutgoingClient({ clock, limiter, key: 'k' })
    const held = await limiter.acquire('k', { cost: 4 })
    const order: string[] = []
    const call = (name: string, cost: number, priority: number) => {
      return api.schedule(() => void order.push(name), { cost, priority, maxWait: 10_000 })
    }
    const calls = Array.from({ length: 70 }, (_, index) => call(`low ${index}`, 1, 0))
    await pass(100)
    calls.push(call('high', 4, 1))
    await pass(100)
    expect(held.allowed && (await held.release())).toBe(true)
    await pass(3_000)
    await Promise.all(calls)
    expect(order[0]).toBe('high')
    expect(order).toHaveLength(71)
  })

  test('rejects calls when it is full', async () => {
    const api = new OutgoingClient({
      clock,
      limiter: limiterOf(gcra({ limit: 1, period: '1s' })),
      key: 'k',
      maxQueued: 2,
    })
    await api.schedule(() => {})
    const waiting = [api.schedule(() => 1), api.schedule(() => 2)]
    await expect(api.schedule(() => 3)).rejects.toMatchObject({
      code: 'OVERLOADED',
      message: '2 calls wait already; raise maxQueued, or make fewer calls',
    })
    await pass(2_000)
    expect(await Promise.all(waiting)).toEqual([1, 2])
  })

  test('rejects at once a call whose turn is too far away, with the decision', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(gcra({ limit: 1, period: '1h' })), key: 'k' })
    const gaveUp = jest.fn()
    api.on('giveUp', gaveUp)
    await api.schedule(() => {})
    const error = await api.schedule(() => {}).catch((error: unknown) => error)
    expect(error).toMatchObject({ code: 'WAIT_TOO_LONG', decision: { status: 'refused' } })
    expect(TollgateError.is(error) && error.decision?.retryAfterMs).toBeGreaterThan(3_000_000)
    expect(gaveUp).toHaveBeenCalledWith({ key: 'k', error, attempts: 0 })
    await expect(api.schedule(() => {}, { cost: 2 })).rejects.toMatchObject({
      code: 'WAIT_TOO_LONG',
      message: 'a cost of 2 never fits: lower the cost or raise the limit',
    })
  })

  test('gives up a call that waits behind others for too long', async () => {
    const limiter = limiterOf(concurrency({ limit: 1 }))
    const api = new OutgoingClient({ clock, limiter, key: 'k', maxWait: 1_000 })
    const long = api.schedule(() => clock.sleep('3s'))
    const waiting = Promise.allSettled([api.schedule(() => {}), api.schedule(() => {}, { maxWait: 5_000 })])
    await pass(4_000)
    await long
    expect(await waiting).toMatchObject([
      { status: 'rejected', reason: { code: 'WAIT_TOO_LONG' } },
      { status: 'fulfilled' },
    ])
  })

  test('an aborted call leaves at once, and its turn goes to the next one', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(gcra({ limit: 1, period: '1s' })), key: 'k' })
    await api.schedule(() => {})
    const controller = new AbortController()
    const aborted = api.schedule(() => 'aborted', { signal: controller.signal }).catch((error: unknown) => error)
    const next = api.schedule(() => clock.now())
    const begin = clock.now()
    await pass(500)
    controller.abort('no longer')
    expect(await aborted).toMatchObject({ name: 'AbortError', code: 'ABORTED', cause: 'no longer' })
    await pass(1_000)
    expect((await next) - begin).toBe(1_000)
    await expect(api.schedule(() => {}, { signal: controller.signal })).rejects.toMatchObject({ code: 'ABORTED' })
  })

  test('a turn that nobody needs any more is given back', async () => {
    const limiter = limiterOf(gcra({ limit: 1, period: '1s' }))
    const api = new OutgoingClient({ clock, limiter, key: 'k' })
    await api.schedule(() => {})
    const controller = new AbortController()
    const aborted = api.schedule(() => {}, { signal: controller.signal }).catch(() => {})
    await pass(100)
    controller.abort()
    await aborted
    await pass(900)
    expect((await limiter.take('k')).allowed).toBe(true)
  })
})

describe('refused calls', () => {
  test('Retry-After blocks the key for all, and the call is sent again', async () => {
    const limiter = limiterOf(gcra({ limit: 100, period: '1s' }))
    const api = new OutgoingClient({ clock, limiter, key: 'k' })
    const events: unknown[] = []
    api.on('block', ({ key, status, durationMs, applied }) => events.push({ key, status, durationMs, applied }))
    api.on('retry', (event) => events.push(event))
    const answers = [refusal(7), new Response('yes')]
    const sent = jest.fn(async () => answers.shift() as Response)
    const call = api.schedule(sent)
    await pass(1_000)
    expect((await limiter.take('k')).status).toBe('blocked')
    expect((await limiter.take('another')).status).toBe('allowed')
    expect(sent).toHaveBeenCalledTimes(1)
    await pass(5_900)
    expect(sent).toHaveBeenCalledTimes(1)
    await pass(200)
    expect(await (await call).text()).toBe('yes')
    expect(sent.mock.calls).toMatchObject([[{ attempt: 1 }], [{ attempt: 2 }]])
    expect(events).toEqual([
      { key: 'k', attempt: 2, delayMs: 0, status: 429 },
      { key: 'k', status: 429, durationMs: 7_000, applied: 'store' },
    ])
  })

  test('a later, shorter time does not shorten the block', async () => {
    const limiter = limiterOf(gcra({ limit: 100, period: '1s' }))
    const api = new OutgoingClient({ clock, limiter, key: 'k', retries: 0 })
    const both = [api.schedule(async () => refusal(60)), api.schedule(async () => refusal(1))]
    await pass(10)
    expect((await Promise.all(both)).map(({ status }) => status)).toEqual([429, 429])
    expect((await limiter.take('k')).retryAfterMs).toBeGreaterThan(59_000)
  })

  test('calls that cannot wait for the end of a block are rejected at once', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(gcra({ limit: 100, period: '1s' })), key: 'k' })
    // The answer itself goes to its caller, who may know more.
    const first = api.schedule(async () => refusal(3_600))
    await pass(10)
    expect((await first).status).toBe(429)
    await expect(api.schedule(() => {})).rejects.toMatchObject({
      code: 'WAIT_TOO_LONG',
      decision: { status: 'blocked' },
    })
  })

  test('429 without a time pauses for the delay of a retry', async () => {
    const limiter = limiterOf(gcra({ limit: 100, period: '1s' }))
    const api = new OutgoingClient({ clock, limiter, key: 'k', retries: { minDelay: '1s' } })
    const answers = [refusal(), new Response('yes')]
    const call = api.schedule(async () => answers.shift() as Response)
    await pass(400)
    expect((await limiter.take('k')).status).toBe('blocked')
    await pass(700)
    expect((await call).status).toBe(200)
  })

  test('errors with a status are read, and the last one reaches the caller', async () => {
    const api = new OutgoingClient({
      clock,
      limiter: limiterOf(gcra({ limit: 100, period: '1s' })),
      key: 'k',
      retries: 1,
    })
    const error = Object.assign(new Error('slow down'), { response: { status: 429, headers: { 'retry-after': '1' } } })
    const run = jest.fn(async () => {
      throw error
    })
    const call = api.schedule(run).catch((error: unknown) => error)
    await pass(1_500)
    expect(await call).toBe(error)
    expect(run).toHaveBeenCalledTimes(2)
  })

  test('only idempotent calls are sent again after other failures, with growing delays', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(gcra({ limit: 100, period: '1s' })), key: 'k' })
    const begin = clock.now()
    const starts: number[] = []
    const failing = async () => {
      starts.push(clock.now() - begin)
      throw Object.assign(new Error('lost'), { code: 'ECONNRESET' })
    }
    await expect(api.schedule(failing)).rejects.toThrow('lost')
    expect(starts).toEqual([0])
    const call = api.schedule(failing, { isIdempotent: true }).catch((error: Error) => error.message)
    expect(api.status()).toMatchObject({ queued: 1 })
    await pass(2_000)
    expect(await call).toBe('lost')
    const [, first, second, third] = starts as [number, number, number, number]
    expect(second - first).toBeGreaterThanOrEqual(250)
    expect(second - first).toBeLessThanOrEqual(501)
    expect(third - second).toBeGreaterThanOrEqual(500)
    expect(third - second).toBeLessThanOrEqual(1_001)
  })

  test('an abort ends the delay before a retry', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(gcra({ limit: 100, period: '1s' })), key: 'k' })
    const { signal, controller } = { ...controllerAndSignal() }
    const call = api
      .schedule(async () => new Response(null, { status: 500 }), { isIdempotent: true, signal })
      .catch((error: unknown) => error)
    await pass(10)
    expect(api.status()).toEqual({ queued: 1, running: 0, isClosed: false })
    controller.abort()
    expect(await call).toMatchObject({ code: 'ABORTED' })
    expect(api.status()).toEqual({ queued: 0, running: 0, isClosed: false })
  })

  // promise: client-blocks-key
  test('the block fails: this client pauses, and tells why', async () => {
    const limiter = limiterOf(gcra({ limit: 100, period: '1s' }))
    const api = new OutgoingClient({
      clock,
      limiter: {
        policies: limiter.policies,
        take: limiter.take.bind(limiter),
        peek: limiter.peek.bind(limiter),
        refund: limiter.refund.bind(limiter),
        block: async () => {
          throw new TollgateError('STORE_UNAVAILABLE', 'the store is down')
        },
        wait: limiter.wait.bind(limiter),
      } as unknown as ClientLimiter,
      key: 'k',
    })
    const blocked = jest.fn()
    api.on('block', blocked)
    const answers = [refusal(5), new Response('yes')]
    const sent = jest.fn(async () => answers.shift() as Response)
    const call = api.schedule(sent)
    await pass(4_900)
    expect(sent).toHaveBeenCalledTimes(1)
    await pass(200)
    expect((await call).status).toBe(200)
    expect(blocked.mock.calls).toMatchObject([[{ applied: false, error: { code: 'STORE_UNAVAILABLE' } }]])
  })
})

function controllerAndSignal() {
  const controller = new AbortController()
  return { controller, signal: controller.signal }
}

describe('signals of running calls', () => {
  test("the caller's signal is passed on", async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(gcra({ limit: 1, period: '1s' })), key: 'k' })
    const { controller, signal } = controllerAndSignal()
    const call = api.schedule(
      ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      { signal },
    )
    const ended = call.catch((reason: unknown) => reason)
    await pass(10)
    controller.abort('enough')
    expect(await ended).toBe('enough')
  })

  test('a permit that is about to be lost aborts its call', async () => {
    const limiter = limiterOf(concurrency({ limit: 1, ttl: '1s' }))
    const api = new OutgoingClient({ clock, limiter, key: 'k' })
    const call = api.schedule(
      ({ signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve(signal.reason))
        }),
    )
    await pass(10)
    await limiter.reset('k')
    await pass(1_000)
    expect(await call).toMatchObject({ code: 'PERMIT_LOST' })
  })
})

describe('close', () => {
  test('drains: waits for all calls, and rejects new ones', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(gcra({ limit: 1, period: '1s' })), key: 'k' })
    const calls = [api.schedule(() => 1), api.schedule(() => 2), api.schedule(() => 3)]
    const closed = jest.fn()
    const closing = api.close().then(closed)
    await expect(api.schedule(() => 4)).rejects.toMatchObject({ code: 'CLOSED' })
    await pass(1_500)
    expect(closed).not.toHaveBeenCalled()
    await pass(600)
    await closing
    expect(await Promise.all(calls)).toEqual([1, 2, 3])
    await api.close()
    await api[Symbol.asyncDispose]()
    expect(api.status()).toEqual({ queued: 0, running: 0, isClosed: true })
  })

  test('after the timeout waiting calls are rejected, and running ones are aborted', async () => {
    const limiter = limiterOf({ rate: gcra({ limit: 10, period: '1s' }), most: concurrency({ limit: 1 }) })
    const api = new OutgoingClient({ clock, limiter, key: 'k' })
    const reasons: unknown[] = []
    const running = api.schedule(
      ({ signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason)
            resolve('stopped')
          })
        }),
    )
    const waiting = api.schedule(() => {}).catch((error: unknown) => error)
    await pass(10)
    const closing = api.close({ timeout: 1_000 })
    await pass(1_000)
    await closing
    expect(await waiting).toMatchObject({ code: 'CLOSED' })
    expect(await running).toBe('stopped')
    expect(reasons).toMatchObject([{ code: 'CLOSED' }])
  })

  test('a call between two attempts is rejected after the timeout', async () => {
    const api = new OutgoingClient({
      clock,
      limiter: limiterOf(gcra({ limit: 9, period: '1s' })),
      key: 'k',
      retries: { minDelay: '20s' },
    })
    const call = api
      .schedule(async () => new Response(null, { status: 502 }), { isIdempotent: true })
      .catch((error: unknown) => error)
    await pass(10)
    const closing = api.close({ timeout: 100 })
    await pass(100)
    await closing
    expect(await call).toMatchObject({ code: 'CLOSED' })
  })
})

describe('wrap and events', () => {
  test('wrap passes arguments, and options by them', async () => {
    const limiter = limiterOf(gcra({ limit: 1, period: '1s' }))
    const api = new OutgoingClient({ clock, limiter })
    const add = api.wrap(
      (key: string, number: number) => `${key}${number}`,
      (key) => ({ key }),
    )
    expect(await Promise.all([add('a', 1), add('b', 2)])).toEqual(['a1', 'b2'])
    const fixed = api.wrap(async (number: number) => number, { key: 'c' })
    expect(await fixed(3)).toBe(3)
  })

  test('start and end report each attempt', async () => {
    const api = new OutgoingClient({ clock, limiter: limiterOf(gcra({ limit: 1, period: '1s' })), key: 'k' })
    const events: unknown[] = []
    const off = api.on('start', (event) => events.push(event))
    api.on('end', (event) => events.push(event))
    await api.schedule(() => {})
    const late = api.schedule(() => clock.sleep('30ms'), { priority: 2 })
    await pass(1_100)
    await late
    off()
    await pass(1_000)
    await api.schedule(() => Promise.reject(Object.assign(new Error('bad'), { statusCode: 418 }))).catch(() => {})
    expect(events).toEqual([
      { key: 'k', priority: 0, attempt: 1, waitedMs: 0 },
      { key: 'k', attempt: 1, durationMs: 0, isSuccess: true, status: undefined },
      { key: 'k', priority: 2, attempt: 1, waitedMs: 1_000 },
      { key: 'k', attempt: 1, durationMs: 30, isSuccess: true, status: undefined },
      { key: 'k', attempt: 1, durationMs: 0, isSuccess: false, status: 418 },
    ])
  })

  test('queues of keys without calls are dropped', async () => {
    const limiter = limiterOf(gcra({ limit: 1, period: '1s' }))
    const api = new OutgoingClient({ clock, limiter })
    for (let index = 0; index < 500; index++) {
      await api.schedule(() => {}, { key: `key ${index}` })
    }
    expect(api.status()).toMatchObject({ queued: 0, running: 0 })
    expect(clock.timerCount).toBe(0)
  })
})
