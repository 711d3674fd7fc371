/** Units that are used although they did not fit: they are owed, and later calls wait until they are paid. */
import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  type Reservation,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../ts/index.js'
import { anything } from '../failure.js'
import { BACKENDS } from './stores.js'

/** A reservation that was allowed. */
function reserved<R extends { readonly allowed: boolean }>(reservation: R): Extract<R, { readonly allowed: true }> {
  if (!reservation.allowed) {
    throw new Error('not allowed')
  }
  return reservation as Extract<R, { readonly allowed: true }>
}

/** The reservation of a unit that uses `actual` units. */
async function use(limiter: { reserve(key: string, units: number): Promise<Reservation> }, actual: number) {
  return reserved(await limiter.reserve('a', 1)).commit(actual)
}

describe.each(BACKENDS)('owed units: $name', (backend) => {
  // promise: used-units-exceed-no-law
  test('calls that reserve 1 and use 175, five at a time, use 6,000 an hour and what is owed', async () => {
    const limiter = backend.limiter(gcra({ limit: 6_000, period: '1h' }))
    let used = 0
    for (let round = 0; round < 300; round++) {
      const reservations = await Promise.all(Array.from({ length: 5 }, () => limiter.reserve('a', 1)))
      const admitted = reservations.filter((one) => one.allowed).map(reserved)
      const settled = await Promise.all(admitted.map((one) => one.commit(175)))
      for (const one of settled) {
        expect(one).toMatchObject({ settled: true, shortfall: 0 })
        used += 175
      }
      await backend.pass(12_000)
    }
    // An hour has passed: a full burst, an hour's units, and the owed ones of five calls.
    expect(used).toBeGreaterThan(11_000)
    expect(used).toBeLessThanOrEqual(6_000 + 6_000 + 5 * 174)
  })

  // promise: late-settlements-charge
  test('a settlement after the end of the reservation charges what was used', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 10_000, window: '1h' }))
    const reservation = reserved(await limiter.reserve('a', 500, { ttl: '1s' }))
    await backend.pass(1_300)
    const settlement = { settled: true, refunded: 0, charged: 2_500, owed: 0, shortfall: 0, late: true }
    expect(await limiter.settle(reservation.id, 3_000)).toEqual(settlement)
    expect((await limiter.peek('a', 0)).remaining).toBe(7_000)
    expect(await reservation.commit(3_000)).toEqual({ settled: false, reason: 'settled-before' })
    const forgotten = reserved(await limiter.reserve('a', 500, { ttl: '1s' }))
    await backend.pass(3_601_000)
    expect(await forgotten.commit(3_000)).toEqual({ settled: false, reason: 'expired' })
  })

  test.each([
    ['gcra', gcra({ limit: 100, period: '1m' })],
    ['tokenBucket', tokenBucket({ capacity: 100, refill: { tokens: 100, every: '1m' } })],
    ['interval', tokenBucket({ capacity: 100, refill: { tokens: 100, every: '1m' }, refillMode: 'interval' })],
    ['leakyBucket', leakyBucket({ capacity: 100, leak: { units: 100, every: '1m' } })],
    ['fixedWindow', fixedWindow({ limit: 100, window: '1m' })],
    ['slidingWindow', slidingWindow({ limit: 100, window: '1m', buckets: 60 })],
    ['slidingLog', slidingLog({ limit: 100, window: '1m' })],
  ])('%s: the wait that a refusal tells is enough, and one millisecond less is not', async (_, policy) => {
    const limiter = backend.limiter(anything({ ...policy, maxOwed: 400 })) as unknown as ReturnType<typeof plain>
    expect(await use(limiter, 130)).toMatchObject({ charged: 129, owed: 30, shortfall: 0 })
    const refused = await limiter.take('a', 20)
    expect(refused).toMatchObject({ status: 'refused', remaining: 0 })
    const { retryAfterMs } = refused as { readonly retryAfterMs: number }
    expect(await limiter.peek('a', 20)).toMatchObject({ status: 'refused', remaining: 0, retryAfterMs })
    await backend.pass(retryAfterMs - 1)
    expect(await limiter.peek('a', 20)).toMatchObject({ status: 'refused' })
    await backend.pass(1)
    expect((await limiter.take('a', 20)).allowed).toBe(true)
  })

  const plain = () => backend.limiter(fixedWindow({ limit: 100, window: '1m' }))

  test('who owes more than a window waits for as many windows; idle time pays', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 100, window: '1m', maxOwed: 400 }))
    expect(await use(limiter, 250)).toMatchObject({ charged: 249, owed: 150, shortfall: 0 })
    const refused = await limiter.take('a')
    expect(refused).toMatchObject({ status: 'refused', remaining: 0, retryAfterMs: 120_000 })
    await backend.pass(120_000)
    expect(await limiter.take('a')).toMatchObject({ allowed: true, remaining: 49 })
    // Nobody calls for a long time.
    await backend.pass(60_000)
    expect(await use(limiter, 500)).toMatchObject({ charged: 499, owed: 400, shortfall: 0 })
    await backend.pass(600_000)
    expect(await limiter.take('a')).toMatchObject({ allowed: true, remaining: 99, resetAfterMs: 60_000 })
  })

  test('calendar windows are paid one by one', async () => {
    const limiter = backend.limiter(calendarWindow({ limit: 100, every: '1h', maxOwed: 150 }))
    const untilNext = () => backend.pass(3_600_000 - (backend.now() % 3_600_000))
    expect(await use(limiter, 250)).toMatchObject({ charged: 249, owed: 150 })
    await untilNext()
    expect(await limiter.take('a')).toMatchObject({ status: 'refused', remaining: 0 })
    await untilNext()
    expect(await limiter.take('a')).toMatchObject({ allowed: true, remaining: 49 })
  })

  test('what exceeds maxOwed is a shortfall, and without it nothing is owed', async () => {
    const some = backend.limiter(fixedWindow({ limit: 100, window: '1m', maxOwed: 30 }))
    expect(await use(some, 150)).toMatchObject({ charged: 129, owed: 30, shortfall: 20 })
    const none = backend.limiter(fixedWindow({ limit: 100, window: '1m', maxOwed: 0 }))
    expect(await use(none, 150)).toMatchObject({ charged: 99, owed: 0, shortfall: 50 })
    await backend.pass(60_000)
    expect(await none.take('a')).toMatchObject({ allowed: true, remaining: 99 })
  })

  test('a penalty is owed only with maxOwed', async () => {
    const [plainly, owing] = [plain(), backend.limiter(fixedWindow({ limit: 100, window: '1m', maxOwed: 50 }))]
    expect(await plainly.penalize('a', 120)).toBe(100)
    expect(await owing.penalize('a', 120)).toBe(120)
    await backend.pass(60_000)
    expect((await plainly.peek('a', 0)).remaining).toBe(100)
    expect((await owing.peek('a', 0)).remaining).toBe(80)
  })

  test('refunded units pay what is owed, and a reset forgets it', async () => {
    const limiter = plain()
    const decision = await limiter.take('a', 60)
    expect(await use(limiter, 70)).toMatchObject({ owed: 30 })
    expect(await limiter.refund(decision, 50)).toBe(50)
    expect((await limiter.peek('a', 0)).remaining).toBe(20)
    expect(await use(limiter, 120)).toMatchObject({ owed: 100 })
    await limiter.reset('a')
    expect((await limiter.peek('a', 0)).remaining).toBe(100)
  })

  test('a meter is owed by itself, and calls that cost it nothing are admitted', async () => {
    const limiter = backend.limiter({
      calls: fixedWindow({ limit: 100, window: '1h' }),
      tokens: fixedWindow({ limit: 1_000, window: '1m', meter: 'tokens' }),
    })
    const reservation = reserved(await limiter.reserve('a', { tokens: 900 }))
    expect(await reservation.commit({ tokens: 1_500 })).toEqual({
      settled: true,
      refunded: { calls: 0, tokens: 0 },
      charged: { calls: 0, tokens: 600 },
      owed: { calls: 0, tokens: 500 },
      shortfall: { calls: 0, tokens: 0 },
      late: false,
    })
    expect(await limiter.take('a', { cost: { tokens: 1 } })).toMatchObject({ status: 'refused', policy: 'tokens' })
    expect((await limiter.take('a', { cost: { tokens: 0 } })).allowed).toBe(true)
    await backend.pass(60_000)
    expect(await limiter.take('a', { cost: { tokens: 500 } })).toMatchObject({ status: 'allowed-last' })
  })

  test('wait waits until the owed units are paid, within maxWait', async () => {
    const limiter = backend.limiter(gcra({ limit: 10, period: '10s' }))
    expect(await use(limiter, 15)).toMatchObject({ charged: 14, owed: 5 })
    await expect(limiter.wait('a', { maxWait: '2s' })).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
    const start = backend.now()
    const waiting = Promise.all([limiter.wait('a', { maxWait: '30s' }), limiter.wait('a', { maxWait: '30s' })])
    const [first, second] = await backend.until(waiting)
    expect([first.allowed, second.allowed]).toEqual([true, true])
    expect(backend.now() - start).toBe(7_000)
    expect([first.waitedMs, second.waitedMs].sort()).toEqual([6_000, 7_000])
  })
})

test('maxOwed is a whole number, and a name of other packages is corrected', () => {
  for (const maxOwed of [-1, 1.5, '5', null]) {
    expect(() => gcra({ limit: 10, period: '1s', maxOwed: anything(maxOwed) })).toThrow(
      'gcra: maxOwed must be a whole number from 0',
    )
  }
  for (const name of ['debt', 'maxDebt', 'overdraft']) {
    const options = { limit: 10, window: '1s', [name]: 5 }
    expect(() => fixedWindow(anything(options))).toThrow(/did you mean "?maxOwed/)
  }
})
