/** Reservations: a take whose hold is settled once. */
import {
  type FixedWindowPolicy,
  fixedWindow,
  type GcraPolicy,
  gcra,
  type Policy,
  RateLimiter,
  type Reservation,
  slidingCounter,
  slidingLog,
} from '../../ts/index.js'
import { anything } from '../failure.js'
import { SAMPLES } from '../policies/samples.js'
import { BACKENDS } from './stores.js'

const { slidingCounter: _, ...RESERVABLE } = SAMPLES
const TEN = Object.entries<Policy>({
  ...RESERVABLE,
  'fixedWindow, countRefused': fixedWindow({ limit: 10, window: '1h', countRefused: true }),
})

const BEFORE = { settled: false, reason: 'settled-before' }

/** A reservation that was allowed. */
function reserved<N extends string>(reservation: Reservation<N>): Extract<Reservation<N>, { readonly allowed: true }> {
  if (!reservation.allowed) {
    throw new Error(`not allowed: ${reservation.decision.status}`)
  }
  return reservation
}

describe.each(BACKENDS)('reserve: $name', (backend) => {
  test.each(TEN)('%s: a commit of fewer units than reserved, of the same number and of more', async (_, policy) => {
    const limiter = backend.limiter(anything(policy)) as unknown as ReturnType<typeof plain>
    const remaining = async () => (await limiter.peek('a', 0)).remaining
    const [first, second, third] = [
      reserved(await limiter.reserve('a', 4)),
      reserved(await limiter.reserve('a', 2)),
      reserved(await limiter.reserve('a', 3)),
    ]
    expect(third.decision).toMatchObject({ status: 'allowed', remaining: 1 })
    expect(first.units).toBe(4)
    expect(await first.commit(1)).toEqual({
      settled: true,
      refunded: 3,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
    expect(await remaining()).toBe(4)
    expect(await second.commit()).toEqual({
      settled: true,
      refunded: 0,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
    expect(await remaining()).toBe(4)
    expect(await third.commit(5)).toEqual({
      settled: true,
      refunded: 0,
      charged: 2,
      owed: 0,
      shortfall: 0,
      late: false,
    })
    expect(await remaining()).toBe(2)
    const last = reserved(await limiter.reserve('a', 1))
    expect(await last.commit(9)).toEqual({ settled: true, refunded: 0, charged: 8, owed: 7, shortfall: 0, late: false })
    expect(await remaining()).toBe(0)
    for (const one of [first, second, third, last]) {
      expect(await one.commit(0)).toEqual(BEFORE)
      expect(await one.cancel()).toEqual(BEFORE)
    }
    expect(await remaining()).toBe(0)
  })

  // The policies for which `reserve` compiles.
  const plain = () => backend.limiter(fixedWindow({ limit: 10, window: '1h' }))

  test('a refused reservation has charged nothing, and cannot be settled', async () => {
    const limiter = plain()
    await limiter.take('a', 7)
    const refused = await limiter.reserve('a', 4)
    expect(refused).toMatchObject({ allowed: false, decision: { allowed: false, status: 'refused', remaining: 3 } })
    expect(Object.keys(refused)).toEqual(['allowed', 'decision'])
    expect((await limiter.reserve('a', 11)).decision.status).toBe('impossible')
    await limiter.block('a', '1m')
    expect((await limiter.reserve('a', 1)).decision.status).toBe('blocked')
    await limiter.unblock('a')
    expect((await limiter.reserve('a', 3)).decision.status).toBe('allowed-last')
  })

  test('a refused reservation counts if refused calls do', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 10, window: '1h', countRefused: true }))
    await limiter.take('a', 7)
    expect((await limiter.reserve('a', 4)).allowed).toBe(false)
    expect((await limiter.peek('a', 0)).remaining).toBe(0)
  })

  test('cancel refunds all units', async () => {
    const limiter = plain()
    const reservation = reserved(await limiter.reserve('a', 10))
    expect(await reservation.cancel()).toEqual({
      settled: true,
      refunded: 10,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
    expect(await reservation.commit(10)).toEqual(BEFORE)
    expect((await limiter.peek('a', 0)).remaining).toBe(10)
  })

  test('of two concurrent calls the first settles', async () => {
    const limiter = plain()
    const reservation = reserved(await limiter.reserve('a', 10))
    const settled = [reservation.commit(7), reservation.cancel(), reservation.commit(9)]
    // It takes effect before later calls.
    const { remaining } = await limiter.take('a')
    expect(await Promise.all(settled)).toEqual([
      { settled: true, refunded: 3, charged: 0, owed: 0, shortfall: 0, late: false },
      BEFORE,
      BEFORE,
    ])
    expect(remaining).toBe(2)
    expect((await limiter.peek('a', 0)).remaining).toBe(2)
  })

  test('an expired reservation counts as spent', async () => {
    const limiter = plain()
    const [early, late] = [
      reserved(await limiter.reserve('a', 2, { ttl: '10s' })),
      reserved(await limiter.reserve('a', 3, { ttl: 40 })),
    ]
    expect(late.expiresAt - late.decision.at).toBeCloseTo(40, 2)
    await backend.pass(40)
    expect(await late.cancel()).toEqual({ settled: true, refunded: 0, charged: 0, owed: 0, shortfall: 0, late: true })
    expect(await late.commit(9)).toEqual(BEFORE)
    expect((await limiter.peek('a', 0)).remaining).toBe(5)
    expect(await early.cancel()).toMatchObject({ refunded: 2 })
  })

  test('a renewed reservation can be settled later', async () => {
    const limiter = plain()
    const reservation = reserved(await limiter.reserve('a', 4, { ttl: '80ms' }))
    const first = reservation.expiresAt
    await backend.pass(30)
    const renewal = await reservation.renew('300ms')
    expect(renewal).toEqual({ renewed: true, expiresAt: reservation.expiresAt })
    expect(reservation.expiresAt).toBe(first + 30 + 300 - 80)
    await backend.pass(60)
    expect(await reservation.commit(1)).toEqual({
      settled: true,
      refunded: 3,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
    expect(await reservation.renew()).toEqual({ renewed: false, reason: 'settled-before' })
    expect((await limiter.peek('a', 0)).remaining).toBe(9)
  })

  test('renew never shortens, defaults to the time of the reservation, and revives nothing', async () => {
    const limiter = plain()
    const reservation = reserved(await limiter.reserve('a', 4, { ttl: '100ms' }))
    const first = reservation.expiresAt
    expect(await reservation.renew('1ms')).toEqual({ renewed: true, expiresAt: first })
    await backend.pass(20)
    expect(await reservation.renew()).toMatchObject({ renewed: true })
    expect(reservation.expiresAt).toBe(first + 20)
    await backend.pass(100)
    expect(await reservation.renew('1h')).toEqual({ renewed: false, reason: 'expired' })
    expect(await reservation.commit(0)).toMatchObject({ settled: true, refunded: 0, late: true })
    expect((await limiter.peek('a', 0)).remaining).toBe(6)
  })

  test('the default hold is a minute', async () => {
    const reservation = reserved(await plain().reserve('a', 3))
    expect(reservation.expiresAt - reservation.decision.at).toBeCloseTo(60_000, 2)
  })

  test('a window that has closed refunds nothing, and missing units are charged now', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 10, window: '500ms' }))
    const [less, more] = [reserved(await limiter.reserve('a', 4)), reserved(await limiter.reserve('a', 4))]
    await backend.pass(500)
    expect((await limiter.take('a', 2)).remaining).toBe(8)
    expect(await less.commit(1)).toEqual({ settled: true, refunded: 0, charged: 0, owed: 0, shortfall: 0, late: false })
    expect(await more.commit(7)).toEqual({ settled: true, refunded: 0, charged: 3, owed: 0, shortfall: 0, late: false })
    expect((await limiter.peek('a', 0)).remaining).toBe(5)
  })

  // promise: settled-once
  test('nothing comes back after a reset', async () => {
    const limiter = plain()
    const reservation = reserved(await limiter.reserve('a', 4))
    await limiter.reset('a')
    expect(await reservation.cancel()).toEqual(BEFORE)
    expect((await limiter.peek('a', 0)).remaining).toBe(10)
  })

  test('a reservation on a blocked key can be settled', async () => {
    const limiter = plain()
    const [less, more] = [reserved(await limiter.reserve('a', 4)), reserved(await limiter.reserve('a', 4))]
    await limiter.block('a', '1h')
    expect(await less.cancel()).toMatchObject({ refunded: 4 })
    expect(await more.commit(9)).toMatchObject({ charged: 5 })
    expect(await limiter.peek('a', 0)).toMatchObject({ status: 'blocked', remaining: 1 })
  })

  test('each policy of a set settles what it can', async () => {
    const limiter = backend.limiter({
      short: fixedWindow({ limit: 6, window: '500ms' }),
      long: slidingLog({ limit: 20, window: '1h' }),
      rate: gcra({ limit: 9, period: '1h' }),
    })
    const remaining = async () => Object.values((await limiter.peek('a', 0)).policies).map((one) => one.remaining)
    const [less, more] = [reserved(await limiter.reserve('a', 3)), reserved(await limiter.reserve('a', 3))]
    expect((await limiter.reserve('a', 1)).decision.policy).toBe('short')
    await backend.pass(500)
    expect(await less.commit(1)).toEqual({ settled: true, refunded: 2, charged: 0, owed: 0, shortfall: 0, late: false })
    expect(await remaining()).toEqual([6, 16, 5])
    expect(await more.commit(20)).toEqual({
      settled: true,
      refunded: 0,
      charged: 17,
      owed: 9,
      shortfall: 0,
      late: false,
    })
    expect(await remaining()).toEqual([0, 0, 0])
  })

  test('policies with different key dimensions settle on the keys of the reservation', async () => {
    const limiter = backend.limiter({
      ip: gcra({ limit: 10, period: '1h', per: 'ip' }),
      account: fixedWindow({ limit: 8, window: '1h', per: 'account' }),
      all: gcra({ limit: 12, period: '1h', per: 'global' }),
    })
    const key = { ip: 'same', account: 'same' }
    const remaining = async () => Object.values((await limiter.peek(key, 0)).policies).map((one) => one.remaining)
    const [less, more] = [reserved(await limiter.reserve(key, 4)), reserved(await limiter.reserve(key, 2))]
    const other = await limiter.reserve({ ip: '2', account: 'same' }, 3)
    expect(other).toMatchObject({ allowed: false, decision: { policy: 'account' } })
    await limiter.take({ ip: '3', account: 'ben' }, 1)
    expect(await remaining()).toEqual([4, 2, 5])
    expect(await less.commit(1)).toMatchObject({ refunded: 3 })
    expect(await remaining()).toEqual([7, 5, 8])
    // The first policy does not count by account.
    await limiter.reset({ account: 'same' })
    expect(await more.commit(5)).toMatchObject({ charged: 3 })
    expect(await remaining()).toEqual([4, 5, 5])
  })

  test('an override applies to the reservation and its settlement', async () => {
    const limiter = plain()
    await limiter.override('a', { limit: 20 }, { ttl: '1h' })
    const reservation = reserved(await limiter.reserve('a', 12))
    // The limiter's own numbers tell how many units may be owed.
    expect(await reservation.commit(30)).toMatchObject({ charged: 18, owed: 10, shortfall: 0 })
  })

  test('its decision cannot be refunded as well', async () => {
    const limiter = plain()
    const { decision } = await limiter.reserve('a', 4)
    await expect(limiter.refund(decision)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  test('invalid arguments are refused', async () => {
    const limiter: RateLimiter<FixedWindowPolicy> = plain()
    for (const units of [0, -1, 1.5, '1', null, undefined]) {
      await expect(limiter.reserve('a', anything(units))).rejects.toMatchObject({ code: 'INVALID_COST' })
    }
    const options = [{ ttl: 0 }, { ttl: '1y' }, { ttl: '25h' }, { expiresin: 5 }, { tag: '' }, 5]
    for (const one of options) {
      await expect(limiter.reserve('a', 1, anything(one))).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    }
    await expect(limiter.reserve('', 1)).rejects.toMatchObject({ code: 'INVALID_KEY' })
    const reservation = reserved(await limiter.reserve('a', 10, { ttl: '1d' }))
    for (const actual of [-1, 1.5, '1', null, Number.NaN]) {
      await expect(reservation.commit(anything(actual))).rejects.toMatchObject({ code: 'INVALID_COST' })
    }
    expect(await reservation.commit(0)).toMatchObject({ refunded: 10 })
  })

  test('a slidingCounter cannot reserve, even within a set', async () => {
    const counter = slidingCounter({ limit: 5, window: '1h' })
    for (const policies of [counter, { one: gcra({ limit: 1, period: 1 }), counter }]) {
      const limiter = backend.limiter(anything(policies)) as unknown as RateLimiter<GcraPolicy>
      await expect(limiter.reserve('a', 1)).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^reserve cannot be used with slidingCounter/),
      })
    }
  })

  test('renew refuses invalid durations', async () => {
    const reservation = reserved(await plain().reserve('a', 1))
    await expect(reservation.renew(anything('2d'))).rejects.toThrow('ttl must be at most \'1d\', got "2d"')
    await expect(reservation.renew(anything(0))).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  test('a closed limiter settles nothing', async () => {
    const limiter = plain()
    const reservation = reserved(await limiter.reserve('a', 4))
    await limiter.close()
    await expect(reservation.cancel()).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(limiter.reserve('a', 4)).rejects.toMatchObject({ code: 'CLOSED' })
  })
})

test('the embedded store keeps at most 10,000 open reservations of a key', async () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 100_000, window: '1d' }))
  const open = await Promise.all(Array.from({ length: 10_000 }, () => limiter.reserve('a', 1)))
  await expect(limiter.reserve('a', 1)).rejects.toMatchObject({ code: 'STORE_FULL', charged: false })
  expect((await limiter.peek('a')).remaining).toBe(90_000)
  expect((await limiter.reserve('b', 1)).allowed).toBe(true)
  await reserved(open[0] as (typeof open)[0]).commit(1)
  expect((await limiter.reserve('a', 1)).allowed).toBe(true)
})
