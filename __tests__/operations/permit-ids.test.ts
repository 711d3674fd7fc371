/** Calls for permits with an id: the other policies charge it once, and it gets the same permit. */
import { concurrency, fixedWindow, type Permit, slidingCounter, tokenBucket } from '../../ts/index.js'
import { anything, rejectionOf } from '../failure.js'
import { BACKENDS } from './stores.js'

const PLAIN = { rate: fixedWindow({ limit: 100, window: '1d' }), jobs: concurrency({ limit: 2, ttl: '30s' }) }

const METERED = {
  tokens: tokenBucket({ capacity: 1_000, refill: { tokens: 1, every: '1d' }, meter: 'tokens' }),
  jobs: concurrency({ limit: 4, ttl: '30s', meter: 'jobs', defaultCost: 1 }),
}

const REPEATED = { repeated: true }

const SETTLED_BEFORE = { settled: false, reason: 'settled-before' }

function acquired<M extends string, S extends boolean>(permit: Permit<string, M, S>) {
  if (!permit.allowed) {
    throw new Error(`not allowed: ${permit.decision.status}`)
  }
  return permit
}

describe.each(BACKENDS)('ids of permits: $name', (backend) => {
  const pair = () => {
    const open = backend.sharedKeys()
    const limiter = open(PLAIN)
    const remaining = async () => {
      const { policies } = await limiter.peek('a', 0)
      return [policies.rate.remaining, policies.jobs.remaining]
    }
    return { one: open(PLAIN), other: open(PLAIN), limiter, remaining }
  }

  test('while the permit is held, another process gets it with its reservation, and settles it', async () => {
    const { one, other, remaining } = pair()
    const first = acquired(await one.acquire('a', { cost: 2, id: 'job:17' }))
    expect(first.decision).not.toHaveProperty('repeated')
    expect(await remaining()).toEqual([98, 0])
    await backend.pass(5_000)
    const again = acquired(await other.acquire('a', { id: 'job:17' }))
    expect(again.decision).toEqual({ ...first.decision, ...REPEATED })
    // It was renewed.
    expect([again.units, again.expiresAt]).toEqual([2, first.decision.at + 35_000])
    expect(await remaining()).toEqual([98, 0])
    expect((await other.acquire('a')).allowed).toBe(false)
    expect(await again.commit(1)).toMatchObject({ settled: true, refunded: 1, late: false })
    expect(await remaining()).toEqual([99, 2])
    expect(await again.release()).toBe(true)
    expect(await first.commit(1)).toEqual(SETTLED_BEFORE)
    expect(await first.release()).toBe(false)
    expect(await remaining()).toEqual([99, 2])
  })

  test('the new process extends and renews it, also when the old one has ended', async () => {
    const { one, other, remaining } = pair()
    await one.acquire('a', { cost: 2, id: 'x' })
    const again = acquired(await other.acquire('a', { cost: 2, id: 'x' }))
    await backend.pass(60_000)
    expect(again.signal.aborted).toBe(false)
    expect(await again.extend(5)).toMatchObject({ extended: true, units: 7 })
    expect(await remaining()).toEqual([93, 0])
    expect(await again.commit(4)).toMatchObject({ settled: true, refunded: 3 })
    expect(await remaining()).toEqual([96, 2])
  })

  // promise: permit-by-id
  test('a permit that is no longer held is acquired under concurrency alone, and settles the first reservation', async () => {
    const { one, other, remaining } = pair()
    const first = acquired(await one.acquire('a', { cost: 2, id: 'x' }))
    const { id } = first
    // Its permits are released, and their units stay reserved.
    await one.close()
    expect(await remaining()).toEqual([98, 2])
    const again = acquired(await other.acquire('a', { cost: 2, id: 'x' }))
    expect([again.decision.repeated, again.id]).toEqual([true, id])
    expect(await remaining()).toEqual([98, 0])
    await backend.pass(100_000)
    expect([again.signal.aborted, await remaining()]).toEqual([false, [98, 0]])
    expect(await again.commit(1)).toMatchObject({ settled: true, refunded: 1 })
    expect(await again.release()).toBe(true)
    expect(await remaining()).toEqual([99, 2])
  })

  test('after the settlement a repeated call gets a permit, charges nothing and settles nothing', async () => {
    const { one, other, remaining } = pair()
    const first = acquired(await one.acquire('a', { id: 'x' }))
    expect(await first.commit(5)).toMatchObject({ settled: true, charged: 4 })
    expect(await remaining()).toEqual([95, 2])
    for (const end of ['commit', 'cancel', 'release'] as const) {
      const again = acquired(await other.acquire('a', { id: 'x' }))
      expect(again.decision).toEqual({ ...first.decision, ...REPEATED })
      expect(await remaining()).toEqual([95, 1])
      await backend.pass(40_000)
      expect([again.signal.aborted, await remaining()]).toEqual([false, [95, 1]])
      expect(await again[end]()).toEqual(end === 'release' ? true : SETTLED_BEFORE)
      expect(await again.release()).toBe(true)
      expect(await remaining()).toEqual([95, 2])
    }
  })

  test('a repeated call may be refused by concurrency, and may wait', async () => {
    const { one, other, remaining } = pair()
    await acquired(await one.acquire('a', { cost: 2, id: 'x' })).release()
    const holder = acquired(await one.acquire('a', { cost: 1 }))
    const refused = await other.acquire('a', { id: 'x' })
    expect(refused.decision).toMatchObject({ allowed: false, status: 'refused', policy: 'jobs' })
    expect(refused.decision).not.toHaveProperty('repeated')
    expect(await remaining()).toEqual([97, 1])
    const waiting = [other.acquire('a', { id: 'x', maxWait: '1m' }), one.acquire('a', { id: 'x', maxWait: '1m' })]
    await backend.pass(500)
    await holder.release()
    const permits = (await backend.until(Promise.all(waiting))).map(acquired)
    expect(permits.map(({ decision }) => decision.repeated)).toEqual([true, true])
    expect(await remaining()).toEqual([97, 0])
    for (const permit of permits) {
      await permit.release()
    }
    expect(await remaining()).toEqual([97, 2])
  })

  test('a rate that refuses other calls does not refuse a repeated one', async () => {
    const limiter = backend.limiter({ rate: fixedWindow({ limit: 1, window: '1h' }), jobs: PLAIN.jobs })
    await acquired(await limiter.acquire('a', { id: 'x' })).release()
    expect((await limiter.acquire('a', { id: 'y' })).decision).toMatchObject({ allowed: false, policy: 'rate' })
    await acquired(await limiter.acquire('a', { id: 'x' })).release()
    // A refused call is decided anew.
    await limiter.reset('a')
    expect((await limiter.acquire('a', { id: 'y' })).decision).toMatchObject({ allowed: true })
  })

  test('concurrency as the only policy: the same permit while it is held, then a new one', async () => {
    const open = backend.sharedKeys()
    const [one, other] = [concurrency({ limit: 2, ttl: '30s' }), concurrency({ limit: 2, ttl: '30s' })].map((policy) =>
      open(policy),
    ) as [ReturnType<typeof plain>, ReturnType<typeof plain>]
    function plain() {
      return open(PLAIN.jobs)
    }
    const remaining = async () => (await one.peek('a', 0)).remaining
    const first = acquired(await one.acquire('a', { id: 'x' }))
    const again = acquired(await other.acquire('a', { cost: 2, id: 'x' }))
    expect([first.decision.repeated, again.decision.repeated, again.units]).toEqual([undefined, true, 1])
    expect(await remaining()).toBe(1)
    expect(await again.release()).toBe(true)
    expect([await first.release(), await remaining()]).toEqual([false, 2])
    const third = acquired(await other.acquire('a', { id: 'x' }))
    expect(await remaining()).toBe(1)
    await backend.pass(40_000)
    expect([third.signal.aborted, await third.release(), await remaining()]).toEqual([false, true, 2])
  })

  test('a call with an id does not get the permit of another call of the process, nor passes its own on', async () => {
    const limiter = backend.limiter(concurrency({ limit: 1, ttl: '30s' }))
    const holder = acquired(await limiter.acquire('a', { id: 'x', maxWait: '1s' }))
    const waiting = ['y', 'y', undefined].map((id) =>
      limiter.acquire('a', { maxWait: '1m', ...(id !== undefined && { id }) }),
    )
    await backend.pass(100)
    expect(await holder.release()).toBe(true)
    const [one, other] = (await backend.until(Promise.all(waiting.slice(0, 2)))).map(acquired)
    expect([one?.decision.repeated, other?.decision.repeated].sort()).toEqual([true, undefined])
    const again = await limiter.acquire('a', { id: 'x' })
    expect(again.allowed).toBe(false)
    expect(await other?.release()).toBe(true)
    const last = acquired(await backend.until(waiting[2] as (typeof waiting)[0]))
    expect(await last.release()).toBe(true)
  })

  test('reserve: the same reservation with its permit, whose end moves', async () => {
    const { one, other, remaining } = pair()
    const options = { id: 'x', ttl: '2m' } as const
    const first = acquired((await one.reserve('a', 2, options)) as Permit<string, never, true>)
    await backend.pass(60_000)
    const again = acquired((await other.reserve('a', 2, options)) as Permit<string, never, true>)
    expect([again.id === first.id, again.expiresAt - first.expiresAt, again.decision.repeated]).toEqual([
      false,
      60_000,
      true,
    ])
    expect(await remaining()).toEqual([98, 0])
    // The permit is not renewed after the end of the reservation, and expires.
    await backend.pass(119_000)
    expect([first.signal.aborted, again.signal.aborted, await remaining()]).toEqual([true, false, [98, 0]])
    await backend.pass(40_000)
    expect([again.signal.aborted, await remaining()]).toEqual([true, [98, 2]])
    const third = acquired((await other.reserve('a', 2, options)) as Permit<string, never, true>)
    expect(await remaining()).toEqual([98, 0])
    expect(await third.commit(1)).toMatchObject({ settled: true, refunded: 0, late: true })
    expect(await remaining()).toEqual([98, 2])
  })

  test('units by meter are those of the first call', async () => {
    const limiter = backend.limiter(METERED)
    const first = acquired(await limiter.acquire('a', { cost: { tokens: 300 }, id: 'x' }))
    await backend.pass(1_000)
    const again = acquired(await limiter.acquire('a', { cost: { tokens: 1, jobs: 3 }, id: 'x' }))
    expect([again.units, first.units]).toEqual([
      { tokens: 300, jobs: 1 },
      { tokens: 300, jobs: 1 },
    ])
    expect(await again.commit({ tokens: 100 })).toMatchObject({ settled: true, refunded: { tokens: 200, jobs: 0 } })
    const { policies } = await limiter.peek('a', { cost: { tokens: 0, jobs: 0 } })
    expect([policies.tokens.used, policies.jobs.used]).toEqual([100, 0])
  })

  test('policies whose units cannot be settled are charged once, too', async () => {
    const limiter = backend.limiter({ rate: slidingCounter({ limit: 100, window: '1h' }), jobs: PLAIN.jobs })
    const used = async () => {
      const { policies } = await limiter.peek('a', 0)
      return [policies.rate.used, policies.jobs.used]
    }
    const first = acquired(await limiter.acquire('a', { id: 'x' }))
    acquired(await limiter.acquire('a', { id: 'x' }))
    expect(await used()).toEqual([1, 1])
    expect(await first.release()).toBe(true)
    const again = acquired(await limiter.acquire('a', { id: 'x' }))
    expect(await used()).toEqual([1, 1])
    expect([await again.release(), await used()]).toEqual([true, [1, 0]])
  })

  test('after idTtl the id is a new call, and reserve shares the ids of acquire', async () => {
    const { one, other, remaining } = pair()
    await acquired(await one.acquire('a', { id: 'x', idTtl: '2m' })).release()
    await backend.pass(119_999)
    const again = await other.reserve('a', 5, { id: 'x' })
    expect([again.allowed, again.decision.repeated, await remaining()]).toEqual([true, true, [99, 1]])
    await backend.pass(1)
    const anew = acquired(await other.acquire('a', { id: 'x' }))
    expect([anew.decision.repeated, await remaining()]).toEqual([undefined, [98, 0]])
  })

  test('calls of one tick get one permit', async () => {
    const { one, remaining } = pair()
    const permits = await Promise.all(Array.from({ length: 5 }, () => one.acquire('a', { id: 'x' })))
    expect(permits.filter(({ decision }) => decision.repeated !== true)).toHaveLength(1)
    expect(await remaining()).toEqual([99, 1])
  })

  test('options that are not valid', async () => {
    const { one } = pair()
    const call = async (options: object) => rejectionOf(one.acquire('a', anything(options)))
    const code = 'INVALID_OPTION'
    expect(await call({ id: '' })).toMatchObject({ code, message: expect.stringContaining('id must be') })
    const orphan = 'acquire: idTtl is the life of an id: give an id, or leave it out'
    expect(await call({ idTtl: '1h' })).toMatchObject({ code, message: orphan })
    expect(await call({ jobId: 'x' })).toMatchObject({ code, message: expect.stringContaining('did you mean "id"?') })
  })
})
