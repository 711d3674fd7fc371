/** Reservations that grow, and that another process settles by their id. */
import {
  calendarWindow,
  fixedWindow,
  type GcraPolicy,
  gcra,
  type RateLimiter,
  type Reservation,
  slidingCounter,
  slidingLog,
  tiers,
} from '../../ts/index.js'
import { anything, rejectionOf } from '../failure.js'
import { BACKENDS } from './stores.js'

const BEFORE = { settled: false, reason: 'settled-before' }

function reserved<N extends string>(reservation: Reservation<N>): Extract<Reservation<N>, { readonly allowed: true }> {
  if (!reservation.allowed) {
    throw new Error(`not allowed: ${reservation.decision.status}`)
  }
  return reservation
}

const HOURLY = fixedWindow({ limit: 10, window: '1h' })

describe.each(BACKENDS)('extend: $name', (backend) => {
  test('takes further units under the same reservation, as far as they fit', async () => {
    const limiter = backend.limiter(HOURLY)
    const reservation = reserved(await limiter.reserve('a', 2, { ttl: '1m' }))
    const first = reservation.expiresAt
    const extension = await reservation.extend(3, { ttl: '2m' })
    expect(extension).toMatchObject({ extended: true, units: 5, decision: { status: 'allowed', remaining: 5 } })
    expect(reservation.units).toBe(5)
    expect(reservation.expiresAt).toBe(first + 60_000)
    const later = reservation.expiresAt
    expect(await reservation.extend(6)).toMatchObject({
      extended: false,
      reason: 'refused',
      decision: { status: 'refused', remaining: 5 },
    })
    expect(await reservation.extend(11)).toMatchObject({ reason: 'refused', decision: { status: 'impossible' } })
    await limiter.block('a', '1m')
    expect(await reservation.extend(1)).toMatchObject({ reason: 'refused', decision: { status: 'blocked' } })
    await limiter.unblock('a')
    expect([reservation.units, reservation.expiresAt]).toEqual([5, later])
    expect(await reservation.commit(4)).toEqual({
      settled: true,
      refunded: 1,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
    expect((await limiter.peek('a', 0)).remaining).toBe(6)
    expect(await reservation.extend(1)).toEqual({ extended: false, reason: 'settled-before' })
  })

  test('an extension does not shorten the reservation, and lasts as long as the reservation by default', async () => {
    const limiter = backend.limiter(HOURLY)
    const reservation = reserved(await limiter.reserve('a', 1, { ttl: '10m' }))
    const first = reservation.expiresAt
    await reservation.extend(1, { ttl: '1s' })
    expect(reservation.expiresAt).toBe(first)
    await backend.pass(20)
    const extension = await reservation.extend(1)
    expect(extension).toMatchObject({ extended: true, expiresAt: reservation.expiresAt })
    expect(reservation.expiresAt).toBe(first + 20)
  })

  test('a hold that expires in mid-stream is reported, and its units count as spent', async () => {
    const limiter = backend.limiter(HOURLY)
    const reservation = reserved(await limiter.reserve('a', 2, { ttl: '60ms' }))
    expect(await reservation.extend(2)).toMatchObject({ extended: true })
    await backend.pass(70)
    expect(await reservation.extend(1)).toEqual({ extended: false, reason: 'expired' })
    expect(await reservation.renew()).toEqual({ renewed: false, reason: 'expired' })
    expect(await reservation.commit(1)).toMatchObject({ settled: true, refunded: 0, late: true })
    expect(await limiter.settle(reservation.id, 1)).toEqual(BEFORE)
    expect((await limiter.peek('a', 0)).remaining).toBe(6)
  })

  test.each([
    ['fixedWindow', HOURLY],
    ['calendarWindow', calendarWindow({ limit: 10, every: 'month' })],
    ['gcra', gcra({ limit: 10, period: '10h' })],
    ['slidingLog', slidingLog({ limit: 10, window: '1h' })],
  ])('%s: a settlement after several extensions leaves what was used', async (_, policy) => {
    const limiter = backend.limiter(anything(policy)) as unknown as ReturnType<typeof plain>
    const remaining = async () => (await limiter.peek('a', 0)).remaining
    for (const [actual, settlement] of [
      [0, { refunded: 6, charged: 0, owed: 0, shortfall: 0, late: false }],
      [1, { refunded: 5, charged: 0, owed: 0, shortfall: 0, late: false }],
      [6, { refunded: 0, charged: 0, owed: 0, shortfall: 0, late: false }],
      [8, { refunded: 0, charged: 2, owed: 0, shortfall: 0, late: false }],
      [13, { refunded: 0, charged: 7, owed: 3, shortfall: 0, late: false }],
    ] as const) {
      const reservation = reserved(await limiter.reserve('a', 3))
      await reservation.extend(2)
      await reservation.extend(1)
      expect(await remaining()).toBe(4)
      expect(await reservation.commit(actual)).toEqual({ settled: true, ...settlement })
      expect(await remaining()).toBe(Math.max(0, 10 - actual))
      await limiter.reset('a')
    }
  })

  const plain = () => backend.limiter(HOURLY)

  test('a surplus is refunded to the latest charges first, and only while their window is open', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 10, window: '300ms' }))
    const reservation = reserved(await limiter.reserve('a', 6))
    await backend.pass(300)
    expect(await reservation.extend(3)).toMatchObject({ extended: true, units: 9, decision: { remaining: 7 } })
    expect(await reservation.commit(2)).toEqual({
      settled: true,
      refunded: 3,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
    expect((await limiter.peek('a', 0)).remaining).toBe(10)
  })

  test('under several policies and keys', async () => {
    const limiter = backend.limiter({
      ip: gcra({ limit: 10, period: '10h', per: 'ip' }),
      account: fixedWindow({ limit: 8, window: '1h', per: 'account' }),
    })
    const key = { ip: '192.0.2.1', account: 'ann' }
    const reservation = reserved(await limiter.reserve(key, 2))
    expect(await reservation.extend(4)).toMatchObject({ extended: true, units: 6 })
    expect(await reservation.extend(3)).toMatchObject({ reason: 'refused', decision: { policy: 'account' } })
    expect(await limiter.settle(reservation.id, 3)).toMatchObject({ settled: true, refunded: 3 })
    const { policies } = await limiter.peek(key, 0)
    expect([policies.ip.remaining, policies.account.remaining]).toEqual([7, 5])
  })

  test('more than sixteen charges: the units of the oldest ones are not refunded', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 100, window: '1h' }))
    const reservation = reserved(await limiter.reserve('a', 1))
    for (let count = 0; count < 19; count++) {
      expect(await reservation.extend(1)).toMatchObject({ extended: true })
    }
    expect(reservation.units).toBe(20)
    expect(await reservation.cancel()).toEqual({
      settled: true,
      refunded: 16,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
  })

  test('sixteen charges under eight policies, the most that a settlement names', async () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
    const hourly = fixedWindow({ limit: 20, window: '1h' })
    const limiter = backend.limiter(Object.fromEntries(names.map((name) => [name, hourly])))
    const reservation = reserved(await limiter.reserve('k', 1, { ttl: '1m' }))
    for (let charge = 2; charge <= 16; charge++) {
      await reservation.extend(1)
    }
    expect(await reservation.commit(4)).toEqual({
      settled: true,
      refunded: 12,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
  })

  test('calls on one reservation take effect in their order', async () => {
    const limiter = backend.limiter(HOURLY)
    const reservation = reserved(await limiter.reserve('a', 2))
    const results = await Promise.all([
      reservation.extend(3),
      reservation.renew('2m'),
      reservation.commit(4),
      reservation.extend(1),
      reservation.cancel(),
    ])
    expect(results).toMatchObject([
      { extended: true, units: 5 },
      { renewed: true },
      { settled: true, refunded: 1 },
      { extended: false, reason: 'settled-before' },
      BEFORE,
    ])
    expect((await limiter.peek('a', 0)).remaining).toBe(6)
  })

  test('bad input', async () => {
    const reservation = reserved(await backend.limiter(HOURLY).reserve('a', 2))
    expect((await rejectionOf(reservation.extend(0))).code).toBe('INVALID_COST')
    expect((await rejectionOf(reservation.extend(1, anything({ expires: '1m' })))).message).toContain(
      'did you mean "ttl"?',
    )
    expect((await rejectionOf(reservation.extend(1, { ttl: '2d' }))).message).toContain("at most '1d'")
    expect(reservation.units).toBe(2)
  })
})

describe.each(BACKENDS)('settle: $name', (backend) => {
  test('settles a reservation of another limiter, once', async () => {
    const [first, second] = backend.limiterPair(HOURLY)
    const reservation = reserved(await first.reserve('a', 4))
    const { id } = reservation
    expect(id).toMatch(/^[\w-]+$/)
    expect(await second.settle(id, 1)).toEqual({
      settled: true,
      refunded: 3,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
    expect(await second.settle(id, 0)).toEqual(BEFORE)
    expect(await first.settle(id)).toEqual(BEFORE)
    expect(await reservation.commit(4)).toEqual(BEFORE)
    expect((await first.peek('a', 0)).remaining).toBe(9)
  })

  test('of many settlers at once one settles', async () => {
    const [first, second] = backend.limiterPair(HOURLY)
    for (const actual of [1, 7]) {
      await first.reset('a')
      const reservation = reserved(await first.reserve('a', 4))
      const { id } = reservation
      const settlements = await Promise.all([
        second.settle(id, actual),
        reservation.commit(actual),
        first.settle(id, actual),
        second.settle(id, actual),
      ])
      expect(settlements.filter(({ settled }) => settled)).toHaveLength(1)
      expect((await second.peek('a', 0)).remaining).toBe(10 - actual)
    }
  })

  test('an id that was read before an extension charges nothing twice, and refunds what it knows', async () => {
    const limiter = backend.limiter(HOURLY)
    for (const [actual, settlement, remaining] of [
      [7, { refunded: 0, charged: 1, owed: 0, shortfall: 0, late: false }, 3],
      [5, { refunded: 1, charged: 0, owed: 0, shortfall: 0, late: false }, 5],
      [0, { refunded: 2, charged: 0, owed: 0, shortfall: 0, late: false }, 6],
    ] as const) {
      await limiter.reset('a')
      const reservation = reserved(await limiter.reserve('a', 2))
      const { id } = reservation
      await reservation.extend(4)
      expect(await limiter.settle(id, actual)).toEqual({ settled: true, ...settlement })
      expect((await limiter.peek('a', 0)).remaining).toBe(remaining)
      expect(await reservation.cancel()).toEqual(BEFORE)
    }
  })

  test('the default is the number of units of the id', async () => {
    const limiter = backend.limiter(HOURLY)
    const { id } = reserved(await limiter.reserve('a', 4))
    expect(await limiter.settle(id)).toEqual({
      settled: true,
      refunded: 0,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
  })

  test('with tiers and any key', async () => {
    const limiter = backend.limiter(
      tiers({ free: fixedWindow({ limit: 10, window: '1h' }), pro: fixedWindow({ limit: 100, window: '1h' }) }),
    )
    const key = 'ключ {42} 😀'
    const { id } = reserved(await limiter.reserve(key, 40, { tier: 'pro' }))
    expect(await limiter.settle(id, 10)).toMatchObject({ settled: true, refunded: 30 })
    expect((await limiter.peek(key, { cost: 0, tier: 'pro' })).remaining).toBe(90)
  })

  test('an id that is none, or of other policies, is INVALID_OPTION, and the message has no key', async () => {
    const limiter = backend.limiter(HOURLY)
    const { id } = reserved(await limiter.reserve('secret-key', 4))
    const others = backend.limiter({ a: HOURLY, b: gcra({ limit: 10, period: '1h' }) })
    const decoded = JSON.parse(Buffer.from(id, 'base64url').toString()) as unknown[]
    const changed = (index: number, value: unknown) => {
      return Buffer.from(JSON.stringify(decoded.with(index, value))).toString('base64url')
    }
    const invalid: readonly [typeof limiter, unknown][] = [
      [others as unknown as typeof limiter, id],
      [limiter, ''],
      [limiter, 'x'],
      [limiter, 7],
      [limiter, undefined],
      [limiter, id.slice(0, -3)],
      [limiter, Buffer.from('null').toString('base64url')],
      [limiter, changed(0, 1)],
      [limiter, changed(1, [1, 2, 3])],
      [limiter, changed(2, ['a', 'b'])],
      [limiter, changed(2, [7])],
      [limiter, changed(5, 'cache')],
      [limiter, changed(6, -1)],
      [limiter, changed(8, [])],
      [limiter, changed(8, [[1, 2, 3, 4]])],
      [limiter, changed(8, [[1e300, 2, 3]])],
    ]
    for (const [one, value] of invalid) {
      expect(await rejectionOf(one.settle(value as string, 1))).toMatchObject({
        code: 'INVALID_OPTION',
        message: 'id must be the id of a reservation of a limiter with the same policies',
      })
    }
    expect(await rejectionOf(limiter.settle(id, -1))).toMatchObject({ code: 'INVALID_COST' })
    expect(await limiter.settle(id, 4)).toMatchObject({ settled: true })
  })

  test('a forged id settles nothing, and cannot refund more than was reserved', async () => {
    const limiter = backend.limiter(HOURLY)
    await limiter.take('a', 5)
    const { id } = reserved(await limiter.reserve('a', 2))
    const decoded = JSON.parse(Buffer.from(id, 'base64url').toString()) as unknown[]
    const encoded = (parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString('base64url')
    const forged = encoded(decoded.with(1, Array(16).fill(7)))
    expect(await limiter.settle(forged, 0)).toEqual(BEFORE)
    const [[, ...times]] = decoded[8] as [number[]]
    const greedy = encoded(decoded.with(6, 7).with(8, [[7, ...times]]))
    expect(await limiter.settle(greedy, 0)).toMatchObject({ settled: true, refunded: 2 })
    expect((await limiter.peek('a', 0)).remaining).toBe(5)
  })

  test('slidingCounter has no reservations', async () => {
    const limiter = backend.limiter(slidingCounter({ limit: 10, window: '1h' })) as unknown as RateLimiter<GcraPolicy>
    expect((await rejectionOf(limiter.settle('id'))).message).toContain('settle cannot be used with slidingCounter')
  })
})
