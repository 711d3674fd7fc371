/** `TestClock`: the embedded store, waits, permits, reservations and outgoing calls follow it. */
import { OutgoingClient } from '../../ts/client/index.js'
import {
  calendarWindow,
  concurrency,
  fixedWindow,
  gcra,
  MemoryStore,
  type Policies,
  type Policy,
  RateLimiter,
  tokenBucket,
} from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'

const START = Date.UTC(2026, 0, 1)

const limiterOf = <const P extends Policy | Policies>(policy: P, clock = new TestClock()) => {
  return { clock, limiter: new RateLimiter(policy, { store: new MemoryStore({ clock }) }) }
}

describe('the store', () => {
  test('decides by the clock, which stands still', async () => {
    const { clock, limiter } = limiterOf(fixedWindow({ limit: 2, window: '1m' }))
    expect(await limiter.take('a')).toMatchObject({ at: START, resetAfterMs: 60_000 })
    expect(limiter.takeSync('a').allowed).toBe(true)
    const refused = await limiter.take('a')
    expect(refused).toMatchObject({ allowed: false, at: START, retryAfterMs: 60_000 })
    await clock.advance('59999ms')
    expect((await limiter.take('a')).allowed).toBe(false)
    await clock.advance(1)
    expect(await limiter.take('a')).toMatchObject({ allowed: true, at: START + 60_000 })
  })

  test('blocks and overrides end by the clock', async () => {
    const { clock, limiter } = limiterOf(gcra({ limit: 10, period: '1m' }))
    await limiter.block('a', '1h')
    await limiter.override('b', { limit: 20 }, { ttl: '1h' })
    await clock.advance('59m')
    expect((await limiter.take('a')).status).toBe('blocked')
    expect((await limiter.take('b')).limit).toBe(20)
    await clock.advance('1m')
    expect((await limiter.take('a')).status).toBe('allowed')
    expect((await limiter.take('b')).limit).toBe(10)
  })

  test('a calendar day of a zone ends where its clock says', async () => {
    const policy = calendarWindow({ limit: 1, every: 'day', timeZone: 'Europe/Berlin' })
    const { clock, limiter } = limiterOf(policy, new TestClock('2026-03-29T00:00+01:00'))
    expect((await limiter.take('a')).allowed).toBe(true)
    await clock.advance('22h')
    expect((await limiter.take('a')).allowed).toBe(false)
    // The day has 23 hours.
    await clock.advanceTo('2026-03-30T00:00+02:00')
    expect((await limiter.take('a')).allowed).toBe(true)
  })
})

describe('waits', () => {
  test('wait resolves at its slot', async () => {
    const { clock, limiter } = limiterOf(gcra({ limit: 1, period: '10s', burst: 1 }))
    const times: number[] = []
    const calls = [1, 2, 3].map(() => limiter.wait('a').then(() => times.push(clock.now() - START)))
    await clock.advance('10s')
    expect(times).toEqual([0, 10_000])
    await clock.advance('1h')
    expect(times).toEqual([0, 10_000, 20_000])
    await Promise.all(calls)
    expect(clock.now()).toBe(START + 3_610_000)
  })

  test('advanceUntil advances to the time at which a promise settles, and no further', async () => {
    const { clock, limiter } = limiterOf(tokenBucket({ capacity: 1, refill: { tokens: 1, every: '10s' } }))
    await limiter.take('a')
    const decision = await clock.advanceUntil(limiter.wait('a'))
    expect(decision.waitedMs).toBe(10_000)
    expect(clock.now()).toBe(START + 10_000)
    await expect(clock.advanceUntil(limiter.wait('a', { maxWait: 10 }))).rejects.toMatchObject({
      code: 'WAIT_TOO_LONG',
    })
    expect(clock.now()).toBe(START + 10_000)
  })

  test('advanceUntil waits for what needs no timer, and fails if the time is too short', async () => {
    const { clock, limiter } = limiterOf(gcra({ limit: 1, period: '10s', burst: 1 }))
    // A promise of the real world.
    expect(await clock.advanceUntil(new Promise((resolve) => setTimeout(() => resolve('read'), 20)))).toBe('read')
    expect(clock.now()).toBe(START)
    await limiter.take('a')
    const call = limiter.wait('a')
    await expect(clock.advanceUntil(call, { within: '9s' })).rejects.toThrow(
      'advanceUntil: within must be at least the time that the promise takes, got "9s"',
    )
    expect((await clock.advanceUntil(call)).allowed).toBe(true)
  })
})

describe('permits and reservations', () => {
  test('a permit is renewed while the clock advances, and is lost if the key is reset', async () => {
    const { clock, limiter } = limiterOf(concurrency({ limit: 1, ttl: '30s' }))
    const permit = await limiter.acquire('a')
    const signal = permit.allowed ? permit.signal : undefined
    await clock.advance('1h')
    expect(signal?.aborted).toBe(false)
    expect((await limiter.acquire('a')).allowed).toBe(false)
    await limiter.reset('a')
    await clock.advance('30s')
    expect(signal).toMatchObject({ aborted: true, reason: { code: 'PERMIT_LOST' } })
    await limiter.close()
    expect(clock.timerCount).toBe(0)
  })

  test('acquire waits for a permit, or for maxWait', async () => {
    const { clock, limiter } = limiterOf(concurrency({ limit: 1 }))
    const first = await limiter.acquire('a')
    const [early, late] = [limiter.acquire('a', { maxWait: 5_000 }), limiter.acquire('a', { maxWait: 20_000 })]
    expect((await clock.advanceUntil(early)).allowed).toBe(false)
    expect(clock.now()).toBe(START + 5_000)
    await (first.allowed && first.release())
    const second = await clock.advanceUntil(late)
    expect(second.allowed).toBe(true)
    await limiter.close()
  })

  test('a reservation expires', async () => {
    const { clock, limiter } = limiterOf(fixedWindow({ limit: 10, window: '1h' }))
    const late = await limiter.reserve('a', 5, { ttl: '5m' })
    const early = await limiter.reserve('a', 5, { ttl: '5m' })
    await clock.advance('4m')
    expect(early.allowed && (await early.commit(1))).toMatchObject({ settled: true, refunded: 4 })
    await clock.advance('1m')
    expect(late.allowed && (await late.commit(1))).toMatchObject({ settled: true, refunded: 0, late: true })
  })
})

describe('outgoing calls', () => {
  test('the client waits, retries and pauses by the clock', async () => {
    const { clock, limiter } = limiterOf(gcra({ limit: 2, period: '1m', burst: 1 }))
    const answers = [new Response(null, { status: 429, headers: { 'Retry-After': '600' } }), new Response('done')]
    const sent: number[] = []
    const fetch = async () => {
      sent.push(clock.now() - START)
      return answers.shift() as Response
    }
    const api = new OutgoingClient({ limiter, clock, fetch, maxWait: '1h' })
    const response = await clock.advanceUntil(api.fetch('https://api.example.com/'))
    expect(await response.text()).toBe('done')
    expect(sent).toEqual([0, 600_000])
    await clock.advanceUntil(api.close())
  })

  test('a date in Retry-After is read by the clock', async () => {
    const { clock, limiter } = limiterOf(gcra({ limit: 100, period: '1s' }))
    const answers = [{ 'Retry-After': new Date(START + 90_000).toUTCString() }, undefined]
    const fetch = async () => {
      const headers = answers.shift()
      return new Response(null, { status: headers === undefined ? 200 : 429, headers: headers ?? {} })
    }
    const api = new OutgoingClient({ limiter, clock, fetch, maxWait: '1h' })
    const { status } = await clock.advanceUntil(api.fetch('https://api.example.com/'))
    expect([status, clock.now() - START]).toEqual([200, 90_000])
  })
})

describe('timers', () => {
  test('run in the order of their times, each at its time', async () => {
    const clock = new TestClock(START)
    const log: string[] = []
    const note = (name: string) => () => log.push(`${name} ${clock.now() - START}`)
    clock.setTimeout(note('late'), 300)
    const interval = clock.setInterval(note('interval'), 100)
    clock.setTimeout(note('first at 100'), 100)
    clock.clearTimeout(clock.setTimeout(note('cleared'), 50))
    clock.setTimeout(() => clock.setTimeout(note('nested'), 0), 10)
    await clock.advance(250)
    expect(log).toEqual(['nested 11', 'interval 100', 'first at 100 100', 'interval 200'])
    expect(clock.timerCount).toBe(2)
    clock.clearInterval(interval)
    await clock.advance('1h')
    expect(log.slice(4)).toEqual(['late 300'])
    expect(clock.timerCount).toBe(0)
  })

  test('several calls of advance at a time do not set the clock back', async () => {
    const clock = new TestClock(START)
    await Promise.all([clock.advance('1m'), clock.advance('1s')])
    expect(clock.now()).toBe(START + 60_000)
  })

  test('faked timers of the platform do not stop it, nor an outgoing call without a clock', async () => {
    jest.useFakeTimers()
    try {
      const { clock, limiter } = limiterOf(gcra({ limit: 1, period: '10s', burst: 1 }))
      await limiter.take('a')
      expect((await clock.advanceUntil(limiter.wait('a'))).waitedMs).toBe(10_000)
      const api = new OutgoingClient({
        limiter: new RateLimiter(gcra({ limit: 1, period: '20ms', burst: 1 })),
        key: 'a',
      })
      expect(await Promise.all([1, 2].map((value) => api.schedule(() => value)))).toEqual([1, 2])
      await api.close()
    } finally {
      jest.useRealTimers()
    }
  })
})

test.each([
  [() => new TestClock('tomorrow'), "start must be a Date, epoch milliseconds, or a text such as '2026-03-29T02:00Z'"],
  // Without a zone it would be the time of the machine.
  [() => new TestClock('2026-01-01T10:00'), 'from 1970 on, got "2026-01-01T10:00"'],
  [() => new TestClock(-1), 'start must be'],
  [() => new TestClock(new Date(Number.NaN)), 'start must be'],
  [() => new TestClock().advance(-1), 'advance: duration must be a duration above 0'],
  [() => new TestClock().advance('1 fortnight' as never), 'advance: duration must be'],
  [
    () => new TestClock().advanceTo('2025-12-31'),
    'must not be earlier than the clock, which shows 2026-01-01T00:00:00.',
  ],
  [() => new TestClock().advanceUntil(1 as never), 'advanceUntil: promise must be a promise, got 1'],
  [() => new TestClock().advanceUntil(Promise.resolve(), { max: 1 } as never), 'max'],
  [() => new MemoryStore({ clock: { now: () => 1 } as never }), 'or a TestClock of tollgate/testing'],
])('%s is an error', async (run, message) => {
  await expect(async () => run()).rejects.toThrow(message)
})
