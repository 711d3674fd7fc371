/** `wait`: slots in order, and calls that do not wait for their slots. */
import { execFileSync } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { join } from 'node:path'
import {
  calendarWindow,
  type Decision,
  fixedWindow,
  type GcraPolicy,
  gcra,
  leakyBucket,
  MemoryStore,
  RateLimiter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../ts/index.js'
import { timers } from '../../ts/platform/timers.js'
import { TestClock } from '../../ts/testing/index.js'
import { FakeClock } from '../clock.js'
import { anything, rejectionOf } from '../failure.js'
import { until } from '../servers/until.js'
import { BACKENDS } from './stores.js'

/** A slot every 40 ms. */
const PACER = gcra({ limit: 25, period: '1s', burst: 1 })

/** The time of a slot, in microseconds by the deciding clock. */
const slotOf = ({ at, waitedMs }: Decision & { readonly waitedMs: number }) =>
  Math.round(at * 1_000) + Math.round(waitedMs * 1_000)

/** A refusal, with `refusal: 'resolve'`. */
const asValue = { onTooLong: 'resolve' } as const

const gaps = (slots: readonly number[]) => slots.slice(1).map((slot, index) => slot - (slots[index] as number))

describe.each(BACKENDS)('wait: $name', (backend) => {
  test('gives slots in call order, and no call resolves before its slot', async () => {
    const limiter = backend.limiter(PACER)
    const start = backend.now()
    const order: number[] = []
    const calls = [0, 1, 2, 3].map(async (number) => {
      const decision = await limiter.wait('a')
      order.push(number)
      expect(backend.now() - start).toBe(decision.waitedMs)
      return decision
    })
    const decisions = await backend.until(Promise.all(calls))
    expect(order).toEqual([0, 1, 2, 3])
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, true])
    expect(decisions[0]?.waitedMs).toBe(0)
    expect(gaps(decisions.map(slotOf))).toEqual([40_000, 40_000, 40_000])
  })

  // promise: no-overtaking
  test('no other call passes the waiting ones, and all pass after them', async () => {
    const limiter = backend.limiter(tokenBucket({ capacity: 2, refill: { tokens: 1, every: 250 } }))
    await limiter.take('a', 2)
    const calls = [limiter.wait('a'), limiter.wait('a', { cost: 2 })] as const
    const taken = await limiter.take('a')
    expect([taken.status, taken.remaining]).toEqual(['refused', 0])
    expect(taken.retryAfterMs).toBe(1_000)
    expect((await limiter.takeUpTo('a', 2)).granted).toBe(0)
    const [first, second] = await backend.until(Promise.all(calls))
    expect(slotOf(second) - slotOf(first)).toBe(500_000)
    await backend.pass(250)
    expect((await limiter.take('a')).allowed).toBe(true)
    expect((await limiter.take('other')).allowed).toBe(true)
  })

  test('none of 400 jobs at 5 a second starts out of turn', async () => {
    const pacer = backend.limiter(gcra({ limit: 5, period: '1s', burst: 1 }))
    const begun: number[] = []
    const jobs = Array.from({ length: 400 }, async (_, job) => {
      await pacer.wait('api.example.com')
      begun.push(job)
    })
    const ended = Promise.allSettled(jobs)
    await backend.pass(450)
    expect(begun).toEqual([0, 1, 2])
    await pacer.close()
    const codes = (await ended).map((result) => (result.status === 'rejected' ? result.reason.code : 'begun'))
    // 150 slots after the first are at most 30 seconds away.
    expect(codes.filter((code) => code === 'WAIT_TOO_LONG')).toHaveLength(249)
    expect(codes.filter((code) => code === 'CLOSED')).toHaveLength(148)
  })

  test('refuses immediately if the wait would be too long, and schedules nothing', async () => {
    const limiter = backend.limiter(gcra({ limit: 2, period: '1h', burst: 1 }))
    expect((await limiter.wait('a', { maxWait: 0 })).status).toBe('allowed-last')
    const error = await rejectionOf(limiter.wait('a'))
    expect(error).toMatchObject({ name: 'TollgateError', code: 'WAIT_TOO_LONG', charged: false })
    expect(error.decision).toMatchObject({ allowed: false, status: 'refused', waitedMs: 0, source: 'store' })
    expect(error.decision?.retryAfterMs).toBe(1_800_000)
    expect(error.message).toMatch(
      /^the next slot is 1800 s away, more than maxWait of 30 s; raise maxWait, or use onTooLong: 'resolve'$/,
    )
    expect(await limiter.refund(anything(error.decision))).toBe(0)
    const refused = await limiter.wait('a', asValue)
    expect(refused).toMatchObject({ status: 'refused', waitedMs: 0 })
    expect(refused.retryAfterMs).toBe(1_800_000)
    expect(await limiter.refund(refused)).toBe(0)
    const abort = new AbortController()
    const waiting = limiter.wait('a', { maxWait: 3_600_000, signal: abort.signal })
    const next = await limiter.wait('a', { maxWait: 3_000_000, ...asValue })
    expect(next.retryAfterMs).toBe(3_600_000)
    abort.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'ABORTED' })
  })

  test('refuses a slot that is days away, without scheduling it', async () => {
    const limiter = backend.limiter(tokenBucket({ capacity: 100, refill: { tokens: 1, every: '1d' } }))
    await limiter.take('a', 100)
    for (const cost of [1, 30, 100]) {
      const refused = await limiter.wait('a', { cost, maxWait: 3_600_000, ...asValue })
      expect(refused).toMatchObject({ allowed: false, status: 'refused', waitedMs: 0, retryAfterMs: cost * 86_400_000 })
    }
    const { message } = await rejectionOf(limiter.wait('a', { maxWait: 3_600_000 }))
    expect(message).toMatch(/ s away, more than the largest maxWait \(3600 s\); make fewer calls, or use /)
    expect((await limiter.peek('a', 1)).retryAfterMs).toBe(86_400_000)
  })

  test('resolves immediately if blocked or impossible', async () => {
    const limiter = backend.limiter(PACER)
    const dear = { cost: 2 }
    expect(await limiter.wait('a', { ...dear, ...asValue })).toMatchObject({ status: 'impossible', waitedMs: 0 })
    expect(await rejectionOf(limiter.wait('a', dear))).toMatchObject({
      code: 'WAIT_TOO_LONG',
      charged: false,
      message: 'a cost of 2 never fits: the largest cost is 1; lower the cost or raise the limit',
      decision: { status: 'impossible', retryAfterMs: null, waitedMs: 0 },
    })
    await limiter.block('a', '1h')
    const patient = { maxWait: 3_600_000 }
    expect(await limiter.wait('a', { ...patient, ...asValue })).toMatchObject({ status: 'blocked', waitedMs: 0 })
    expect(await rejectionOf(limiter.wait('a', patient))).toMatchObject({
      code: 'WAIT_TOO_LONG',
      charged: false,
      message: expect.stringMatching(
        /^the key is blocked, and wait does not wait for the end of a block; try again in 3\d{3}/,
      ),
      decision: { status: 'blocked', waitedMs: 0 },
    })
    await limiter.unblock('a')
    expect((await limiter.wait('a')).waitedMs).toBe(0)
  })

  test('the slot under a set of policies is the first time at which all admit the call', async () => {
    const limiter = backend.limiter({
      ip: leakyBucket({ capacity: 2, leak: { units: 1, every: 30 }, per: 'ip' }),
      user: gcra({ limit: 25, period: '1s', burst: 1, per: 'user' }),
    })
    const calls = ['ann', 'ann', 'ann', 'ben', 'eve'].map((user) => limiter.wait({ ip: '1', user }))
    const slots = (await backend.until(Promise.all(calls))).map(slotOf)
    // While a call waits for the address, no other call passes.
    expect(gaps(slots)).toEqual([40_000, 40_000, 0, 30_000])
    const { policies } = await limiter.peek({ ip: '2', user: 'ann' }, 0)
    expect(policies.ip.remaining).toBe(2)
    const { message, decision } = await rejectionOf(limiter.wait({ ip: '1', user: 'ann' }, { cost: 2 }))
    expect(message).toContain('a cost of 2 never fits under "user": the largest cost is 1')
    expect(decision?.policy).toBe('user')
  })

  test('the units can be refunded when no call waits any more', async () => {
    const limiter = backend.limiter(gcra({ limit: 1, period: '1s', burst: 1 }))
    const calls = [limiter.wait('a'), limiter.wait('a')] as const
    expect(await limiter.refund(await calls[0])).toBe(0)
    expect(await limiter.refund(await backend.until(calls[1]))).toBe(1)
    expect((await limiter.take('a')).allowed).toBe(true)
  })
})

describe.each(BACKENDS)('a wait that ends early: $name', (backend) => {
  const hourly = gcra({ limit: 30, period: '1h', burst: 1 })
  const patient = { maxWait: 3_600_000 }

  test('schedules nothing if the signal was already aborted', async () => {
    const limiter = backend.limiter(hourly)
    const signal = AbortSignal.abort(new Error('gone'))
    const error = await rejectionOf(limiter.wait('a', { signal }))
    expect(error).toMatchObject({ name: 'AbortError', code: 'ABORTED', charged: false, cause: signal.reason })
    expect((await limiter.take('a')).allowed).toBe(true)
  })

  test('rejects immediately and gives the slot back', async () => {
    const limiter = backend.limiter(hourly)
    const first = await limiter.wait('a')
    const abort = new AbortController()
    const waiting = limiter.wait('a', { ...patient, signal: abort.signal })
    await backend.pass(20)
    expect(getEventListeners(abort.signal, 'abort')).toHaveLength(1)
    abort.abort('enough')
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError', code: 'ABORTED', cause: 'enough' })
    expect(getEventListeners(abort.signal, 'abort')).toHaveLength(0)
    expect((await limiter.take('a')).retryAfterMs).toBe(120_000 - 20)
    expect(await limiter.refund(first)).toBe(1)
  })

  test('gives the slot back, too, if it ends before the store has answered', async () => {
    const limiter = backend.limiter(hourly)
    await limiter.wait('a')
    const abort = new AbortController()
    const waiting = limiter.wait('a', { ...patient, signal: abort.signal })
    abort.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'ABORTED' })
    await until('the slot is given back', async () => ((await limiter.take('a')).retryAfterMs ?? 0) <= 120_000)
  })

  // promise: slot-given-back
  test('later calls of the process move up, and the last slot is given back', async () => {
    const limiter = backend.limiter(PACER)
    const abort = new AbortController()
    const first = limiter.wait('a')
    const second = limiter.wait('a', { signal: abort.signal })
    const third = limiter.wait('a')
    await first
    abort.abort()
    await expect(second).rejects.toMatchObject({ code: 'ABORTED' })
    expect(slotOf(await backend.until(third)) - slotOf(await first)).toBe(40_000)
  })

  test('of 300 calls 250 abort: the others wait for 50 slots, in their order', async () => {
    const limiter = backend.limiter(gcra({ limit: 1_000, period: '1s', burst: 1 }))
    const abort = new AbortController()
    const order: number[] = []
    const calls = Array.from({ length: 300 }, async (_, index) => {
      const signal = index % 6 === 0 ? undefined : abort.signal
      const options = { maxWait: 60_000, ...(signal !== undefined && { signal }) }
      const decision = await limiter.wait('a', options)
      order.push(index)
      return slotOf(decision)
    })
    const first = await (calls[0] as Promise<number>)
    abort.abort()
    const results = await backend.until(Promise.allSettled(calls))
    const slots = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    expect(slots).toHaveLength(50)
    expect(order).toEqual(Array.from({ length: 50 }, (_, index) => index * 6))
    // Without moving up the last one would have the slot 294. Some slots may come before the abort.
    expect((slots.at(-1) as number) - first).toBeLessThan(200_000)
  })

  test('gives back all slots aborted by one signal', async () => {
    const limiter = backend.limiter(hourly)
    const abort = new AbortController()
    const calls = [1, 2, 3, 4].map(() => limiter.wait('a', { ...patient, signal: abort.signal }))
    await calls[0]
    await backend.pass(20)
    abort.abort()
    const results = await Promise.allSettled(calls)
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected'])
    expect((await limiter.take('a')).retryAfterMs).toBeLessThanOrEqual(120_000)
  })

  test('ends when the limiter is closed, and the slots are given back', async () => {
    const [limiter, other] = backend.limiterPair(hourly)
    const { signal } = new AbortController()
    const calls = [1, 2, 3].map(() => limiter.wait('a', { ...patient, signal }))
    await calls[0]
    await backend.pass(20)
    // This call is in flight, after the others.
    calls.push(limiter.wait('a', { ...patient, signal }))
    const closed = limiter.close()
    const results = await Promise.allSettled(calls)
    const codes = results.map((result) => (result.status === 'rejected' ? result.reason.code : result.value.status))
    expect(codes).toEqual(['allowed-last', 'CLOSED', 'CLOSED', 'CLOSED'])
    await closed
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
    expect((await other.take('a')).retryAfterMs).toBeLessThanOrEqual(120_000)
    await expect(limiter.wait('a')).rejects.toMatchObject({ code: 'CLOSED', charged: false })
    await other.close()
  })

  test('many calls with one signal add one listener, because Node warns above ten', async () => {
    const limiter = backend.limiter(hourly)
    const abort = new AbortController()
    const calls = Array.from({ length: 12 }, () => limiter.wait('a', { ...patient, signal: abort.signal }))
    const first = await calls[0]
    expect(first?.allowed).toBe(true)
    expect(getEventListeners(abort.signal, 'abort')).toHaveLength(1)
    abort.abort()
    const results = await Promise.allSettled(calls)
    const codes = results.map((result) => (result.status === 'rejected' ? result.reason.code : result.value.status))
    expect(codes).toEqual(['allowed-last', ...new Array(11).fill('ABORTED')])
    expect(getEventListeners(abort.signal, 'abort')).toHaveLength(0)
  })

  test('leaves no listener after a normal end', async () => {
    const limiter = backend.limiter(PACER)
    const { signal } = new AbortController()
    await backend.until(Promise.all([limiter.wait('a', { signal }), limiter.wait('a', { signal })]))
    await limiter.wait('b', { signal, cost: 2, ...asValue })
    await rejectionOf(limiter.wait('b', { signal, cost: 2 }))
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })
})

describe('timers', () => {
  test('a slot that is days away sets no timer', async () => {
    const limiter = new RateLimiter(tokenBucket({ capacity: 100, refill: { tokens: 1, every: '1d' } }))
    await limiter.take('a', 100)
    const timer = jest.spyOn(timers, 'setTimeout')
    try {
      for (const cost of [1, 30, 100]) {
        // A timer of more than 24.8 days would fire immediately.
        const refused = await limiter.wait('a', { cost, maxWait: 3_600_000, ...asValue })
        expect(refused).toMatchObject({ status: 'refused', waitedMs: 0 })
      }
      expect(timer).not.toHaveBeenCalled()
    } finally {
      timer.mockRestore()
    }
  })

  test('a timer that fires early is set again', async () => {
    const limiter = new RateLimiter(gcra({ limit: 2, period: '1s', burst: 1 }))
    const real = setTimeout
    let calls = 0
    const early = (run: () => void, millis: number) => real(run, calls++ === 0 ? 1 : millis)
    const timer = jest.spyOn(timers, 'setTimeout').mockImplementation(anything(early))
    try {
      const start = performance.now()
      const [, { waitedMs }] = await Promise.all([limiter.wait('a'), limiter.wait('a')])
      expect(performance.now() - start).toBeGreaterThanOrEqual(waitedMs)
      expect(timer.mock.calls.length).toBeGreaterThan(1)
    } finally {
      timer.mockRestore()
    }
  })

  test('each call gets its own slot, also if the timer of an earlier one fires later', async () => {
    const limiter = new RateLimiter(PACER, { store: new MemoryStore({ clock: new FakeClock().read }) })
    const real = setTimeout
    let calls = 0
    const late = (run: () => void, millis: number) => real(run, millis + (calls++ === 0 ? 60 : 0))
    const timer = jest.spyOn(timers, 'setTimeout').mockImplementation(anything(late))
    try {
      const waits = await Promise.all([limiter.wait('a'), limiter.wait('a'), limiter.wait('a')])
      const gapsInMs = gaps(waits.map(slotOf)).map((gap) => gap / 1_000)
      expect(gapsInMs).toEqual([40, 40])
    } finally {
      timer.mockRestore()
    }
  })

  test('a slot that has come before its wait has a place resolves it', async () => {
    const limiter = new RateLimiter(gcra({ limit: 1_000, period: '1s', burst: 1 }))
    let now = 0
    // Each reading is later than the next slot.
    const clock = jest.spyOn(timers, 'now').mockImplementation(() => (now += 5))
    try {
      const waits = await Promise.all([limiter.wait('a'), limiter.wait('a'), limiter.wait('a')])
      expect(waits.map(({ allowed }) => allowed)).toEqual([true, true, true])
    } finally {
      clock.mockRestore()
    }
  })

  test('takes real time, whatever the deciding clock', async () => {
    const clock = new FakeClock()
    const limiter = new RateLimiter(PACER, { store: new MemoryStore({ clock: clock.read }) })
    const start = performance.now()
    const calls = [limiter.wait('a'), limiter.wait('a'), limiter.wait('a')]
    clock.advance(-5_000)
    const waits = (await Promise.all(calls)).map(({ waitedMs }) => waitedMs)
    expect(waits).toEqual([0, 40, 80])
    expect(performance.now() - start).toBeGreaterThanOrEqual(80)
  })

  test('keeps the process alive', () => {
    const script = `
      import { gcra, RateLimiter } from 'tollgate'
      const limiter = new RateLimiter(gcra({ limit: 20, period: '1s', burst: 1 }))
      await limiter.wait('a')
      limiter.wait('a').then(({ allowed }) => console.log(allowed))`
    const cwd = join(__dirname, '..', '..')
    const output = execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd, encoding: 'utf8' })
    expect(output).toBe('true\n')
  })
})

describe('policies that cannot wait', () => {
  const window = fixedWindow({ limit: 5, window: '1h' })
  const interval = tokenBucket({ capacity: 5, refill: { tokens: 5, every: '1h' }, refillMode: 'interval' })
  const needs = 'wait needs policies made by gcra(), leakyBucket() or tokenBucket() with continuous refill, but '

  const spaced = 'with burst: 1 to space calls evenly'
  const limits = { fast: { limit: 1, window: '1s' }, slow: { limit: 9, window: '1m' } } as const
  test.each([
    [window, `policy is fixedWindow; use gcra({ limit: 5, period: '1h' }), ${spaced}`],
    [interval, 'policy is tokenBucket with refillMode "interval"; use refillMode: \'continuous\''],
    [{ fast: PACER, daily: window }, `policies.daily is fixedWindow; use gcra({ limit: 5, period: '1h' }), ${spaced}`],
    [
      calendarWindow({ limit: 9, every: 'day' }),
      `policy is calendarWindow; use gcra({ limit: 9, period: '1d' }), ${spaced}`,
    ],
    [
      calendarWindow({ limit: 9, every: '15m' }),
      `policy is calendarWindow; use gcra({ limit: 9, period: '15m' }), ${spaced}`,
    ],
    [slidingLog({ limits }), `policy is slidingLog; use several gcra() by name`],
    [
      slidingWindow({ limit: 2, window: '90s' }),
      `policy is slidingWindow; use gcra({ limit: 2, period: '90s' }), ${spaced}`,
    ],
  ])('%#: the error names the policy that is not a rate', async (policy, message) => {
    const limiter: RateLimiter<GcraPolicy> = anything(new RateLimiter(anything(policy)))
    await expect(limiter.wait('a')).rejects.toMatchObject({ code: 'INVALID_OPTION', message: needs + message })
    expect((await limiter.peek('a', 0)).remaining).toBe((await limiter.peek('a', 0)).capacity)
  })

  test.each([
    [{ maxWait: -1 }, 'INVALID_OPTION', 'maxWait must be a whole number from 0 to 3600000 milliseconds, got -1'],
    [
      { maxWait: 3_600_001 },
      'INVALID_OPTION',
      'maxWait must be a whole number from 0 to 3600000 milliseconds, got 3600001',
    ],
    [{ maxWait: '1d' }, 'INVALID_OPTION', 'whole number from 0 to 3600000 milliseconds, got "1d"'],
    [{ maxWait: '0.5ms' }, 'INVALID_OPTION', 'whole number from 0 to 3600000 milliseconds, got "0.5ms"'],
    [{ maxWait: '5000' }, 'INVALID_OPTION', 'got "5000": write 5000, or \'5000ms\''],
    [{ maxWait: Number.POSITIVE_INFINITY }, 'INVALID_OPTION', 'maxWait must be'],
    [{ cost: 0 }, 'INVALID_COST', 'cost must be a whole number from 1'],
    [{ signal: {} }, 'INVALID_OPTION', 'signal must be an AbortSignal, got an object'],
    [{ signal: null }, 'INVALID_OPTION', 'signal must be an AbortSignal, got null'],
    [{ tag: '' }, 'INVALID_OPTION', 'tag must not be empty'],
    [{ onTooLong: 'ignore' }, 'INVALID_OPTION', "onTooLong must be 'reject' or 'resolve', got \"ignore\""],
    [
      { maxWaitMs: 5 },
      'INVALID_OPTION',
      'wait has no option "maxWaitMs"; did you mean "maxWait"? It takes cost, maxWait, onTooLong, signal, tag',
    ],
    [5, 'INVALID_OPTION', 'wait takes an object of options (cost, maxWait, onTooLong, signal, tag, tier), got 5'],
  ])('%#: %p are not valid options', async (options, code, message) => {
    const limiter = new RateLimiter(PACER)
    const failed = { code, charged: false, message: expect.stringContaining(message) }
    await expect(limiter.wait('a', anything(options))).rejects.toMatchObject(failed)
    expect((await limiter.take('a')).allowed).toBe(true)
  })

  test.each([undefined, 5, ''])('%p is not a key', async (key) => {
    const failed = { code: 'INVALID_KEY', charged: false }
    await expect(new RateLimiter(PACER).wait(anything(key))).rejects.toMatchObject(failed)
  })

  test('a full store schedules on the shared count', async () => {
    const pacer = gcra({ limit: 1, period: '1s', burst: 1 })
    const clock = new TestClock()
    const limiter = new RateLimiter(pacer, { store: new MemoryStore({ maxKeys: 1, clock }) })
    await limiter.take('resident')
    const abort = new AbortController()
    const calls = [limiter.wait('a'), limiter.wait('a', { signal: abort.signal })]
    await clock.advance(1)
    abort.abort()
    const results = await Promise.allSettled(calls)
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    expect((await limiter.take('a')).retryAfterMs).toBe(1_999)
  })
})
