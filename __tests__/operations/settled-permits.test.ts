/** Permits beside other policies: one call takes all units, and one settles them and ends the permit. */
import { concurrency, fixedWindow, gcra, type Permit, slidingCounter, tiers, tokenBucket } from '../../ts/index.js'
import { rejectionOf } from '../failure.js'
import { Random } from '../random.js'
import { BACKENDS } from './stores.js'

type Held<M extends string> = Extract<Permit<string, M, true>, { readonly allowed: true }>

function acquired<M extends string>(permit: Permit<string, M, true>): Held<M> {
  if (!permit.allowed) {
    throw new Error(`not allowed: ${permit.decision.status}`)
  }
  return permit
}

/** Requests, tokens and cents of one model, and its streams at a time. */
const MODEL = {
  requests: gcra({ limit: 6, period: '1h' }),
  tokens: tokenBucket({ capacity: 1_000, refill: { tokens: 1_000, every: '1h' }, meter: 'tokens' }),
  spend: fixedWindow({ limit: 50, window: '1h', meter: 'cents', defaultCost: 0 }),
  streams: concurrency({ limit: 2, ttl: '30s', meter: 'streams', defaultCost: 1 }),
}

const PLAIN = { rate: fixedWindow({ limit: 10, window: '1h' }), jobs: concurrency({ limit: 4, ttl: '30s' }) }

describe.each(BACKENDS)('permits that are settled: $name', (backend) => {
  const model = () => {
    const limiter = backend.limiter(MODEL)
    const remaining = async (key: string) => {
      const { policies } = await limiter.peek(key, { cost: { tokens: 0 } })
      return [policies.requests, policies.tokens, policies.spend, policies.streams].map((own) => own.remaining)
    }
    return { limiter, remaining }
  }
  const plain = () => {
    const limiter = backend.limiter(PLAIN)
    const remaining = async (key: string) => {
      const { policies } = await limiter.peek(key, 0)
      return [policies.rate.remaining, policies.jobs.remaining]
    }
    return { limiter, remaining }
  }

  test('commit returns the surplus, charges the deficit, and releases the permit', async () => {
    const { limiter, remaining } = model()
    const permit = acquired(await limiter.acquire('a', { cost: { tokens: 500, cents: 5 } }))
    expect(permit.units).toEqual({ calls: 1, tokens: 500, cents: 5, streams: 1 })
    expect(await remaining('a')).toEqual([5, 500, 45, 1])
    expect(await permit.commit({ tokens: 350, cents: 9 })).toEqual({
      settled: true,
      refunded: { calls: 0, tokens: 150, cents: 0, streams: 0 },
      charged: { calls: 0, tokens: 0, cents: 4, streams: 0 },
      owed: { calls: 0, tokens: 0, cents: 0, streams: 0 },
      shortfall: { calls: 0, tokens: 0, cents: 0, streams: 0 },
      late: false,
    })
    expect(await remaining('a')).toEqual([5, 650, 41, 2])
    expect(await permit.commit({ tokens: 0 })).toEqual({ settled: false, reason: 'settled-before' })
    expect(await permit.release()).toBe(true)
    expect(await permit.release()).toBe(true)
    expect(await remaining('a')).toEqual([5, 650, 41, 2])
  })

  test('cancel gives back all that did not happen', async () => {
    const { limiter, remaining } = model()
    const permit = acquired(await limiter.acquire('a', { cost: { tokens: 500, cents: 5, calls: 2, streams: 2 } }))
    expect(await remaining('a')).toEqual([4, 500, 45, 0])
    expect(await permit.cancel()).toMatchObject({
      settled: true,
      refunded: { calls: 2, tokens: 500, cents: 5, streams: 0 },
    })
    expect(await remaining('a')).toEqual([6, 1_000, 50, 2])
    expect(await permit.cancel()).toEqual({ settled: false, reason: 'settled-before' })
  })

  test('release keeps the estimate charged, and nothing can be settled after it', async () => {
    const { limiter, remaining } = model()
    const permit = acquired(await limiter.acquire('a', { cost: { tokens: 500 } }))
    expect(await permit.release()).toBe(true)
    expect(await remaining('a')).toEqual([5, 500, 50, 2])
    expect(await permit.commit({ tokens: 1 })).toEqual({ settled: false, reason: 'settled-before' })
    expect(await permit.release()).toBe(true)
    expect(await remaining('a')).toEqual([5, 500, 50, 2])
  })

  test('await using releases a permit only if it was not settled', async () => {
    const { limiter, remaining } = plain()
    {
      await using permit = await limiter.acquire('a', { cost: 3 })
      if (permit.allowed) {
        // Not awaited: the release comes after it.
        void permit.commit(1)
      }
    }
    expect(await remaining('a')).toEqual([9, 4])
    {
      await using permit = await limiter.acquire('a', { cost: 3 })
      expect(permit.allowed).toBe(true)
    }
    expect(await remaining('a')).toEqual([6, 4])
  })

  test('units without meters are those of the permit, and are settled under the other policies', async () => {
    const { limiter, remaining } = plain()
    const permit = acquired(await limiter.acquire('a', { cost: 3 }))
    expect(await remaining('a')).toEqual([7, 1])
    expect(await permit.extend(4)).toMatchObject({ extended: true, units: 7 })
    expect(permit.units).toBe(7)
    expect(await remaining('a')).toEqual([3, 1])
    expect(await permit.extend(4)).toMatchObject({ extended: false, reason: 'refused', decision: { limit: 10 } })
    expect(await permit.commit(9)).toEqual({
      settled: true,
      refunded: 0,
      charged: 2,
      owed: 0,
      shortfall: 0,
      late: false,
    })
    expect(await remaining('a')).toEqual([1, 4])
  })

  test('a deficit beyond the limit is owed under the other policies, and not under that of the permits', async () => {
    const { limiter, remaining } = plain()
    const permit = acquired(await limiter.acquire('a', { cost: 2 }))
    const other = acquired(await limiter.acquire('a', { cost: 1 }))
    const told = { refunded: 0, charged: 17, owed: 10, shortfall: 1, late: false }
    expect(await permit.commit(20)).toEqual({ settled: true, ...told })
    expect(await remaining('a')).toEqual([0, 3])
    // The unit pays one of the owed ones.
    expect(await other.cancel()).toMatchObject({ settled: true, refunded: 1 })
    expect(await remaining('a')).toEqual([0, 4])
  })

  test('an extension takes units of the other policies while all permits are held', async () => {
    const { limiter, remaining } = model()
    const permit = acquired(await limiter.acquire('a', { cost: { tokens: 100, streams: 2 } }))
    expect(await permit.extend({ tokens: 300 })).toMatchObject({ extended: true })
    expect(await remaining('a')).toEqual([5, 600, 50, 0])
    expect(await permit.extend({ tokens: 601 })).toMatchObject({ extended: false, reason: 'refused' })
    expect(await rejectionOf(permit.extend({ streams: 1 }))).toMatchObject({
      code: 'INVALID_COST',
      message: expect.stringContaining('units of concurrency()'),
    })
    expect(await permit.commit({ tokens: 350 })).toMatchObject({ settled: true, refunded: { tokens: 50 } })
    expect(await remaining('a')).toEqual([5, 650, 50, 2])
  })

  test('one limiter in place of three loses nothing by refusals', async () => {
    const { limiter, remaining } = model()
    const first = acquired(await limiter.acquire('a', { cost: { tokens: 100, streams: 2 } }))
    const before = await remaining('a')
    for (const cost of [{ tokens: 100 }, { tokens: 1_001 }, { tokens: 901, cents: 1 }, { tokens: 0, cents: 51 }]) {
      expect(await limiter.acquire('a', { cost })).toMatchObject({ allowed: false })
      expect(await limiter.reserve('a', cost)).toMatchObject({ allowed: false })
    }
    expect(await remaining('a')).toEqual(before)
    await first.cancel()
    const second = acquired(await limiter.acquire('a', { cost: { tokens: 1_000 } }))
    for (let call = 0; call < 3; call++) {
      expect(await limiter.acquire('a', { cost: { tokens: 1 } })).toMatchObject({ allowed: false })
    }
    await second.cancel()
    expect(await remaining('a')).toEqual([6, 1_000, 50, 2])
  })

  test('it can be settled as long as it is held, however long that is', async () => {
    const { limiter, remaining } = plain()
    const permit = acquired(await limiter.acquire('a', { cost: 3 }))
    for (let minute = 0; minute < 30; minute++) {
      await backend.pass(60_000)
    }
    expect(permit.signal.aborted).toBe(false)
    expect(permit.expiresAt).toBeGreaterThan(backend.now())
    expect(await remaining('a')).toEqual([7, 1])
    expect(await permit.commit(1)).toMatchObject({ settled: true, refunded: 2 })
    expect(await remaining('a')).toEqual([9, 4])
  })

  test('another limiter settles it by its id, which also ends the permit', async () => {
    const [limiter, elsewhere] = backend.limiterPair(PLAIN)
    const permit = acquired(await limiter.acquire('a', { cost: 3 }))
    const { signal } = permit
    expect(await elsewhere.settle(permit.id, 1)).toMatchObject({ settled: true, refunded: 2 })
    const { policies } = await elsewhere.peek('a', 0)
    expect([policies.rate.remaining, policies.jobs.remaining]).toEqual([9, 4])
    // Its holder learns of it at the next renewal.
    await backend.pass(15_000)
    expect(signal.aborted).toBe(true)
    expect(await permit.commit(0)).toEqual({ settled: false, reason: 'settled-before' })
    expect(await permit.release()).toBe(false)
  })

  test('a reset makes the key fresh, also while the permit is held', async () => {
    const { limiter, remaining } = plain()
    const permit = acquired(await limiter.acquire('a', { cost: 3 }))
    await limiter.reset('a')
    expect(await remaining('a')).toEqual([10, 4])
    expect(await permit.commit(1)).toEqual({ settled: false, reason: 'settled-before' })
    expect(await permit.release()).toBe(false)
    expect(await remaining('a')).toEqual([10, 4])
  })

  test('calls that wait get their turn from commit and cancel', async () => {
    const { limiter, remaining } = plain()
    const [first, second] = [acquired(await limiter.acquire('a', { cost: 2 })), await limiter.acquire('a', { cost: 2 })]
    const next = [limiter.acquire('a', { maxWait: '5s' }), limiter.acquire('a', { maxWait: '5s' })]
    await first.commit(1)
    const got = await backend.until(Promise.all(next))
    expect(got.map(({ allowed }) => allowed)).toEqual([true, true])
    expect(await remaining('a')).toEqual([5, 0])
    await Promise.all([second, ...got].map((permit) => acquired(permit).cancel()))
    expect(await remaining('a')).toEqual([9, 4])
  })

  test('a call that is aborted while it waits charges nothing', async () => {
    const { limiter, remaining } = plain()
    const held = acquired(await limiter.acquire('a', { cost: 4 }))
    const abort = new AbortController()
    const waits = rejectionOf(limiter.acquire('a', { cost: 2, maxWait: '5s', signal: abort.signal }))
    await backend.pass(100)
    const freed = held.cancel()
    abort.abort()
    expect((await waits).code).toBe('ABORTED')
    await freed
    await backend.pass(2_000)
    expect(await remaining('a')).toEqual([10, 4])
  })

  describe('reserve', () => {
    test('holds a permit until it is settled', async () => {
      const { limiter, remaining } = model()
      const [one, two] = [
        acquired(await limiter.reserve('a', { tokens: 300 })),
        acquired(await limiter.reserve('a', { tokens: 300 })),
      ]
      expect(await limiter.reserve('a', { tokens: 1 })).toMatchObject({
        allowed: false,
        decision: { policy: 'streams' },
      })
      expect(await remaining('a')).toEqual([4, 400, 50, 0])
      expect(await one.commit({ tokens: 100 })).toMatchObject({ settled: true, refunded: { tokens: 200 } })
      expect(await two.cancel()).toMatchObject({ settled: true, refunded: { tokens: 300 } })
      expect(await remaining('a')).toEqual([5, 900, 50, 2])
    })

    test('renews its permit until its own end, and then releases it', async () => {
      const { limiter, remaining } = plain()
      const reservation = acquired(await limiter.reserve('a', 3, { ttl: '2m' }))
      const { signal } = reservation
      const end = reservation.expiresAt
      expect(end).toBe(backend.now() + 120_000)
      await backend.pass(110_000)
      expect([signal.aborted, reservation.expiresAt, await remaining('a')]).toEqual([false, end, [7, 1]])
      expect(await reservation.renew()).toEqual({ renewed: true, expiresAt: end + 110_000 })
      await backend.pass(115_000)
      expect([signal.aborted, await remaining('a')]).toEqual([false, [7, 1]])
      await backend.pass(10_000)
      expect([signal.aborted, await remaining('a')]).toEqual([true, [7, 4]])
      expect(await reservation.commit(1)).toMatchObject({ settled: true, late: true, refunded: 0 })
      expect(await remaining('a')).toEqual([7, 4])
    })

    test('ends early for a ttl below that of permits', async () => {
      const { limiter, remaining } = plain()
      const reservation = acquired(await limiter.reserve('a', 3, { ttl: '2s' }))
      const { signal } = reservation
      await backend.pass(4_000)
      expect([signal.aborted, await remaining('a')]).toEqual([true, [7, 4]])
    })
  })

  test('tiers settle under the numbers of their own', async () => {
    const limiter = backend.limiter({
      rate: tiers({ free: PLAIN.rate, paid: fixedWindow({ limit: 100, window: '1h' }) }),
      jobs: tiers({ free: PLAIN.jobs, paid: concurrency({ limit: 8, ttl: '30s' }) }),
    })
    const permit = acquired(await limiter.acquire('a', { cost: 7, tier: 'paid' }))
    expect(await limiter.settle(permit.id, 2)).toMatchObject({ settled: true, refunded: 5 })
    const { policies } = await limiter.peek('a', { cost: 0, tier: 'paid' })
    expect([policies.rate.remaining, policies.jobs.remaining]).toEqual([98, 8])
  })

  test('a permit without units to settle says what to do', async () => {
    const alone = backend.limiter(concurrency({ limit: 2 }))
    const permit = await alone.acquire('a')
    const estimated = backend.limiter({
      jobs: concurrency({ limit: 2 }),
      rate: slidingCounter({ limit: 9, window: '1m' }),
    })
    const other = await estimated.acquire('a')
    if (!permit.allowed || !other.allowed) {
      throw new Error('not allowed')
    }
    // The compiler knows that these fail.
    const unchecked = permit as unknown as Held<never>
    const calls = [unchecked.commit(1), unchecked.cancel(), unchecked.extend(1), unchecked.renew()]
    for (const call of calls) {
      const { code, message } = await rejectionOf(call)
      expect([code, message]).toEqual(['INVALID_OPTION', expect.stringMatching(/needs a policy beside concurrency/)])
    }
    expect((await rejectionOf((other as unknown as Held<never>).commit(1))).message).toMatch(
      'cannot be used with slidingCounter, which only estimates',
    )
    expect([permit.id, permit.expiresAt]).toEqual([undefined, undefined])
    expect([await permit.release(), await other.release()]).toEqual([true, true])
  })

  test('random calls: never more permits than the limit, and no unit is lost or given twice', async () => {
    const random = new Random(7)
    const any = (count: number) => random.whole(0, count - 1)
    const limiter = backend.limiter({
      spend: fixedWindow({ limit: 200, window: '365d', meter: 'cents', maxOwed: 0 }),
      jobs: concurrency({ limit: 5, ttl: '30s', meter: 'jobs', defaultCost: 1 }),
    })
    const open = new Set<{ readonly permit: Held<'cents' | 'jobs'>; units: number; readonly jobs: number }>()
    let spent = 0
    for (let step = 0; step < 300; step++) {
      const [chosen] = [...open].slice(any(open.size || 1))
      switch (any(6)) {
        case 0:
        case 1: {
          const [cents, jobs] = [any(30), 1 + any(2)]
          const cost = { cents, jobs }
          const permit = any(2) === 0 ? await limiter.acquire('a', { cost }) : await limiter.reserve('a', cost)
          const held = [...open].reduce((sum, { jobs }) => sum + jobs, 0)
          const charged = [...open].reduce((sum, { units }) => sum + units, spent)
          expect(permit.allowed).toBe(held + jobs <= 5 && charged + cents <= 200)
          if (permit.allowed) {
            open.add({ permit, units: cents, jobs })
          }
          break
        }
        case 2: {
          const cents = any(10)
          if (chosen !== undefined && (await chosen.permit.extend({ cents })).extended) {
            chosen.units += cents
          }
          break
        }
        case 3:
          await backend.pass(any(20_000))
          break
        default: {
          if (chosen === undefined) {
            break
          }
          open.delete(chosen)
          const cents = any(40)
          const end = any(3)
          if (end === 0) {
            expect(await chosen.permit.release()).toBe(true)
            spent += chosen.units
          } else if (end === 1) {
            const settlement = await chosen.permit.commit({ cents })
            expect(settlement.settled).toBe(true)
            spent += cents - (settlement.settled ? settlement.shortfall.cents : 0)
          } else {
            expect(await chosen.permit.cancel()).toMatchObject({ refunded: { cents: chosen.units } })
          }
        }
      }
      const { policies } = await limiter.peek('a', { cost: { cents: 0, jobs: 0 } })
      const charged = [...open].reduce((sum, { units }) => sum + units, spent)
      expect(policies.spend.remaining).toBe(200 - charged)
      expect(policies.jobs.remaining).toBe(5 - [...open].reduce((sum, { jobs }) => sum + jobs, 0))
    }
    expect(spent).toBeGreaterThan(100)
    await limiter.close()
  })
})
