import { leakyBucket, MemoryStore, RateLimiter } from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { anything, failureOf } from '../failure.js'
import { openedRedis } from '../redis/opened.js'

const redis = openedRedis()

describe('options', () => {
  test('the policy is frozen plain data, accepted by its factory', () => {
    const policy = leakyBucket({ capacity: 15, leak: { units: 1, every: '2s' } })
    expect(policy).toEqual({ algorithm: 'leakyBucket', capacity: 15, leak: { units: 1, every: 2_000 } })
    expect(Object.isFrozen(policy) && Object.isFrozen(policy.leak)).toBe(true)
    expect(new RateLimiter(JSON.parse(JSON.stringify(policy))).takeSync('a').limit).toBe(15)
  })

  test.each([0, -1, 0.5, NaN, 2 ** 53, '10', null, undefined])(
    'the error for a number of %p has the name and the rule',
    (bad) => {
      const rule = 'must be a whole number from 1 to 2^53 - 1, got '
      const capacity = failureOf(() => leakyBucket({ capacity: anything(bad), leak: { units: 1, every: 1 } }))
      expect(capacity.message).toMatch(`leakyBucket: capacity ${rule}`)
      const units = failureOf(() => leakyBucket({ capacity: 1, leak: { units: anything(bad), every: 1 } }))
      expect(units.message).toMatch(`leakyBucket: leak.units ${rule}`)
      expect(units.code).toBe('INVALID_POLICY')
    },
  )

  test('errors name other invalid options', () => {
    const every = () => leakyBucket({ capacity: 1, leak: { units: 1, every: anything('1y') } })
    expect(failureOf(every).message).toMatch(/^leakyBucket: leak.every must be a duration/)
    const rate = { capacity: 1, leak: { rate: 1 } }
    expect(failureOf(() => leakyBucket(anything(rate))).message).toBe(
      'leakyBucket: leak has no option "rate"; did you mean "units"? It takes units, every',
    )
    expect(failureOf(() => leakyBucket(anything({ capacity: 1 }))).message).toMatch(/leak takes an object/)
    const years = leakyBucket({ capacity: 100_000, leak: { units: 1, every: '1d' } })
    expect(failureOf(() => new RateLimiter(years)).message).toMatch(
      /^leakyBucket: capacity must refill from empty within 2\^52/,
    )
  })
})

/** The funnel: each call has a quota, its weight, and the bucket leaks evenly. */
test('a funnel takes weights while they fit, and reports when the next will fit', () => {
  const clock = new FakeClock()
  const store = new MemoryStore({ clock: clock.read })
  const funnel = new RateLimiter(leakyBucket({ capacity: 15, leak: { units: 1, every: '2s' } }), { store })
  const poured = [7, 7, 2, 1].map((weight) => funnel.takeSync('user:42', weight).status)
  expect(poured).toEqual(['allowed', 'allowed', 'refused', 'allowed-last'])
  expect(funnel.takeSync('user:42', 3).retryAfterMs).toBe(6_000)
  clock.advance(5_999)
  expect(funnel.takeSync('user:42', 3).allowed).toBe(false)
  clock.advance(1)
  expect(funnel.takeSync('user:42', 3)).toMatchObject({ allowed: true, remaining: 0, resetAfterMs: 30_000 })
})

test('over Redis a funnel has the same results', async () => {
  const policy = leakyBucket({ capacity: 15, leak: { units: 1, every: '1h' } })
  const funnel = new RateLimiter(policy, { store: redis.store, prefix: 'funnel' })
  try {
    const poured = await funnel.takeMany(['a', 'a', 'a', 'a'], [7, 7, 2, 1])
    expect(poured.map(({ status }) => status)).toEqual(['allowed', 'allowed', 'refused', 'allowed-last'])
    expect(await funnel.peek('a', 16)).toMatchObject({ status: 'impossible', remaining: 0 })
    await funnel.reset('a')
    expect(await funnel.peek('a', 15)).toMatchObject({ status: 'allowed-last', remaining: 15, resetAfterMs: 0 })
    // Until its units would have leaked, the key remembers that they cannot be refunded.
    expect(await redis.server.command('PTTL', 'funnel:default:lb:{a}')).toBeLessThanOrEqual(15 * 3_600_000 + 1)
    await funnel.reset('b')
    expect(await redis.server.command('EXISTS', 'funnel:default:lb:{b}')).toBe(0)
  } finally {
    await funnel.close()
  }
})
