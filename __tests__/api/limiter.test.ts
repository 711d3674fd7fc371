import { fixedWindow, gcra, MemoryStore, type Policy, RateLimiter, tokenBucket } from '../../ts/index.js'
import { limiterOf } from '../clock.js'

const POLICIES: readonly Policy[] = [
  fixedWindow({ limit: 3, window: '1s' }),
  tokenBucket({ capacity: 3, refill: { tokens: 3, every: '1s' } }),
  gcra({ limit: 3, period: '1s' }),
]

describe.each(POLICIES)('$algorithm', (policy) => {
  test('a single caller gets the limit, the last unit as allowed-last, and is then refused', async () => {
    const { limiter } = limiterOf(policy)
    const statuses = []
    for (let call = 0; call < 4; call++) {
      const { status, allowed, remaining } = await limiter.take('user:42')
      statuses.push([status, allowed, remaining])
    }
    expect(statuses).toEqual([
      ['allowed', true, 2],
      ['allowed', true, 1],
      ['allowed-last', true, 0],
      ['refused', false, 0],
    ])
  })

  // promise: retry-is-exact
  test('retryAfterMs is exact, to the millisecond', () => {
    const { limiter, clock } = limiterOf(policy)
    limiter.takeSync('user:42', 3)
    const refused = limiter.takeSync('user:42', 2)
    const wait = refused.retryAfterMs as number
    expect(wait).toBeGreaterThan(0)
    clock.advance(wait - 1)
    expect(limiter.takeSync('user:42', 2).allowed).toBe(false)
    clock.advance(1)
    expect(limiter.takeSync('user:42', 2).allowed).toBe(true)
  })

  test('after resetAfterMs, and not before, the key is fresh', async () => {
    const { limiter, clock } = limiterOf(policy)
    const { resetAfterMs } = limiter.takeSync('user:42', 2)
    clock.advance(resetAfterMs - 1)
    expect((await limiter.peek('user:42')).resetAfterMs).toBe(1)
    clock.advance(1)
    expect(await limiter.peek('user:42')).toMatchObject({ remaining: 3, resetAfterMs: 0 })
  })

  test('a cost above the limit is impossible: it is always refused and charges nothing', async () => {
    const { limiter } = limiterOf(policy)
    const decision = await limiter.take('user:42', 4)
    expect(decision).toMatchObject({ allowed: false, status: 'impossible', retryAfterMs: null, remaining: 3 })
    expect(limiter.takeSync('user:42', 3).status).toBe('allowed-last')
  })
})

test('a decision is a plain object with all numbers, and those of each policy', async () => {
  const { limiter, clock } = limiterOf(gcra({ limit: 100, period: '1m', burst: 20 }))
  const decision = await limiter.take('user:42', { cost: 5 })
  const numbers = {
    limit: 100,
    capacity: 20,
    used: 5,
    remaining: 15,
    retryAfterMs: 0,
    nextAfterMs: 0,
    resetAfterMs: 3_000,
  }
  expect(decision).toEqual({
    allowed: true,
    status: 'allowed',
    policy: 'default',
    ...numbers,
    policies: { default: numbers },
    at: clock.read(),
    retryAt: clock.read(),
    resetAt: clock.read() + 3_000,
    source: 'store',
  })
  expect(Object.getPrototypeOf(decision)).toBe(Object.prototype)
  expect(JSON.parse(JSON.stringify(decision))).toEqual(decision)
})

test('refused and impossible decisions have the same shape', () => {
  const { limiter } = limiterOf(fixedWindow({ limit: 2, window: 1_000 }))
  const allowed = limiter.takeSync('a', 2)
  const refused = limiter.takeSync('a')
  const impossible = limiter.takeSync('a', 3)
  expect(Object.keys(refused)).toEqual(Object.keys(allowed))
  expect(Object.keys(impossible)).toEqual(Object.keys(allowed))
  const numbers = { limit: 2, capacity: 2, used: 2, remaining: 0, nextAfterMs: 1_000, resetAfterMs: 1_000 }
  expect(refused.policies.default).toEqual({ ...numbers, retryAfterMs: 1_000 })
  expect(impossible.policies.default).toEqual({ ...numbers, retryAfterMs: null })
})

test('times are whole milliseconds, rounded up, and an impossible call has none to retry at', () => {
  let now = 1_700_000_000_000.25
  const store = new MemoryStore({ clock: () => now })
  const limiter = new RateLimiter(gcra({ limit: 3, period: '1s', burst: 1 }), { store })
  limiter.takeSync('a')
  now += 100
  const refused = limiter.takeSync('a')
  expect(refused).toMatchObject({ status: 'refused', retryAfterMs: 234, retryAt: 1_700_000_000_334 })
  // The unit comes at …333.584: both are rounded up once.
  expect(refused.resetAt).toBe(1_700_000_000_334)
  expect(refused.retryAt).toBeGreaterThanOrEqual(refused.at + 333 - 100)
  expect(limiter.takeSync('a', 2)).toMatchObject({ status: 'impossible', retryAt: null })
})

test('by the system clock decisions are made in microseconds and carry its time', () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1h' }))
  const before = Date.now()
  const { at } = limiter.takeSync('a')
  expect(at).toBeGreaterThanOrEqual(before)
  expect(at).toBeLessThanOrEqual(Date.now() + 1)
  const times = Array.from({ length: 50 }, () => limiter.takeSync('b').at)
  expect(times.some((time) => !Number.isInteger(time))).toBe(true)
})

test('takeMany decides each key independently, in order, with one cost or one for each key', async () => {
  const { limiter } = limiterOf(fixedWindow({ limit: 2, window: '1s' }))
  const same = await limiter.takeMany(['a', 'b', 'a', 'a'])
  expect(same.map((decision) => decision.status)).toEqual(['allowed', 'allowed', 'allowed-last', 'refused'])
  const costs = await limiter.takeMany(['b', 'c', 'd'], [1, 2, 3])
  expect(costs.map((decision) => decision.status)).toEqual(['allowed-last', 'allowed-last', 'impossible'])
  const cost = await limiter.takeMany(['e', 'f'], { cost: 2 })
  expect(cost.map((decision) => decision.remaining)).toEqual([0, 0])
  expect(await limiter.takeMany([])).toEqual([])
})

test('calls made in one tick take effect in call order', async () => {
  const { limiter } = limiterOf(fixedWindow({ limit: 3, window: '1s' }))
  const calls = [limiter.take('a'), limiter.take('a', 2), limiter.take('a'), limiter.takeMany(['a'])]
  const [first, second, third] = await Promise.all(calls)
  expect([first, second, third]).toMatchObject([{ remaining: 2 }, { remaining: 0 }, { status: 'refused' }])
})

test('peek returns the decision that take would, with current numbers, and charges nothing', async () => {
  const { limiter } = limiterOf(fixedWindow({ limit: 3, window: '1s' }))
  expect(await limiter.peek('a')).toMatchObject({ status: 'allowed', remaining: 3, resetAfterMs: 0 })
  limiter.takeSync('a', 2)
  expect(await limiter.peek('a')).toMatchObject({ status: 'allowed-last', remaining: 1, resetAfterMs: 1_000 })
  expect(await limiter.peek('a', 2)).toMatchObject({ status: 'refused', remaining: 1, retryAfterMs: 1_000 })
  expect(await limiter.peek('a', 4)).toMatchObject({ status: 'impossible', retryAfterMs: null })
  expect(await limiter.peek('a', 0)).toMatchObject({ status: 'allowed', remaining: 1, retryAfterMs: 0 })
  expect(await limiter.peek('a', { cost: 0 })).toMatchObject({ remaining: 1 })
})

test('reset makes one key fresh', async () => {
  const { limiter } = limiterOf(fixedWindow({ limit: 1, window: '1s' }))
  await limiter.takeMany(['a', 'b'])
  await limiter.reset('a')
  await limiter.reset('never seen')
  expect(limiter.takeSync('a').allowed).toBe(true)
  expect(limiter.takeSync('b').allowed).toBe(false)
})

test('the policies can be read, but not changed', () => {
  const { limiter } = limiterOf(gcra({ limit: 100, period: '1m' }))
  expect(limiter.policies).toEqual({ default: { algorithm: 'gcra', limit: 100, period: 60_000 } })
  expect(Object.isFrozen(limiter.policies)).toBe(true)
  expect(Object.isFrozen(limiter.policies.default)).toBe(true)
})

test('a closed limiter refuses calls with CLOSED, and may be closed again', async () => {
  const { limiter } = limiterOf(gcra({ limit: 1, period: '1s' }))
  await limiter.ready()
  await limiter.close()
  await limiter.close()
  const closed = expect.objectContaining({ name: 'TollgateError', code: 'CLOSED', charged: false })
  expect(() => limiter.takeSync('a')).toThrow(closed)
  await expect(limiter.take('a')).rejects.toEqual(closed)
  await expect(limiter.takeMany(['a'])).rejects.toEqual(closed)
  await expect(limiter.peek('a')).rejects.toEqual(closed)
  await expect(limiter.reset('a')).rejects.toEqual(closed)
  await expect(limiter.ready()).rejects.toEqual(closed)
})

test('`await using` closes it', async () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1s' }))
  await limiter[Symbol.asyncDispose]()
  await expect(limiter.take('a')).rejects.toMatchObject({ code: 'CLOSED' })
})

test('each limiter without a store gets its own', () => {
  const policy = gcra({ limit: 1, period: '1h' })
  const [one, other] = [new RateLimiter(policy), new RateLimiter(policy)]
  expect(one.takeSync('a').allowed).toBe(true)
  expect(other.takeSync('a').allowed).toBe(true)
  expect(one).toBeInstanceOf(RateLimiter)
})

test('over a long trace of the real clock a limiter admits exactly what its law allows', async () => {
  const limiter = new RateLimiter(gcra({ limit: 1_001, period: '1s', burst: 7 }))
  const admitted: number[] = []
  const until = Date.now() + 30_000
  while (admitted.length < 300 && Date.now() < until) {
    const decision = await limiter.take('hot')
    if (decision.allowed) {
      admitted.push(Math.round(decision.at * 1_000))
    }
  }
  expect(admitted).toHaveLength(300)
  admitted.forEach((first, index) => {
    for (let last = index; last < admitted.length; last++) {
      const bound = 7 * 1_000_000 + ((admitted[last] as number) - first) * 1_001
      expect((last - index + 1) * 1_000_000).toBeLessThanOrEqual(bound)
    }
  })
})
