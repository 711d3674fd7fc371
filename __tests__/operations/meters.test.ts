import {
  calendarWindow,
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tiers,
  tokenBucket,
} from '../../ts/index.js'
import { BACKENDS } from './stores.js'

/** A cost that charges nothing: its decision has the remaining units. */
const NOTHING = { tokens: 0, calls: 0 }

/** Calls, tokens and cents of one model. */
const POLICIES = {
  requests: gcra({ limit: 3, period: '1h' }),
  tokens: tokenBucket({ capacity: 1_000, refill: { tokens: 1_000, every: '1h' }, meter: 'tokens' }),
  spend: fixedWindow({ limit: 50, window: '1h', meter: 'cents', defaultCost: 0 }),
}

describe.each(BACKENDS)('policies with meters: $name', (backend) => {
  const remaining = (decision: { readonly policies: { readonly [name: string]: { readonly remaining: number } } }) =>
    Object.values(decision.policies).map((numbers) => numbers.remaining)

  // promise: all-or-none
  test('each policy is charged the cost of its meter, in one decision', async () => {
    const limiter = backend.limiter(POLICIES)
    const first = await limiter.take('a', { cost: { tokens: 250, cents: 3 } })
    expect(first).toMatchObject({ allowed: true, status: 'allowed' })
    expect(remaining(first)).toEqual([2, 750, 47])
    // Without cents their default is charged, and calls may cost more than 1.
    expect(remaining(await limiter.take('a', { cost: { tokens: 100, calls: 2 } }))).toEqual([0, 650, 47])
    const refused = await limiter.take('a', { cost: { tokens: 1 } })
    expect(refused).toMatchObject({ status: 'refused', policy: 'requests' })
    expect(remaining(refused)).toEqual([0, 650, 47])
  })

  test('a refusal by one meter charges none, and names its policy and the time until the cost fits', async () => {
    const limiter = backend.limiter(POLICIES)
    await limiter.take('a', { cost: { tokens: 900, cents: 10 } })
    const refused = await limiter.take('a', { cost: { tokens: 200, cents: 10 } })
    expect(refused).toMatchObject({ status: 'refused', policy: 'tokens', retryAfterMs: 360_000 })
    expect(refused.policies.requests.retryAfterMs).toBe(0)
    expect(refused.policies.spend.retryAfterMs).toBe(0)
    expect(remaining(refused)).toEqual([2, 100, 40])
    await backend.pass(360_000)
    expect(await limiter.take('a', { cost: { tokens: 200, cents: 10 } })).toMatchObject({ allowed: true })
  })

  test('a cost above the capacity of its meter is impossible', async () => {
    const limiter = backend.limiter(POLICIES)
    const decision = await limiter.take('a', { cost: { tokens: 1_001, cents: 1 } })
    expect(decision).toMatchObject({ status: 'impossible', policy: 'tokens', retryAfterMs: null })
    expect(remaining(await limiter.take('a', { cost: NOTHING }))).toEqual([3, 1_000, 50])
  })

  test('a cost of 0 fits a policy without room, and a block refuses it', async () => {
    const limiter = backend.limiter(POLICIES)
    await limiter.take('a', { cost: { tokens: 1_000, cents: 50 } })
    const free = await limiter.take('a', { cost: { tokens: 0, cents: 0 } })
    expect(free).toMatchObject({ allowed: true })
    expect(remaining(free)).toEqual([1, 0, 0])
    expect(await limiter.take('a', { cost: { tokens: 0, cents: 0, calls: 0 } })).toMatchObject({ allowed: true })
    await limiter.block('a', '1m')
    expect(await limiter.take('a', { cost: { tokens: 0, cents: 0, calls: 0 } })).toMatchObject({ status: 'blocked' })
  })

  test('policies of one meter are charged the same', async () => {
    const limiter = backend.limiter({
      minute: tokenBucket({ capacity: 100, refill: { tokens: 100, every: '1m' }, meter: 'tokens' }),
      hour: slidingWindow({ limit: 150, window: '1h', meter: 'tokens' }),
    })
    expect(remaining(await limiter.take('a', { cost: { tokens: 80 } }))).toEqual([20, 70])
    await backend.pass(60_000)
    const refused = await limiter.take('a', { cost: { tokens: 80 } })
    expect(refused).toMatchObject({ status: 'refused', policy: 'hour' })
  })

  test('all algorithms take costs by meter', async () => {
    const limiter = backend.limiter({
      gcra: gcra({ limit: 20, period: '1h' }),
      bucket: tokenBucket({ capacity: 20, refill: { tokens: 1, every: '1h' }, refillMode: 'interval', meter: 'a' }),
      leaky: leakyBucket({ capacity: 20, leak: { units: 1, every: '1h' }, meter: 'b' }),
      fixed: fixedWindow({ limit: 20, window: '1h', meter: 'c' }),
      calendar: calendarWindow({ limit: 20, every: 'month', meter: 'd' }),
      counter: slidingCounter({ limit: 20, window: '1h', meter: 'e' }),
      window: slidingWindow({ limit: 20, window: '1h', meter: 'f', layout: 'hash' }),
      log: slidingLog({ limit: 20, window: '1h', meter: 'g' }),
    })
    const cost = { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7 }
    expect(remaining(await limiter.take('k', { cost }))).toEqual([19, 19, 18, 17, 16, 15, 14, 13])
    expect(remaining(await limiter.take('k', { cost }))).toEqual([18, 18, 16, 14, 12, 10, 8, 6])
    const refused = await limiter.take('k', { cost })
    expect(refused).toMatchObject({ status: 'refused', policy: 'log' })
    expect(remaining(refused)).toEqual([18, 18, 16, 14, 12, 10, 8, 6])
  })

  test('policies with meters count by different key dimensions', async () => {
    const limiter = backend.limiter({
      calls: gcra({ limit: 2, period: '1h', per: 'ip' }),
      tokens: fixedWindow({ limit: 100, window: '1h', per: 'account', meter: 'tokens' }),
      all: fixedWindow({ limit: 150, window: '1h', per: 'global', meter: 'tokens' }),
    })
    const take = (ip: string, account: string, tokens: number) => limiter.take({ ip, account }, { cost: { tokens } })
    expect(remaining(await take('1', 'ann', 90))).toEqual([1, 10, 60])
    expect(await take('2', 'ann', 20)).toMatchObject({ status: 'refused', policy: 'tokens' })
    expect(await take('2', 'ben', 70)).toMatchObject({ status: 'refused', policy: 'all' })
    expect(remaining(await take('2', 'ben', 60))).toEqual([1, 40, 0])
  })

  test('a single policy may have a meter', async () => {
    const limiter = backend.limiter(gcra({ limit: 100, period: '1h', meter: 'tokens' }))
    expect(await limiter.take('a', { cost: { tokens: 30 } })).toMatchObject({ policy: 'default', remaining: 70 })
    expect(await limiter.tryTake('a', { cost: { tokens: 80 } })).toBe(false)
    expect(limiter.policies.default).toMatchObject({ algorithm: 'gcra', meter: 'tokens' })
  })

  test('takeMany has a cost for all keys, or one for each', async () => {
    const limiter = backend.limiter(POLICIES)
    const same = await limiter.takeMany(['a', 'b'], { cost: { tokens: 100 } })
    expect(same.map(remaining)).toEqual([
      [2, 900, 50],
      [2, 900, 50],
    ])
    const each = await limiter.takeMany(['a', 'b'], [{ tokens: 50 }, { tokens: 950, cents: 5 }])
    expect(each.map(({ status }) => status)).toEqual(['allowed', 'refused'])
    expect(each.map(remaining)).toEqual([
      [1, 850, 50],
      [2, 900, 50],
    ])
    await expect(limiter.takeMany(['a', 'b'], [{ tokens: 1 }])).rejects.toMatchObject({ code: 'INVALID_COST' })
    await expect(limiter.takeMany(['a', ''], { cost: { tokens: 1 } })).rejects.toMatchObject({
      code: 'INVALID_KEY',
      results: [{ allowed: true }, { code: 'INVALID_KEY' }],
    })
  })

  test('peek answers as take would, and charges nothing', async () => {
    const limiter = backend.limiter(POLICIES)
    await limiter.take('a', { cost: { tokens: 900 } })
    expect(await limiter.peek('a', { cost: { tokens: 101 } })).toMatchObject({ status: 'refused', policy: 'tokens' })
    const fits = await limiter.peek('a', { cost: { tokens: 100 } })
    expect(fits).toMatchObject({ allowed: true })
    expect(remaining(await limiter.take('a', { cost: NOTHING }))).toEqual([2, 100, 50])
  })

  test('penalize charges what is left of each meter, and returns the units by meter', async () => {
    const limiter = backend.limiter(POLICIES)
    await limiter.take('a', { cost: { tokens: 900 } })
    expect(await limiter.penalize('a', { tokens: 300 })).toEqual({ calls: 0, tokens: 100, cents: 0 })
    expect(await limiter.penalize('a', { cents: 20, calls: 1 })).toEqual({ calls: 1, tokens: 0, cents: 20 })
    expect(remaining(await limiter.take('a', { cost: NOTHING }))).toEqual([1, 0, 30])
  })

  test('tiers have their own numbers and default costs', async () => {
    const limiter = backend.limiter(
      tiers({
        free: fixedWindow({ limit: 10, window: '1h', meter: 'tokens', defaultCost: 2 }),
        pro: fixedWindow({ limit: 100, window: '1h', meter: 'tokens', defaultCost: 20 }),
      }),
    )
    expect(await limiter.take('a', { tier: 'free' })).toMatchObject({ remaining: 8 })
    expect(await limiter.take('a', { tier: 'pro' })).toMatchObject({ remaining: 78 })
    expect(await limiter.take('a', { tier: 'pro', cost: { tokens: 8 } })).toMatchObject({ remaining: 70 })
  })

  test('an update changes numbers and default costs, and no meter', async () => {
    const policy = (limit: number, defaultCost: number) =>
      fixedWindow({ limit, window: '1h', meter: 'tokens', defaultCost })
    const limiter = backend.limiter(policy(10, 2))
    await limiter.take('a')
    limiter.update(policy(20, 5))
    expect(await limiter.take('a')).toMatchObject({ limit: 20, remaining: 13 })
    const other = fixedWindow({ limit: 10, window: '1h', meter: 'cents', defaultCost: 2 })
    expect(() => limiter.update(other as never)).toThrow(
      'update: policies must differ in numbers only: meter was "tokens" and is now "cents"; make a new limiter',
    )
    const without = fixedWindow({ limit: 10, window: '1h', meter: 'tokens' })
    expect(() => limiter.update(without as never)).toThrow('defaultCost was 5 and is now undefined')
  })

  test('an override keeps the meter', async () => {
    const limiter = backend.limiter(POLICIES)
    await limiter.override('a', { tokens: { capacity: 2_000 } }, { ttl: '1h' })
    expect(remaining(await limiter.take('a', { cost: { tokens: 1_500 } }))).toEqual([2, 500, 50])
  })

  test('refused calls are strikes', async () => {
    const limiter = backend.limiter(POLICIES, { ban: { after: 2, period: '1h', for: '10m' } })
    await limiter.take('a', { cost: { tokens: 1_000 } })
    await limiter.take('a', { cost: { tokens: 1 } })
    await limiter.take('a', { cost: { tokens: 1 } })
    expect(await limiter.take('a', { cost: { tokens: 0 } })).toMatchObject({ status: 'blocked', ban: { step: 1 } })
  })
})

describe.each(BACKENDS)('wait and permits of policies with meters: $name', (backend) => {
  test('wait takes units at the first time at which the costs of all meters fit', async () => {
    const limiter = backend.limiter({
      calls: gcra({ limit: 10, period: '1s' }),
      tokens: tokenBucket({ capacity: 100, refill: { tokens: 100, every: '1s' }, meter: 'tokens' }),
    })
    await limiter.take('a', { cost: { tokens: 100 } })
    const waited = await backend.until(limiter.wait('a', { cost: { tokens: 50 } }))
    expect(waited).toMatchObject({ allowed: true, waitedMs: 500 })
    const tooLong = limiter.wait('a', { cost: { tokens: 100 }, maxWait: 10, onTooLong: 'resolve' })
    expect(await tooLong).toMatchObject({ status: 'refused', policy: 'tokens' })
    await expect(limiter.wait('a', { cost: { tokens: 101 } })).rejects.toMatchObject({
      code: 'WAIT_TOO_LONG',
      message: expect.stringContaining('the cost never fits under "tokens": the largest cost is 100'),
    })
  })

  test('acquire holds calls with a permit, and charges the other meters', async () => {
    const limiter = backend.limiter({
      running: concurrency({ limit: 1 }),
      tokens: fixedWindow({ limit: 100, window: '1h', meter: 'tokens' }),
    })
    const permit = await limiter.acquire('a', { cost: { tokens: 30 } })
    expect(permit).toMatchObject({ allowed: true, units: { calls: 1, tokens: 30 } })
    expect(await limiter.acquire('a', { cost: { tokens: 30 } })).toMatchObject({
      allowed: false,
      decision: { policy: 'running', policies: { tokens: { remaining: 70 } } },
    })
    expect(permit.allowed && (await permit.release())).toBe(true)
    expect(await limiter.acquire('a', { cost: { tokens: 80 } })).toMatchObject({
      allowed: false,
      decision: { policy: 'tokens' },
    })
    const next = await limiter.acquire('a', { cost: { tokens: 70 } })
    expect(next).toMatchObject({ allowed: true, decision: { policies: { tokens: { remaining: 0 } } } })
  })

  test('a permit may hold units of its own meter', async () => {
    const limiter = backend.limiter(concurrency({ limit: 10, meter: 'megabytes' }))
    const permit = await limiter.acquire('a', { cost: { megabytes: 7 } })
    expect(permit).toMatchObject({ allowed: true, units: { megabytes: 7 } })
    expect(await limiter.acquire('a', { cost: { megabytes: 4 } })).toMatchObject({ allowed: false })
    const waiting = limiter.acquire('a', { cost: { megabytes: 4 }, maxWait: '5s' })
    await (permit.allowed && permit.release())
    expect(await backend.until(waiting)).toMatchObject({ allowed: true, units: { megabytes: 4 } })
  })
})

describe.each(BACKENDS)('refunds and reservations of policies with meters: $name', (backend) => {
  const remaining = (decision: { readonly policies: { readonly [name: string]: { readonly remaining: number } } }) =>
    Object.values(decision.policies).map((numbers) => numbers.remaining)

  const left = async (limiter: ReturnType<typeof backend.limiter<typeof POLICIES>>) =>
    remaining(await limiter.take('a', { cost: NOTHING }))

  test('refund gives units of some meters back, and of none more than was taken', async () => {
    const limiter = backend.limiter(POLICIES)
    const decision = await limiter.take('a', { cost: { tokens: 300, cents: 5 } })
    expect(await limiter.refund(decision, { tokens: 100 })).toEqual({ calls: 0, tokens: 100, cents: 0 })
    expect(await left(limiter)).toEqual([2, 800, 45])
    expect(await limiter.refund(decision)).toEqual({ calls: 1, tokens: 200, cents: 5 })
    expect(await left(limiter)).toEqual([3, 1_000, 50])
    expect(await limiter.refund(decision)).toEqual({ calls: 0, tokens: 0, cents: 0 })
  })

  test('a refused decision has nothing to refund', async () => {
    const limiter = backend.limiter(POLICIES)
    const refused = await limiter.take('a', { cost: { tokens: 2_000 } })
    expect(await limiter.refund(refused)).toEqual({ calls: 0, tokens: 0, cents: 0 })
  })

  test('a copy of a decision is refunded by its units', async () => {
    const limiter = backend.limiter(POLICIES)
    const decision = JSON.parse(JSON.stringify(await limiter.take('a', { cost: { tokens: 300, cents: 5 } })))
    expect(await limiter.refund(decision, { tokens: 100, cents: 5 }, { key: 'a' })).toEqual({
      calls: 0,
      tokens: 100,
      cents: 5,
    })
    expect(await left(limiter)).toEqual([2, 800, 50])
  })

  test('a decision of takeMany and of wait is refunded', async () => {
    const limiter = backend.limiter({
      calls: gcra({ limit: 10, period: '1h' }),
      tokens: gcra({ limit: 100, period: '1h', meter: 'tokens' }),
    })
    const [first] = await limiter.takeMany(['a'], { cost: { tokens: 30 } })
    const waited = await limiter.wait('a', { cost: { tokens: 20 } })
    expect(first && (await limiter.refund(first))).toEqual({ calls: 1, tokens: 30 })
    expect(await limiter.refund(waited, { tokens: 5 })).toEqual({ calls: 0, tokens: 5 })
    expect(remaining(await limiter.take('a', { cost: NOTHING }))).toEqual([9, 85])
  })

  test('a reservation is settled by meter: some meters are refunded and others charged', async () => {
    const limiter = backend.limiter(POLICIES)
    const reservation = await limiter.reserve('a', { tokens: 400, cents: 4 }, { ttl: '2m' })
    expect(reservation).toMatchObject({ allowed: true, units: { calls: 1, tokens: 400, cents: 4 } })
    expect(await left(limiter)).toEqual([2, 600, 46])
    const settlement = reservation.allowed && (await reservation.commit({ tokens: 150, cents: 9 }))
    expect(settlement).toEqual({
      settled: true,
      refunded: { calls: 0, tokens: 250, cents: 0 },
      charged: { calls: 0, tokens: 0, cents: 5 },
      owed: { calls: 0, tokens: 0, cents: 0 },
      shortfall: { calls: 0, tokens: 0, cents: 0 },
      late: false,
    })
    expect(await left(limiter)).toEqual([2, 850, 41])
    expect(reservation.allowed && (await reservation.commit())).toEqual({ settled: false, reason: 'settled-before' })
  })

  test('settling charges what is left of a meter, and the rest is owed', async () => {
    const limiter = backend.limiter(POLICIES)
    const reservation = await limiter.reserve('a', { tokens: 400 })
    const id = reservation.allowed ? reservation.id : ''
    expect(await limiter.settle(id, { tokens: 1_100 })).toEqual({
      settled: true,
      refunded: { calls: 0, tokens: 0, cents: 0 },
      charged: { calls: 0, tokens: 700, cents: 0 },
      owed: { calls: 0, tokens: 100, cents: 0 },
      shortfall: { calls: 0, tokens: 0, cents: 0 },
      late: false,
    })
    expect(await left(limiter)).toEqual([2, 0, 50])
    expect(await limiter.settle(id)).toEqual({ settled: false, reason: 'settled-before' })
  })

  test('a reservation is extended by some meters, and cancelled', async () => {
    const limiter = backend.limiter(POLICIES)
    const reservation = await limiter.reserve('a', { tokens: 400 }, { ttl: '1m' })
    if (!reservation.allowed) {
      throw new Error('refused')
    }
    expect(await reservation.extend({ tokens: 100, cents: 2 })).toMatchObject({
      extended: true,
      units: { calls: 1, tokens: 500, cents: 2 },
    })
    expect(await left(limiter)).toEqual([2, 500, 48])
    expect(await reservation.extend({ tokens: 501 })).toMatchObject({ extended: false, reason: 'refused' })
    expect(await reservation.renew('2m')).toMatchObject({ renewed: true })
    const { id } = reservation
    expect(await limiter.settle(id, { tokens: 0, calls: 0, cents: 0 })).toMatchObject({
      settled: true,
      refunded: { calls: 1, tokens: 500, cents: 2 },
    })
    expect(await left(limiter)).toEqual([3, 1_000, 50])
    expect(await reservation.cancel()).toEqual({ settled: false, reason: 'settled-before' })
  })

  test('an expired reservation stays charged', async () => {
    const limiter = backend.limiter({ tokens: fixedWindow({ limit: 100, window: '1h', meter: 'tokens' }) })
    const reservation = await limiter.reserve('a', { tokens: 40 }, { ttl: '1s' })
    await backend.pass(2_000)
    expect(reservation.allowed && (await reservation.commit({ tokens: 10 }))).toEqual({
      settled: true,
      refunded: { tokens: 0 },
      charged: { tokens: 0 },
      owed: { tokens: 0 },
      shortfall: { tokens: 0 },
      late: true,
    })
    expect(await limiter.take('a', { cost: { tokens: 0 } })).toMatchObject({ remaining: 60 })
  })

  test('a refused reservation charges no meter', async () => {
    const limiter = backend.limiter(POLICIES)
    expect(await limiter.reserve('a', { tokens: 1_001 })).toMatchObject({
      allowed: false,
      decision: { status: 'impossible', policy: 'tokens' },
    })
    expect(await left(limiter)).toEqual([3, 1_000, 50])
  })
})
