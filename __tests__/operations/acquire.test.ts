/** Permits: units that are held until they are released or expire. */
import { concurrency, gcra, type Permit, tiers } from '../../ts/index.js'
import { BACKENDS } from './stores.js'

/** A limiter in a program that is not checked by TypeScript. */
type UncheckedLimiter = Readonly<
  Record<
    'acquire' | 'take' | 'takeMany' | 'takeUpTo' | 'penalize' | 'reserve' | 'wait',
    (...args: unknown[]) => Promise<unknown>
  >
>

/** A permit that was acquired. */
function acquired<N extends string>(permit: Permit<N>): Extract<Permit<N>, { readonly allowed: true }> {
  if (!permit.allowed) {
    throw new Error(`not allowed: ${permit.decision.status}`)
  }
  return permit
}

describe.each(BACKENDS)('acquire: $name', (backend) => {
  const two = () => backend.limiter(concurrency({ limit: 2, ttl: '1m' }))

  test('a refusal tells when a permit is expected, by the latest holds', async () => {
    const limiter = two()
    const hold = async (millis: number) => {
      const permit = acquired(await limiter.acquire('b'))
      await backend.pass(millis)
      await permit.release()
    }
    const permits = [acquired(await limiter.acquire('a')), acquired(await limiter.acquire('a'))]
    const timesOf = async () => {
      const { decision } = await limiter.acquire('a')
      const { retryAfterMs, nextAfterMs, retryAt, at, policies } = decision
      expect(policies.default).toMatchObject({ retryAfterMs, nextAfterMs })
      expect(retryAt).toBe(Math.ceil(at + (retryAfterMs ?? 0)))
      return [retryAfterMs, nextAfterMs]
    }
    expect(await timesOf()).toEqual([60_000, 60_000])
    await hold(800)
    expect(await timesOf()).toEqual([800, 800])
    await hold(1_600)
    // A moving mean: the latest hold is an eighth of it.
    expect(await timesOf()).toEqual([900, 900])
    await Promise.all(permits.map((permit) => permit.release()))
  })

  test('a refusal never tells a later time than that at which a permit expires', async () => {
    const limiter = backend.limiter(concurrency({ limit: 2, ttl: '20s' }))
    const held = acquired(await limiter.acquire('b'))
    await backend.pass(15_000)
    await held.release()
    await limiter.acquire('a', { cost: 2 })
    await backend.pass(6_000)
    const { decision } = await limiter.acquire('a')
    expect(decision.retryAfterMs).toBeLessThan(15_000)
    expect(decision.retryAfterMs).toBe((await limiter.peek('a')).retryAfterMs)
  })

  test('a permit of another process is found sooner if permits are held for a short time', async () => {
    const [one, other] = backend.limiterPair(concurrency({ limit: 1 }))
    const passed = async () => {
      const held = acquired(await one.acquire('a'))
      const waiting = other.acquire('a', { maxWait: 5_000 })
      await backend.pass(101)
      await held.release()
      const releasedAt = backend.now()
      const permit = acquired(await backend.until(waiting))
      const lateMs = backend.now() - releasedAt
      await backend.pass(10)
      await permit.release()
      return lateMs
    }
    // Requests every 20 ms, then every 5 ms.
    expect(await passed()).toBeGreaterThan(10)
    expect(await passed()).toBeLessThanOrEqual(5)
  })

  test('permits hold units until they are released', async () => {
    const limiter = two()
    const first = acquired(await limiter.acquire('a'))
    expect(first.decision).toMatchObject({ status: 'allowed', limit: 2, remaining: 1 })
    const second = acquired(await limiter.acquire('a'))
    expect(second.decision).toMatchObject({ status: 'allowed-last', remaining: 0 })
    const refused = await limiter.acquire('a')
    expect(refused).toMatchObject({ allowed: false, decision: { status: 'refused', remaining: 0 } })
    expect(refused.decision.retryAfterMs).toBe(60_000)
    expect(await first.release()).toBe(true)
    expect(await first.release()).toBe(true)
    expect((await limiter.peek('a', 0)).remaining).toBe(1)
    expect((await limiter.acquire('b', { cost: 3 })).decision.status).toBe('impossible')
    const third = acquired(await limiter.acquire('a'))
    await Promise.all([second.release(), third.release()])
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 2, resetAfterMs: 0 })
  })

  test('a cost is held as a whole, and a call in a block of code releases it', async () => {
    const limiter = two()
    {
      await using permit = await limiter.acquire('a', { cost: 2 })
      expect(permit).toMatchObject({ allowed: true, units: 2 })
      await using none = await limiter.acquire('a')
      expect(none.allowed).toBe(false)
    }
    expect((await limiter.peek('a', 0)).remaining).toBe(2)
  })

  test('waiting calls get permits in order, and a late one gets none', async () => {
    const limiter = two()
    const held = [acquired(await limiter.acquire('a')), acquired(await limiter.acquire('a'))]
    const order: number[] = []
    const waiting = [0, 1, 2, 3].map(async (index) => {
      const permit = acquired(await limiter.acquire('a', { maxWait: 5_000 }))
      order.push(index)
      await permit.release()
    })
    const start = backend.now()
    const late = await backend.until(limiter.acquire('a', { maxWait: 60 }))
    expect(late).toMatchObject({ allowed: false, decision: { status: 'refused' } })
    // Its last request is sent when its time is over.
    expect(backend.now() - start).toBe(60)
    for (const permit of held) {
      await permit.release()
    }
    await backend.until(Promise.all(waiting))
    expect(order).toEqual([0, 1, 2, 3])
    expect((await limiter.peek('a', 0)).remaining).toBe(2)
  })

  test('the retry of a call that stops waiting does not count its own turn', async () => {
    const [limiter, other] = backend.limiterPair(concurrency({ limit: 1, ttl: 500 }))
    const held = acquired(await other.acquire('a'))
    const late = await backend.until(limiter.acquire('a', { maxWait: 60 }))
    expect(late).toMatchObject({ allowed: false, decision: { status: 'refused', remaining: 0 } })
    expect(late.decision.retryAfterMs).toBeLessThanOrEqual(500)
    expect(late.decision.resetAfterMs).toBeLessThanOrEqual(500)
    await held.release()
  })

  test('units that are released at once go to all waiting calls that fit', async () => {
    const [limiter, other] = backend.limiterPair(concurrency({ limit: 40, ttl: '1m' }))
    const held = acquired(await other.acquire('a', { cost: 40 }))
    const waiting = Array.from({ length: 40 }, () => limiter.acquire('a', { maxWait: 4_000 }))
    await backend.pass(50)
    await held.release()
    const start = backend.now()
    const permits = (await backend.until(Promise.all(waiting))).map(acquired)
    // One request finds the units, and each answer asks for more calls at once.
    expect(backend.now() - start).toBeLessThanOrEqual(20)
    await Promise.all(permits.map((permit) => permit.release()))
    expect((await limiter.peek('a', 0)).remaining).toBe(40)
  })

  test('a signal ends the wait, and close ends all', async () => {
    const limiter = two()
    const held = acquired(await limiter.acquire('a', { cost: 2 }))
    const aborting = new AbortController()
    const aborted = limiter.acquire('a', { maxWait: 5_000, signal: aborting.signal })
    await backend.pass(5)
    aborting.abort(new Error('enough'))
    await expect(aborted).rejects.toMatchObject({ code: 'ABORTED', cause: { message: 'enough' } })
    await expect(limiter.acquire('a', { signal: aborting.signal })).rejects.toMatchObject({ code: 'ABORTED' })
    const closed = limiter.acquire('a', { maxWait: 5_000 })
    const { signal } = held
    await Promise.all([expect(closed).rejects.toMatchObject({ code: 'CLOSED' }), limiter.close()])
    expect(signal.aborted).toBe(true)
    expect(await held.release()).toBe(false)
    await expect(limiter.acquire('a')).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test('permits that are granted while the limiter is closed are released', async () => {
    const [closing, other] = backend.limiterPair(concurrency({ limit: 2, ttl: '1m' }))
    const calls = [closing.acquire('a'), closing.acquire('a', { maxWait: 5_000 })]
    const closed = closing.close()
    for (const call of calls) {
      await expect(call).rejects.toMatchObject({ code: 'CLOSED' })
    }
    await closed
    expect((await other.acquire('a', { cost: 2 })).allowed).toBe(true)
  })

  test('a permit is renewed while its process lives, and lost if the key is reset', async () => {
    const limiter = backend.limiter(concurrency({ limit: 1, ttl: 600 }))
    const permit = acquired(await limiter.acquire('a'))
    const { signal } = permit
    for (let times = 0; times < 5; times++) {
      await backend.pass(599)
      expect((await limiter.acquire('a')).allowed).toBe(false)
    }
    expect(signal.aborted).toBe(false)
    await limiter.reset('a')
    const other = acquired(await limiter.acquire('a'))
    await backend.pass(300)
    expect(signal).toMatchObject({ aborted: true, reason: { code: 'PERMIT_LOST' } })
    expect(await permit.release()).toBe(false)
    expect(await other.release()).toBe(true)
  })

  test('with rates all or nothing is taken', async () => {
    const limiter = backend.limiter({
      rate: gcra({ limit: 2, period: '1h' }),
      atOnce: concurrency({ limit: 1, ttl: '1m' }),
    })
    const first = acquired(await limiter.acquire('a'))
    const refused = await limiter.acquire('a')
    expect(refused.decision).toMatchObject({ status: 'refused', policy: 'atOnce' })
    expect(refused.decision.policies.rate.remaining).toBe(1)
    await first.release()
    await acquired(await limiter.acquire('a')).release()
    const other = await limiter.acquire('a')
    expect(other.decision).toMatchObject({ status: 'refused', policy: 'rate' })
    expect(other.decision.policies.atOnce.remaining).toBe(1)
  })

  test('each policy holds by its own key dimension', async () => {
    const limiter = backend.limiter({
      user: concurrency({ limit: 1, per: 'user' }),
      all: concurrency({ limit: 2, per: 'global' }),
    })
    const [ann, bob] = [
      acquired(await limiter.acquire({ user: 'ann' })),
      acquired(await limiter.acquire({ user: 'bob' })),
    ]
    expect((await limiter.acquire({ user: 'ann' })).decision.policies.user.remaining).toBe(0)
    const waiting = limiter.acquire({ user: 'eve' }, { maxWait: 5_000 })
    await ann.release()
    const eve = acquired(await backend.until(waiting))
    expect((await limiter.acquire({ user: 'ann' })).decision.policy).toBe('all')
    await Promise.all([bob.release(), eve.release()])
    expect((await limiter.peek({ user: 'ann' }, 0)).policies.all.remaining).toBe(2)
  })

  test('tiers, updates, overrides and blocks', async () => {
    const limiter = backend.limiter(tiers({ free: concurrency({ limit: 1 }), pro: concurrency({ limit: 3 }) }))
    const free = acquired(await limiter.acquire('a', { tier: 'free' }))
    expect((await limiter.acquire('a', { tier: 'free' })).allowed).toBe(false)
    const pro = acquired(await limiter.acquire('a', { tier: 'pro', cost: 2 }))
    await Promise.all([free.release(), pro.release()])
    const plain = two()
    plain.update(concurrency({ limit: 1, ttl: '2m' }))
    await plain.override('a', { limit: 4 }, { ttl: '1h' })
    expect((await plain.acquire('a', { cost: 4 })).allowed).toBe(true)
    expect((await plain.acquire('b', { cost: 2 })).decision.status).toBe('impossible')
    await plain.block('b', '1m')
    expect((await plain.acquire('b', { maxWait: 5_000 })).decision.status).toBe('blocked')
  })

  test('a refused call is a strike, and a call that waits is none', async () => {
    const limiter = backend.limiter(concurrency({ limit: 1 }), { ban: { after: 1, period: '1m', for: ['1m'] } })
    const held = acquired(await limiter.acquire('a'))
    expect((await backend.until(limiter.acquire('a', { maxWait: 30 }))).decision.status).toBe('refused')
    expect((await limiter.acquire('a')).decision).toMatchObject({ status: 'blocked', ban: { step: 1 } })
    expect(await held.release()).toBe(true)
    expect((await limiter.acquire('a')).decision.status).toBe('blocked')
  })

  test('a permit lives by the numbers of its tier under an override of another tier', async () => {
    const limiter = backend.limiter(
      tiers({ short: concurrency({ limit: 1, ttl: '1m' }), long: concurrency({ limit: 1, ttl: '1h' }) }),
    )
    await limiter.override('a', { limit: 5 }, { ttl: '1h', tier: 'short' })
    const permit = acquired(await limiter.acquire('a', { tier: 'long' }))
    expect(permit.decision).toMatchObject({ limit: 5, resetAfterMs: 3_600_000 })
    expect(await permit.release()).toBe(true)
  })

  test('methods that take units without a permit name acquire, and acquire names its policy', async () => {
    const limiter = two() as unknown as UncheckedLimiter
    for (const [method, ...args] of [
      ['take', 'a'],
      ['take', 'a', 2],
      ['takeMany', ['a']],
      ['takeUpTo', 'a', 2],
      ['penalize', 'a'],
      ['reserve', 'a', 1],
      ['wait', 'a'],
    ] as const) {
      await expect(limiter[method](...args)).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('acquire(key'),
      })
    }
    const rate = backend.limiter(gcra({ limit: 1, period: '1s' })) as unknown as typeof limiter
    await expect(rate.acquire('a')).rejects.toThrow('acquire needs a concurrency policy; make the limiter with')
    await expect(limiter.acquire('a', { maxWaitMs: 1 })).rejects.toThrow('did you mean "maxWait"?')
    await expect(limiter.acquire('a', { cost: 0 })).rejects.toMatchObject({ code: 'INVALID_COST' })
    await expect(limiter.acquire('a', {}, 1)).rejects.toThrow('acquire takes a key and options')
  })
})
