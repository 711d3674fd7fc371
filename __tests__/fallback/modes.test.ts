/** The result of each operation in each mode of `onStoreFailure`, in each kind of outage. */
import { concurrency, fixedWindow, gcra, slidingLog, tokenBucket } from '../../ts/index.js'
import { rejectionOf } from '../failure.js'
import { failing, fallbackLimiter, knownDown } from './help.js'

const POLICY = gcra({ limit: 100, period: '1h', burst: 20 })
/** A quarter of it: bursts of 5. */
const QUARTER = { embedded: { share: 0.25 } } as const

const OUTAGES = [failing(), knownDown()]

describe.each(OUTAGES)('$name', (away) => {
  test.each(['throw', 'allow', 'refuse', QUARTER] as const)('take returns a promise: %j', async (mode) => {
    const answer = fallbackLimiter(away.store(), POLICY, mode).take('a')
    expect(answer).toBeInstanceOf(Promise)
    await answer.catch(() => {})
  })

  describe.each([
    ['allow', true, 0],
    ['refuse', false, 1_000],
  ] as const)('%s', (mode, allowed, retryAfterMs) => {
    const status = allowed ? 'allowed' : 'refused'
    const open = () => fallbackLimiter(away.store(), POLICY, mode)

    test('take resolves accordingly, without numbers, whatever the cost', async () => {
      const before = Date.now()
      const decision = await open().take('a', 1_000)
      const numbers = {
        limit: 100,
        capacity: 20,
        used: 0,
        remaining: 0,
        retryAfterMs,
        nextAfterMs: retryAfterMs,
        resetAfterMs: 0,
      }
      expect(decision).toEqual({
        allowed,
        status,
        policy: 'default',
        ...numbers,
        policies: { default: numbers },
        at: decision.at,
        retryAt: decision.at + retryAfterMs,
        resetAt: decision.at,
        source: 'none',
      })
      expect(decision.at).toBeGreaterThanOrEqual(before)
      expect(decision.at).toBeLessThanOrEqual(Date.now())
    })

    test('takeMany resolves accordingly for each key, takeUpTo with all units, and peek with a decision', async () => {
      const limiter = open()
      const many = await limiter.takeMany(['a', 'b', 'a'], [1, 2, 1_000])
      expect(many.map(({ status, source }) => [status, source])).toEqual(Array(3).fill([status, 'none']))
      expect(await limiter.takeUpTo('a', 700)).toMatchObject({ status, source: 'none', granted: allowed ? 700 : 0 })
      expect(await limiter.peek('a', 0)).toMatchObject({ status, source: 'none' })
    })

    test('wait resolves immediately', async () => {
      const limiter = open()
      const call = { cost: 1_000 }
      const answer = { status, source: 'none', waitedMs: 0 }
      expect(await limiter.wait('a', { ...call, onTooLong: 'resolve' })).toMatchObject(answer)
      if (allowed) {
        expect(await limiter.wait('a', call)).toMatchObject(answer)
        return
      }
      expect(await rejectionOf(limiter.wait('a', call))).toMatchObject({
        code: 'WAIT_TOO_LONG',
        charged: false,
        message:
          "the store is down, and onStoreFailure schedules no slot for this call; try again later, or use onTooLong: 'resolve'",
        decision: { ...answer, retryAfterMs: 1_000 },
      })
    })

    test('a reservation is made or refused, and settling it has no effect', async () => {
      const limiter = open()
      const reservation = await limiter.reserve('a', 7)
      expect(reservation).toMatchObject({ allowed, decision: { status, source: 'none' } })
      const settled = { settled: true, refunded: 0, charged: 0, owed: 0, shortfall: 0, late: false }
      if (reservation.allowed) {
        expect(await reservation.renew('1h')).toMatchObject({ renewed: true })
        expect(await reservation.commit(9)).toEqual(settled)
        expect(await reservation.cancel()).toEqual({ settled: false, reason: 'settled-before' })
      }
      const another = await limiter.reserve('a', 7)
      expect(another.allowed ? await another.cancel() : settled).toEqual(settled)
    })

    // promise: follows-on-store-failure
    test('penalize charges nothing, and a refund gives nothing back', async () => {
      const limiter = open()
      expect(await limiter.penalize('a', 5)).toBe(0)
      for (const decision of [
        await limiter.take('a', 3),
        await limiter.takeUpTo('a', 3),
        await limiter.wait('a', { onTooLong: 'resolve' }),
      ]) {
        expect(await limiter.refund(decision)).toBe(0)
      }
    })
  })

  describe('an embedded share', () => {
    const open = () => fallbackLimiter(away.store(), POLICY, QUARTER)

    test('the share decides take', async () => {
      const limiter = open()
      const decision = await limiter.take('a', 4)
      // A quarter of 100 an hour.
      const numbers = {
        limit: 25,
        capacity: 5,
        used: 4,
        remaining: 1,
        retryAfterMs: 0,
        nextAfterMs: 0,
        resetAfterMs: 576_000,
      }
      expect(decision).toEqual({
        allowed: true,
        status: 'allowed',
        policy: 'default',
        ...numbers,
        policies: { default: numbers },
        at: expect.any(Number),
        retryAt: Math.ceil(decision.at),
        resetAt: Math.ceil(decision.at + 576_000),
        source: 'fallback',
      })
      expect(await limiter.take('a', 2)).toMatchObject({ status: 'refused', source: 'fallback', remaining: 1 })
      expect(await limiter.take('a', { cost: 1, tag: 'b' })).toMatchObject({ status: 'allowed-last' })
      expect(await limiter.take('a', 21)).toMatchObject({ status: 'impossible', source: 'fallback' })
    })

    test('a cost that the share can never admit, and the limiter can, is refused with a time to try again', async () => {
      const limiter = open()
      const undecided = { status: 'refused', retryAfterMs: 1_000, source: 'none', capacity: 20 }
      const never = { status: 'impossible', retryAfterMs: null, source: 'fallback', capacity: 5 }
      for (const [cost, expected] of [
        [6, undecided],
        [20, undecided],
        [21, never],
      ] as const) {
        expect(await limiter.take('a', cost)).toMatchObject(expected)
        expect(await limiter.take('a', { cost, tag: 'b' })).toMatchObject(expected)
        expect(await limiter.peek('a', cost)).toMatchObject(expected)
        expect(await limiter.takeMany(['a', 'b'], [cost, 1])).toMatchObject([expected, { status: 'allowed' }])
        expect(await limiter.reserve('a', cost)).toMatchObject({ allowed: false, decision: expected })
        const { code, decision } = await rejectionOf(limiter.wait('a', { cost }))
        expect([code, decision]).toEqual(['WAIT_TOO_LONG', expect.objectContaining(expected)])
      }
      expect(await limiter.takeUpTo('a', 20)).toMatchObject({ granted: 5, source: 'fallback' })
      // Refusals took nothing, and an extension is one of the calls.
      const reserved = await limiter.reserve('c', 1)
      const extend = (units: number) => reserved.allowed && reserved.extend(units)
      expect(await extend(20)).toMatchObject({ extended: false, reason: 'refused', decision: undecided })
      expect(await extend(21)).toMatchObject({ extended: false, reason: 'refused', decision: never })
      expect(await extend(4)).toMatchObject({ extended: true, units: 5 })
    })

    test('of several limits, the ones without room in the share decide', async () => {
      const policies = {
        burst: gcra({ limit: 100, period: '1h', burst: 8 }),
        daily: fixedWindow({ limit: 40, window: '1d' }),
      }
      const limiter = fallbackLimiter(away.store(), policies, QUARTER)
      expect(await limiter.take('a', 3)).toMatchObject({ status: 'refused', source: 'none' })
      expect(await limiter.take('a', 9)).toMatchObject({ status: 'impossible', policy: 'burst', source: 'fallback' })
      expect(await limiter.take('a', 2)).toMatchObject({ allowed: true, source: 'fallback' })
    })

    test('an override of the share counts, too: its numbers may admit more than the limiter does', async () => {
      const limiter = fallbackLimiter(away.store(), fixedWindow({ limit: 20, window: '1h' }), QUARTER)
      expect(await limiter.override('a', { limit: 42 }, { ttl: '1h' })).toBe('fallback')
      expect(await limiter.take('a', 42)).toMatchObject({ status: 'refused', source: 'none' })
      expect(await limiter.take('a', 44)).toMatchObject({ status: 'impossible', source: 'fallback' })
      expect(await limiter.take('a', 10)).toMatchObject({ status: 'allowed-last', source: 'fallback' })
    })

    test('a permit of more units than the share has is refused, with a time', async () => {
      const limiter = fallbackLimiter(away.store(), concurrency({ limit: 8 }), QUARTER)
      const refused = { allowed: false, decision: { status: 'refused', retryAfterMs: 1_000, source: 'none' } }
      expect(await limiter.acquire('a', { cost: 8 })).toMatchObject(refused)
      expect(await limiter.acquire('a', { cost: 8, maxWait: '1h' })).toMatchObject(refused)
      expect(await limiter.acquire('a', { cost: 9 })).toMatchObject({ decision: { status: 'impossible' } })
      await using permit = await limiter.acquire('a', { cost: 2 })
      expect(permit.allowed).toBe(true)
    })

    test('the share decides takeMany, takeUpTo, peek and penalize', async () => {
      const limiter = open()
      const many = await limiter.takeMany(['a', 'b', 'a'], [3, 1, 3])
      expect(many.map(({ status, source }) => `${status} ${source}`)).toEqual([
        'allowed fallback',
        'allowed fallback',
        'refused fallback',
      ])
      expect(await limiter.takeUpTo('a', 9)).toMatchObject({ granted: 2, source: 'fallback' })
      expect(await limiter.penalize('b', 9)).toBe(4)
      expect(await limiter.peek('b', 0)).toMatchObject({ remaining: 0, source: 'fallback' })
    })

    // promise: follows-on-store-failure
    test('wait schedules a slot of the share', async () => {
      // With a quarter there is a token every 40 ms.
      const limiter = fallbackLimiter(away.store(), gcra({ limit: 100, period: '1s', burst: 4 }), QUARTER)
      const waits = await Promise.all([1, 2, 3].map(() => limiter.wait('a')))
      expect(waits.map(({ source }) => source)).toEqual(['fallback', 'fallback', 'fallback'])
      expect(waits[0]?.waitedMs).toBe(0)
      // The calls may not have been scheduled at the same time.
      const slots = waits.map(({ at, waitedMs }) => Math.round(at * 1_000) + Math.round(waitedMs * 1_000))
      for (const [index, slot] of slots.slice(1).entries()) {
        expect(slot - (slots[index] as number)).toBeGreaterThanOrEqual(40_000)
      }
      const { code, decision } = await rejectionOf(limiter.wait('a', { cost: 5 }))
      expect(code).toBe('WAIT_TOO_LONG')
      expect(decision).toMatchObject({ status: 'impossible', source: 'fallback' })
    })

    test('an aborted wait returns its slot to the share', async () => {
      const limiter = fallbackLimiter(away.store(), gcra({ limit: 100, period: '1h', burst: 4 }), QUARTER)
      const full = await limiter.take('a')
      const abort = new AbortController()
      const wait = limiter.wait('a', { maxWait: 3_600_000, signal: abort.signal })
      // It fails first in the kinds of outage where calls fail.
      await limiter.peek('b')
      abort.abort()
      await expect(wait).rejects.toMatchObject({ code: 'ABORTED' })
      const { resetAfterMs } = await limiter.peek('a', 0)
      expect(resetAfterMs).toBeLessThanOrEqual(full.resetAfterMs)
    })

    test('units of the share are returned to the share', async () => {
      const limiter = open()
      const remaining = async () => (await limiter.peek('a', 0)).remaining
      const decision = await limiter.take('a', 4)
      expect(await limiter.refund(decision, 3)).toBe(3)
      expect(await limiter.refund(decision)).toBe(1)
      expect(await limiter.refund(decision)).toBe(0)
      expect(await limiter.refund(await limiter.takeUpTo('a', 3))).toBe(3)
      expect(await limiter.refund(await limiter.wait('a', { cost: 2 }))).toBe(2)
      const [one] = await limiter.takeMany(['a'], 5)
      expect(await limiter.refund(one as typeof decision)).toBe(5)
      expect(await remaining()).toBe(5)
      const reservation = await limiter.reserve('a', 3)
      expect(reservation.allowed && (await reservation.commit(1))).toEqual({
        settled: true,
        refunded: 2,
        charged: 0,
        owed: 0,
        shortfall: 0,
        late: false,
      })
      expect(await remaining()).toBe(4)
      const other = await limiter.reserve('a', 1)
      expect(other.allowed && (await other.commit(3))).toEqual({
        settled: true,
        refunded: 0,
        charged: 2,
        owed: 0,
        shortfall: 0,
        late: false,
      })
      expect(await remaining()).toBe(1)
    })
  })

  test('several policies, keys with parts, and named limits', async () => {
    const policies = {
      ip: tokenBucket({ capacity: 8, debt: 4, refill: { tokens: 1, every: '1h' }, per: 'ip' }),
      all: gcra({ limit: 12, period: '1h', per: 'global' }),
    }
    const login = fallbackLimiter(away.store(), policies, QUARTER)
    expect(await login.take({ ip: 'a' }, 3)).toMatchObject({
      status: 'allowed-last',
      source: 'fallback',
      policies: { ip: { limit: 2, capacity: 3, remaining: 0 }, all: { limit: 3, capacity: 3, remaining: 0 } },
    })
    const [other] = await login.takeMany([{ ip: 'b' }])
    expect(other).toMatchObject({ status: 'refused', policy: 'all', source: 'fallback' })
    const open = fallbackLimiter(away.store(), policies, 'allow')
    const unknown = { capacity: 12, used: 0, remaining: 0, retryAfterMs: 0, resetAfterMs: 0 }
    expect(await open.take({ ip: 'a' })).toMatchObject({
      policy: 'ip',
      limit: 8,
      policies: { ip: { limit: 8, ...unknown }, all: { limit: 12, ...unknown } },
      source: 'none',
    })
    const limits = { short: { limit: 4, window: '1m' }, long: { limit: 40, window: '1h' } } as const
    const logs = fallbackLimiter(away.store(), slidingLog({ limits }), 'refuse')
    expect(await logs.take('a')).toMatchObject({
      policy: 'short',
      limit: 4,
      policies: { short: { limit: 4, remaining: 0, retryAfterMs: 1000 }, long: { limit: 40, remaining: 0 } },
      source: 'none',
    })
    const both = fallbackLimiter(
      away.store(),
      { logs: slidingLog({ limits }), rate: gcra({ limit: 7, period: '1s' }) },
      'allow',
    )
    const { policies: numbers } = await both.take('a')
    expect([numbers['logs.short'].limit, numbers['logs.long'].limit, numbers.rate.limit]).toEqual([4, 40, 7])
  })

  test.each(['allow', 'refuse', QUARTER] as const)("%p: a caller's mistake stays an error", async (mode) => {
    const limiter = fallbackLimiter(away.store(), POLICY, mode)
    const bad = [42, '', '\ud800', 'x'.repeat(1_025), undefined] as string[]
    for (const key of bad) {
      for (const call of [
        limiter.take(key),
        limiter.take(key, { tag: 'a' }),
        limiter.takeUpTo(key, 1),
        limiter.peek(key),
        limiter.penalize(key),
        limiter.reserve(key, 1),
        limiter.wait(key),
      ]) {
        await expect(call).rejects.toMatchObject({ code: 'INVALID_KEY' })
      }
    }
    await expect(limiter.take('a', 0)).rejects.toMatchObject({ code: 'INVALID_COST' })
    const { results } = await rejectionOf(limiter.takeMany(['a', '', 'b']))
    const source = typeof mode === 'string' ? 'none' : 'fallback'
    expect(results).toMatchObject([{ source }, { code: 'INVALID_KEY' }, { source }])
    const own = fallbackLimiter(away.store(), POLICY, mode)
    await expect(limiter.refund(await own.take('a'))).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await own.close()
    await expect(own.take('a')).rejects.toMatchObject({ code: 'CLOSED' })
  })
})
