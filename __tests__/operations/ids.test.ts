/** Calls with an id: the first one is charged, and the others get its decision. */
import {
  type Decision,
  fixedWindow,
  gcra,
  type Policy,
  RateLimiter,
  type Reservation,
  slidingLog,
  tiers,
  tokenBucket,
} from '../../ts/index.js'
import { anything } from '../failure.js'
import { SAMPLES } from '../policies/samples.js'
import { BACKENDS } from './stores.js'

const EACH = Object.entries<Policy>({
  ...SAMPLES,
  'fixedWindow, countRefused': fixedWindow({ limit: 10, window: '1h', countRefused: true }),
})

const REPEATED = { repeated: true }

function reserved<N extends string, M extends string>(
  reservation: Reservation<N, M>,
): Extract<Reservation<N, M>, { readonly allowed: true }> {
  if (!reservation.allowed) {
    throw new Error(`not allowed: ${reservation.decision.status}`)
  }
  return reservation
}

describe.each(BACKENDS)('ids: $name', (backend) => {
  const plain = () => backend.limiter(fixedWindow({ limit: 10, window: '1h' }))

  test.each(EACH)('%s: a repeated take gets the first decision, and charges nothing', async (_, policy) => {
    const limiter = backend.limiter(anything(policy)) as unknown as ReturnType<typeof plain>
    const first = await limiter.take('a', { cost: 3, id: 'job:17' })
    expect(first).not.toHaveProperty('repeated')
    await limiter.take('a', 2)
    await backend.pass(5)
    const before = await limiter.peek('a', 0)
    expect(await limiter.take('a', { cost: 3, id: 'job:17' })).toEqual({ ...first, ...REPEATED })
    // Its cost is that of the first call.
    expect(await limiter.take('a', { cost: 1_000, id: 'job:17' })).toEqual({ ...first, ...REPEATED })
    expect(await limiter.tryTake('a', { id: 'job:17' })).toBe(true)
    expect((await limiter.peek('a', 0)).used).toBe(before.used)
    expect((await limiter.take('a', { id: 'job:18' })).used).toBeGreaterThan(before.used)
  })

  // promise: charged-once-by-id
  test('several limits, with marks and with numbers of their own', async () => {
    const policies = {
      burst: tokenBucket({ capacity: 10, refill: { tokens: 10, every: '1s' } }),
      daily: slidingLog({ limits: { few: { limit: 8, window: '1m' }, many: { limit: 30, window: '1h' } } }),
    }
    const limiter = backend.limiter(policies)
    const taken = await limiter.take('a', 4)
    await limiter.refund(taken, 1)
    await limiter.override('a', { burst: { capacity: 20 } }, { ttl: '1h' })
    const first = await limiter.take('a', { cost: 2, id: 'x' })
    expect(first.policies.burst.limit).toBe(20)
    await limiter.clearOverride('a')
    await limiter.take('a')
    expect(await limiter.take('a', { cost: 2, id: 'x' })).toEqual({ ...first, ...REPEATED })
  })

  test('a refused call charged nothing, so a later call with its id is decided anew', async () => {
    const limiter = backend.limiter(gcra({ limit: 10, period: '1s', burst: 2 }))
    await limiter.take('a', 2)
    for (const _ of [1, 2]) {
      const refused = await limiter.take('a', { id: 'job' })
      expect(refused).toMatchObject({ allowed: false, status: 'refused' })
      expect(refused).not.toHaveProperty('repeated')
    }
    await backend.pass(100)
    const first = await limiter.take('a', { id: 'job' })
    expect(first.allowed).toBe(true)
    expect(await limiter.take('a', { id: 'job' })).toEqual({ ...first, ...REPEATED })
  })

  test('an id is remembered for its life, on its key, and until a reset', async () => {
    const limiter = plain()
    const used = async (id: string, key = 'a') => (await limiter.take(key, { id, idTtl: '2s' })).used
    expect([await used('x'), await used('x'), await used('y'), await used('x', 'b')]).toEqual([1, 1, 2, 1])
    await backend.pass(1_999)
    expect(await used('x')).toBe(1)
    await backend.pass(1)
    expect([await used('x'), await used('x')]).toEqual([3, 3])
    await limiter.reset('a')
    expect([await used('x'), await used('x')]).toEqual([1, 1])
  })

  test('the default life is ten minutes, and the longest is a day', async () => {
    const limiter = plain()
    await limiter.take('a', { id: 'short' })
    await limiter.take('a', { id: 'long', idTtl: '1d' })
    await backend.pass(599_999)
    expect(await limiter.take('a', { id: 'short' })).toMatchObject(REPEATED)
    await backend.pass(1)
    expect(await limiter.take('a', { id: 'short' })).not.toHaveProperty('repeated')
    await backend.pass(86_400_000 - 600_001)
    expect(await limiter.take('a', { id: 'long' })).toMatchObject(REPEATED)
    await backend.pass(1)
    expect(await limiter.take('a', { id: 'long' })).not.toHaveProperty('repeated')
  })

  test('an id may have any characters, and its bytes are compared', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 1_000, window: '1h' }))
    const ids = ['a', 'A', 'a\0', '\0', 'ä', '𝄞', '{a}:b', "'; DROP", 'a'.repeat(128), `b${'a'.repeat(127)}`, '\n', ' ']
    for (const length of Array.from({ length: 34 }, (_, index) => index + 1)) {
      ids.push('x'.repeat(length))
    }
    for (const _ of [1, 2]) {
      for (const [index, id] of ids.entries()) {
        expect([id, (await limiter.take('a', { id })).used]).toEqual([id, index + 1])
      }
    }
  })

  test('calls of one tick with the same id are charged once', async () => {
    const limiter = plain()
    const decisions = await Promise.all(Array.from({ length: 5 }, () => limiter.take('a', { cost: 2, id: 'x' })))
    expect(decisions.filter(({ repeated }) => repeated !== true)).toHaveLength(1)
    expect(decisions.map(({ used }) => used)).toEqual([2, 2, 2, 2, 2])
    expect((await limiter.peek('a', 0)).used).toBe(2)
  })

  test('limiters of other processes on the same keys share the ids', async () => {
    const [one, other] = backend.limiterPair(gcra({ limit: 10, period: '1m', burst: 10 }))
    const first = await one.take('a', { cost: 4, id: 'x' })
    expect(await other.take('a', { cost: 4, id: 'x' })).toEqual({ ...first, ...REPEATED })
  })

  test('a refund of either decision returns the units', async () => {
    for (const choose of [0, 1]) {
      const limiter = plain()
      const first = await limiter.take('a', { cost: 4, id: 'x' })
      const repeated = await limiter.take('a', { cost: 9, id: 'x' })
      const chosen = [first, repeated][choose] as Decision<'default'>
      expect(await limiter.refund(chosen)).toBe(4)
      expect(await limiter.refund(chosen)).toBe(0)
      expect((await limiter.peek('a', 0)).used).toBe(0)
    }
  })

  test('a block refuses a new call, but not a repeated one', async () => {
    const limiter = plain()
    const first = await limiter.take('a', { id: 'x' })
    await limiter.block('a', '1m')
    expect(await limiter.take('a', { id: 'x' })).toEqual({ ...first, ...REPEATED })
    expect((await limiter.take('a', { id: 'y' })).status).toBe('blocked')
  })

  test('keys with parts: the id belongs to the key of the first policy', async () => {
    const limiter = backend.limiter({
      ip: fixedWindow({ limit: 10, window: '1h', per: 'ip' }),
      user: fixedWindow({ limit: 10, window: '1h', per: 'user' }),
    })
    const first = await limiter.take({ ip: '1', user: 'a' }, { id: 'x' })
    expect(await limiter.take({ ip: '1', user: 'b' }, { id: 'x' })).toEqual({ ...first, ...REPEATED })
    expect(await limiter.take({ ip: '2', user: 'a' }, { id: 'x' })).not.toHaveProperty('repeated')
  })

  test('costs by meter are those of the first call', async () => {
    const limiter = backend.limiter({
      calls: fixedWindow({ limit: 10, window: '1h' }),
      tokens: tokenBucket({ capacity: 1_000, refill: { tokens: 10, every: '1h' }, meter: 'tokens' }),
    })
    const first = await limiter.take('a', { cost: { tokens: 300 }, id: 'x' })
    expect(await limiter.take('a', { cost: { tokens: 1 }, id: 'x' })).toEqual({ ...first, ...REPEATED })
    const repeated = await limiter.take('a', { cost: { tokens: 1, calls: 2 }, id: 'x' })
    expect(await limiter.refund(repeated)).toEqual({ calls: 1, tokens: 300 })
    const { policies } = await limiter.peek('a', { cost: { tokens: 0, calls: 0 } })
    expect([policies.calls.used, policies.tokens.used]).toEqual([0, 0])
    // Nothing was charged, and so nothing is remembered.
    await limiter.take('a', { cost: { tokens: 0, calls: 0 }, id: 'none' })
    expect(await limiter.take('a', { cost: { tokens: 5 }, id: 'none' })).not.toHaveProperty('repeated')
  })

  test('with tiers all tiers of a key share the ids', async () => {
    const policy = tiers({ free: gcra({ limit: 5, period: '1m' }), pro: gcra({ limit: 50, period: '1m' }) })
    const limiter = backend.limiter(policy)
    const first = await limiter.take('a', { tier: 'free', id: 'x' })
    expect(await limiter.take('a', { tier: 'free', id: 'x' })).toEqual({ ...first, ...REPEATED })
    const other = await limiter.take('a', { tier: 'pro', id: 'x' })
    expect(other).toMatchObject({ allowed: true, repeated: true, at: first.at })
  })

  test('reserve: a repeated call returns the same reservation, which is settled once', async () => {
    const limiter = plain()
    const options = { id: 'call:9', ttl: '1m' } as const
    const first = reserved(await limiter.reserve('a', 6, options))
    await limiter.take('a')
    await backend.pass(1_000)
    const repeated = reserved(await limiter.reserve('a', 2, options))
    expect(repeated.decision).toEqual({ ...first.decision, ...REPEATED })
    expect([repeated.units, repeated.expiresAt, repeated.id]).toEqual([6, first.expiresAt, first.id])
    expect((await limiter.peek('a', 0)).used).toBe(7)
    expect(await repeated.commit(1)).toEqual({
      settled: true,
      refunded: 5,
      charged: 0,
      owed: 0,
      shortfall: 0,
      late: false,
    })
    expect(await first.commit(1)).toEqual({ settled: false, reason: 'settled-before' })
    const again = reserved(await limiter.reserve('a', 6, options))
    expect(await again.commit(0)).toEqual({ settled: false, reason: 'settled-before' })
    expect((await limiter.peek('a', 0)).used).toBe(2)
  })

  test('reserve: the end is that of a renewal, and the id lives as long as the reservation', async () => {
    const limiter = plain()
    const first = reserved(await limiter.reserve('a', 2, { id: 'x', ttl: '1h' }))
    const renewal = await first.renew('2h')
    expect(renewal.renewed).toBe(true)
    await backend.pass(3_599_999)
    const repeated = reserved(await limiter.reserve('a', 2, { id: 'x', ttl: '1h' }))
    expect(repeated.expiresAt).toBe(first.expiresAt)
    await backend.pass(1)
    expect(reserved(await limiter.reserve('a', 2, { id: 'x' })).decision).not.toHaveProperty('repeated')
  })

  test('reserve: units by meter, and ids separate from those of take', async () => {
    const limiter = backend.limiter({
      calls: fixedWindow({ limit: 10, window: '1h' }),
      tokens: tokenBucket({ capacity: 1_000, refill: { tokens: 10, every: '1h' }, meter: 'tokens' }),
    })
    const taken = await limiter.take('a', { cost: { tokens: 1 }, id: 'x' })
    expect(taken).not.toHaveProperty('repeated')
    const first = reserved(await limiter.reserve('a', { tokens: 400 }, { id: 'x' }))
    expect(first.decision).not.toHaveProperty('repeated')
    const repeated = reserved(await limiter.reserve('a', { tokens: 1 }, { id: 'x' }))
    expect([repeated.units, repeated.id]).toEqual([{ calls: 1, tokens: 400 }, first.id])
    expect(await repeated.commit({ tokens: 100 })).toMatchObject({ settled: true, refunded: { calls: 0, tokens: 300 } })
    expect(await limiter.settle(first.id)).toEqual({ settled: false, reason: 'settled-before' })
  })

  test('a refused reservation is decided anew', async () => {
    const limiter = plain()
    await limiter.take('a', 9)
    expect((await limiter.reserve('a', 2, { id: 'x' })).allowed).toBe(false)
    await limiter.reset('a')
    expect((await limiter.reserve('a', 2, { id: 'x' })).decision).not.toHaveProperty('repeated')
    expect((await limiter.reserve('a', 2, { id: 'x' })).decision).toMatchObject(REPEATED)
  })

  test('a key has at most 10,000 open ids and reservations: a further one charges nothing', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 1_000_000, window: '1d' }))
    const take = (id: string) => limiter.take('a', { id, idTtl: '1m' })
    await limiter.reserve('a', 1, { ttl: '1m' })
    await Promise.all(Array.from({ length: 9_999 }, (_, index) => take(`${index}`)))
    const full = { code: 'STORE_FULL', charged: false, message: expect.stringContaining('10,000') }
    await expect(take('one more')).rejects.toMatchObject(full)
    await expect(limiter.reserve('a', 1)).rejects.toMatchObject(full)
    await expect(limiter.reserve('a', 1, { id: 'new' })).rejects.toMatchObject(full)
    expect(await take('17')).toMatchObject(REPEATED)
    expect((await limiter.take('a')).used).toBe(10_001)
    await backend.pass(60_000)
    expect(await take('one more')).not.toHaveProperty('repeated')
  }, 60_000)

  test('options that are not valid', async () => {
    const limiter = plain()
    const message = async (call: Promise<unknown>): Promise<string> => {
      const error: unknown = await call.then(
        () => new Error('it was accepted'),
        (error: unknown) => error,
      )
      expect(error).toMatchObject({ code: 'INVALID_OPTION', charged: false })
      return (error as Error).message
    }
    const take = (options: object) => message(limiter.take('a', anything(options)))
    const idRule = 'id must be a well-formed string of 1 to 128 bytes of UTF-8, got'
    expect(await take({ id: '' })).toBe(`${idRule} ""`)
    expect(await take({ id: 17 })).toBe(`${idRule} 17`)
    expect(await take({ id: '\ud800' })).toContain(idRule)
    expect(await take({ id: 'ä'.repeat(65) })).toMatch(/…": use a hash of it$/)
    expect(await take({ idTtl: '1h' })).toBe('take: idTtl is the life of an id: give an id, or leave it out')
    expect(await take({ id: 'x', idTtl: '25h' })).toBe('idTtl must be at most \'1d\', got "25h"')
    expect(await take({ id: 'x', idTtl: 0 })).toContain('idTtl')
    const least = 'idTtl must be at least the ttl of the reservation, 120000 ms, got "1m"'
    expect(await message(limiter.reserve('a', 1, { id: 'x', ttl: '2m', idTtl: '1m' }))).toBe(least)
    for (const name of ['idempotencyKey', 'requestId', 'jobId']) {
      expect(await take({ [name]: 'x' })).toContain(`take has no option "${name}"; did you mean "id"?`)
      expect(await message(limiter.reserve('a', 1, anything({ [name]: 'x' })))).toContain('did you mean "id"?')
    }
    const others = [
      limiter.peek('a', anything({ id: 'x' })),
      limiter.takeMany(['a'], anything({ id: 'x' })),
      limiter.takeUpTo('a', 1, anything({ id: 'x' })),
      limiter.penalize('a', 1, anything({ id: 'x' })),
    ]
    for (const other of others) {
      expect(await message(other)).toContain('only take, tryTake, takeSync, reserve and acquire take an id')
    }
    expect((await limiter.peek('a', 0)).used).toBe(0)
  })
})

test('takeSync takes an id', () => {
  const limiter = new RateLimiter(gcra({ limit: 10, period: '1m', burst: 10 }))
  const first = limiter.takeSync('a', { cost: 2, id: 'x' })
  limiter.takeSync('a')
  const repeated: Decision<'default'> = limiter.takeSync('a', { cost: 2, id: 'x' })
  expect(repeated).toEqual({ ...first, ...REPEATED })
  expect(repeated.remaining).toBe(8)
})
