/** `OutgoingClient` by a `TestClock`: refusals that only its user can know, timeouts, and the retries of an outage. */

import { type ClientOptions, OutgoingClient } from '../../ts/client/index.js'
import { concurrency, gcra } from '../../ts/index.js'
import { anything } from '../failure.js'
import { clock, limiterOf, pass } from './clocked.js'

const fast = () => limiterOf(gcra({ limit: 1_000, period: '1s' }))

const clientOf = (options: Partial<ClientOptions> = {}) => {
  return new OutgoingClient({ clock, key: 'k', limiter: fast(), ...options })
}

describe('refusalOf', () => {
  const throttled = (seconds: number) => ({ errors: [{ code: 'THROTTLED', seconds }] })
  const timeOf = (result: unknown) => {
    const { errors } = (result ?? {}) as { readonly errors?: readonly { readonly seconds: number }[] }
    return errors?.[0] === undefined ? undefined : (`${errors[0].seconds}s` as const)
  }

  test('a refusal in the body of a 200 pauses the key for all, and the call is sent again', async () => {
    const limiter = fast()
    const api = clientOf({ limiter, refusalOf: timeOf })
    const ends: unknown[] = []
    api.on('end', ({ isSuccess }) => ends.push(isSuccess))
    const results: unknown[] = [throttled(7), { data: 'yes' }]
    const run = jest.fn(() => results.shift())
    const call = api.schedule(run)
    await pass(6_900)
    expect((await limiter.take('k')).status).toBe('blocked')
    expect(run).toHaveBeenCalledTimes(1)
    await pass(200)
    expect(await call).toEqual({ data: 'yes' })
    expect(ends).toEqual([false, true])
  })

  test('it may read the body of a response, and sees errors', async () => {
    const seen: unknown[] = []
    const refusalOf = async (result: unknown) => {
      seen.push(result)
      return result instanceof Response ? timeOf(await result.clone().json()) : undefined
    }
    const api = clientOf({ refusalOf })
    const answers = [Response.json(throttled(1)), Response.json({ data: 1 })]
    const call = api.schedule(async () => answers.shift() as Response)
    await pass(1_100)
    expect(await (await call).json()).toEqual({ data: 1 })
    const error = new Error('broken')
    await expect(api.schedule(() => Promise.reject(error))).rejects.toBe(error)
    expect(seen).toHaveLength(3)
    expect(seen[2]).toBe(error)
  })

  test.each<readonly [string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('hook')
      },
    ],
    ['rejects', () => Promise.reject(new Error('hook'))],
    ['returns no time', () => 'soon'],
  ])('a hook that %s is reported, and the result reaches the caller', async (_, hook) => {
    const api = clientOf({ refusalOf: anything(hook) })
    const errors: unknown[] = []
    api.on('hookError', ({ key, hook }) => errors.push([key, hook]))
    expect(await api.schedule(() => 'result')).toBe('result')
    expect(errors).toEqual([['k', 'refusalOf']])
    expect(api.status()).toMatchObject({ queued: 0, running: 0 })
  })

  test.each<readonly [unknown, number]>([
    [1_000 / 3, 334],
    [0.4, 1],
    [1.5, 2],
    [1e12, 86_400_000],
    ['1.5ms', 2],
  ])('the computed time %p is rounded up, to a day at most', async (time, durationMs) => {
    const api = clientOf({ refusalOf: anything(() => time), retries: 0 })
    const events: unknown[] = []
    api.on('block', (event) => events.push(event.durationMs))
    api.on('hookError', (event) => events.push(event.error))
    await api.schedule(() => 'refused')
    await pass(10)
    expect(events).toEqual([durationMs])
  })

  test.each([0, -0, -5, '0s', '0ms'])('%p is a refusal without a time: the call is sent again later', async (time) => {
    const api = clientOf({
      refusalOf: anything((result: unknown) => (result === 'refused' ? time : undefined)),
      retries: { minDelay: '100ms' },
    })
    const events: unknown[] = []
    api.on('block', ({ durationMs }) => events.push(durationMs >= 50 && durationMs <= 100))
    api.on('hookError', (event) => events.push(event.error))
    const results = ['refused', 'yes']
    const call = api.schedule(() => results.shift())
    await pass(200)
    expect(await call).toBe('yes')
    expect(events).toEqual([true])
  })

  test.each([undefined, null])('%p is no refusal', async (nothing) => {
    const api = clientOf({ refusalOf: () => nothing })
    const events: unknown[] = []
    api.on('block', (event) => events.push(event))
    api.on('hookError', (event) => events.push(event))
    expect(await api.schedule(() => 'fine')).toBe('fine')
    await pass(10)
    expect(events).toEqual([])
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY, '-5s', true, {}])('%p is no time', async (time) => {
    const api = clientOf({ refusalOf: anything(() => time) })
    const errors: unknown[] = []
    api.on('hookError', ({ error }) => errors.push((error as Error).message))
    expect(await api.schedule(() => 'fine')).toBe('fine')
    expect(errors).toEqual([
      expect.stringMatching(
        /^the result of refusalOf must be a number of milliseconds, a duration such as '5s', or nothing, got/,
      ),
    ])
  })

  test('a longer time in the headers counts', async () => {
    const limiter = fast()
    const api = clientOf({ limiter, refusalOf: () => '1s', retries: 0 })
    await api.schedule(() => new Response(null, { status: 429, headers: { 'Retry-After': '30' } }))
    await pass(10)
    expect((await limiter.peek('k')).retryAfterMs).toBeGreaterThan(29_000)
  })
})

test('a result whose headers throw reaches the caller, and frees its permit', async () => {
  const api = clientOf({ limiter: limiterOf(concurrency({ limit: 1 })) })
  const broken = {
    status: 429,
    get headers(): unknown {
      throw new Error('no headers')
    },
  }
  expect(await api.schedule(() => broken)).toBe(broken)
  await expect(api.schedule(() => Promise.reject(broken))).rejects.toBe(broken)
  expect(await api.schedule(() => 'next')).toBe('next')
})

describe('results and errors whose members throw', () => {
  const thrown = () => {
    throw new Error('member')
  }
  const throwing = (name: string, on: object) => Object.defineProperty(on, name, { get: thrown })
  const revoked = () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  }

  test.each<readonly [string, object]>([
    ['name', throwing('name', {})],
    ['code', throwing('code', {})],
    ['cause', throwing('cause', new Error('x'))],
    ['message', throwing('message', new TypeError('x'))],
    ['status', throwing('status', new Error('x'))],
    ['response', throwing('response', new Error('x'))],
    ['a revoked proxy', revoked()],
    ['a prototype', new Proxy({}, { getPrototypeOf: thrown })],
  ])('an error reaches the caller, and frees its permit: %s', async (_, error) => {
    const api = clientOf({ limiter: limiterOf(concurrency({ limit: 1 })) })
    const hookError = jest.fn()
    api.on('hookError', hookError)
    let caught: unknown
    await api
      .schedule(() => Promise.reject(error), { isIdempotent: true })
      .catch((reason: unknown) => {
        caught = reason
      })
    expect(caught === error).toBe(true)
    expect(await api.schedule(() => 'next')).toBe('next')
    expect(api.status()).toMatchObject({ queued: 0, running: 0 })
    expect(hookError).not.toHaveBeenCalled()
  })

  test.each<readonly [string, () => object]>([
    ['a prototype', () => new Proxy({}, { getPrototypeOf: thrown })],
    [
      'a proxy of a response',
      () => new Proxy(new Response('text'), { get: (_, name) => (name === 'then' ? undefined : thrown()) }),
    ],
    ['a response with headers that throw', () => throwing('headers', new Response('text'))],
    ['a response with a body that throws', () => throwing('body', new Response('text'))],
  ])('a result reaches the caller: %s', async (_, make) => {
    for (const options of [{ usageOf: () => 1 }, {}]) {
      const limiter = limiterOf({ rate: gcra({ limit: 9, period: '1s' }), atOnce: concurrency({ limit: 1 }) })
      const result = make()
      const api = clientOf({ limiter, fetch: anything(async () => result), ...options })
      expect((await api.schedule(() => result)) === result).toBe(true)
      expect(((await api.fetch('https://api.example.com/')) as object) === result).toBe(true)
      await pass(100)
      expect(api.status()).toMatchObject({ queued: 0, running: 0 })
    }
  })
})

describe('attemptTimeout', () => {
  /** Ends with its signal only, the first `slow` times. */
  const slowFor = (slow: number) => {
    return jest.fn(({ signal, attempt }: { readonly signal: AbortSignal; readonly attempt: number }) => {
      return attempt > slow
        ? 'answer'
        : new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
  }

  test('an attempt that takes longer is aborted; an idempotent call is sent again', async () => {
    const api = clientOf({ attemptTimeout: 2_000, retries: { limit: 2, minDelay: '100ms' } })
    const run = slowFor(1)
    const call = api.schedule(anything(run), { isIdempotent: true })
    await pass(1_990)
    expect(run).toHaveBeenCalledTimes(1)
    await pass(200)
    expect(await call).toBe('answer')
  })

  test('another call rejects with ATTEMPT_TIMEOUT, which tells that it has run', async () => {
    const api = clientOf()
    const call = api.schedule(anything(slowFor(1)), { attemptTimeout: '1s' }).catch((error: unknown) => error)
    await pass(1_000)
    expect(await call).toMatchObject({
      code: 'ATTEMPT_TIMEOUT',
      attempts: 1,
      message: 'attempt 1 took longer than attemptTimeout of 1000 ms',
    })
    expect(clock.timerCount).toBe(0)
  })

  test('a function that ignores its signal keeps its permit until it ends', async () => {
    const limiter = limiterOf(concurrency({ limit: 1 }))
    const api = clientOf({ limiter, attemptTimeout: 1_000 })
    const call = api.schedule(() => clock.sleep('3s')).catch((error: unknown) => error)
    await pass(1_000)
    expect(await call).toMatchObject({ code: 'ATTEMPT_TIMEOUT' })
    expect(api.status().running).toBe(1)
    expect((await limiter.acquire('k')).allowed).toBe(false)
    await pass(2_000)
    expect(api.status().running).toBe(0)
    expect((await limiter.acquire('k')).allowed).toBe(true)
  })
})

test.each([408, 500, 502, 504, 529])('a retry after %s waits for the time that the server states', async (status) => {
  const limiter = fast()
  const api = clientOf({ limiter, retries: { limit: 2, minDelay: '100ms' } })
  const answers = [new Response(null, { status, headers: { 'Retry-After': '7' } }), new Response('yes')]
  const run = jest.fn(() => answers.shift() as Response)
  const call = api.schedule(run, { isIdempotent: true })
  await pass(6_900)
  expect(run).toHaveBeenCalledTimes(1)
  // A failure is no refusal, so other calls on the key go on.
  expect((await limiter.take('k')).allowed).toBe(true)
  await pass(200)
  expect(await (await call).text()).toBe('yes')
})

test('a retry waits for its backoff, if that is longer than the time that the server states', async () => {
  const api = clientOf({ retries: { limit: 1, minDelay: '10s' } })
  const answers = [new Response(null, { status: 502, headers: { 'Retry-After': '1' } }), new Response('yes')]
  const run = jest.fn(() => answers.shift() as Response)
  const call = api.schedule(run, { isIdempotent: true })
  await pass(4_900)
  expect(run).toHaveBeenCalledTimes(1)
  await pass(5_200)
  expect(await (await call).text()).toBe('yes')
})

describe('shouldRetry', () => {
  test('decides for failures, with the number of the attempt; undefined leaves the decision to the client', async () => {
    const seen: unknown[] = []
    const api = clientOf({
      shouldRetry: (failure, attempt) => {
        seen.push([failure instanceof Response ? failure.status : failure, attempt])
        return failure === 'again' ? true : failure === 'never' ? false : undefined
      },
      retries: { limit: 2, minDelay: '10ms' },
    })
    const failing = (failure: unknown) => {
      const call = api.schedule(() => Promise.reject(failure), { isIdempotent: failure === 'never' })
      return call.catch((error: unknown) => error)
    }
    const again = failing('again')
    const never = failing('never')
    const idle = api.schedule(async () => new Response(null, { status: 404 }))
    const fine = api.schedule(async () => new Response(null, { status: 200 }))
    await pass(200)
    expect([await again, await never, (await idle).status, (await fine).status]).toEqual(['again', 'never', 404, 200])
    // The last attempt needs no decision.
    expect(seen.sort()).toEqual(
      [
        [404, 1],
        ['again', 1],
        ['again', 2],
        ['never', 1],
      ].sort(),
    )
  })

  test('one that throws is reported, and the client decides', async () => {
    const api = clientOf({ retries: { limit: 1, minDelay: '10ms' } })
    const errors: unknown[] = []
    api.on('hookError', ({ hook, error }) => errors.push([hook, (error as Error).message]))
    const run = jest.fn(async () => new Response(null, { status: 500 }))
    const shouldRetry = () => {
      throw new Error('hook')
    }
    const call = api.schedule(run, { isIdempotent: true, shouldRetry })
    await pass(100)
    expect((await call).status).toBe(500)
    expect(run).toHaveBeenCalledTimes(2)
    expect(errors).toEqual([['shouldRetry', 'hook']])
    const other = api.schedule(run, { shouldRetry: anything(() => 'yes') })
    expect((await other).status).toBe(500)
    expect(errors[1]).toEqual(['shouldRetry', 'the result of shouldRetry must be true, false or undefined, got "yes"'])
  })
})

describe('the budget of retries', () => {
  /** The attempts and the calls of an outage of a minute, at 100 calls a second. */
  async function outage(
    options: Partial<ClientOptions>,
  ): Promise<{ readonly attempts: number; readonly calls: number }> {
    const api = clientOf({ ...options, maxQueued: 100_000 })
    let [attempts, calls] = [0, 0]
    const settled: Promise<unknown>[] = []
    for (; calls < 6_000; calls++) {
      const run = async () => {
        attempts++
        throw Object.assign(new Error('down'), { code: 'ECONNREFUSED' })
      }
      settled.push(api.schedule(run, { isIdempotent: true }).catch(() => {}))
      if (calls % 10 === 9) {
        await pass(100)
      }
    }
    await pass(60_000)
    await Promise.all(settled)
    return { attempts, calls }
  }

  // promise: client-retry-budget
  test('an outage of a minute at 100 calls a second has at most 1.1 attempts for each call', async () => {
    const { attempts, calls } = await outage({})
    expect(attempts).toBeLessThanOrEqual(1.1 * calls)
    // The budget is used.
    expect(attempts).toBeGreaterThan(1.05 * calls)
  })

  test('without a budget each call has all its retries', async () => {
    const { attempts, calls } = await outage({ retries: { budget: false } })
    expect(attempts).toBe(3 * calls)
  })

  test('ten retries a minute are free, and retries after refusals do not count', async () => {
    const api = clientOf({ retries: { limit: 2, minDelay: '10ms' } })
    const run = jest.fn(async () => new Response(null, { status: 500 }))
    const failing = Array.from({ length: 12 }, () => api.schedule(run, { isIdempotent: true }))
    await pass(200)
    await Promise.all(failing)
    expect(run).toHaveBeenCalledTimes(12 + 10)
    const refused = [new Response(null, { status: 429, headers: { 'Retry-After': '1' } }), new Response('yes')]
    const call = api.schedule(async () => refused.shift() as Response)
    await pass(1_100)
    expect((await call).status).toBe(200)
  })
})

describe('pauseWhenEmpty', () => {
  const lastOne = () => new Response('', { headers: { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '20' } })

  test('a successful answer that says that nothing is left pauses the key for all until its reset', async () => {
    const limiter = fast()
    const api = clientOf({ limiter, pauseWhenEmpty: true })
    const blocks: unknown[] = []
    api.on('block', ({ status, durationMs, applied }) => blocks.push({ status, durationMs, applied }))
    expect((await api.schedule(lastOne)).status).toBe(200)
    await pass(10)
    expect(blocks).toEqual([{ status: 200, durationMs: 20_000, applied: 'store' }])
    const next = api.schedule(() => clock.now())
    expect((await limiter.take('k')).status).toBe('blocked')
    const began = clock.now()
    await pass(20_000)
    expect((await next) - began).toBeGreaterThan(19_900)
  })

  test('without the option there is no pause', async () => {
    const limiter = fast()
    const api = clientOf({ limiter })
    await api.schedule(lastOne)
    expect((await limiter.take('k')).allowed).toBe(true)
  })
})
