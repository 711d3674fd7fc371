import { type FixedWindowPolicy, fixedWindow, RateLimiter, RedisStore } from '../../ts/index.js'
import { limiterOf } from '../clock.js'
import { anything, failureOf } from '../failure.js'
import { RedisServer } from '../servers/redis-server.js'

const COUNTING = fixedWindow({ limit: 10, window: '1h', countRefused: true })

test('embedded: a refused call uses up the window, a peek and an impossible call do not', async () => {
  const { limiter, clock } = limiterOf(COUNTING)
  limiter.takeSync('a', 7)
  expect(await limiter.peek('a', 4)).toMatchObject({ status: 'refused', remaining: 3 })
  expect(limiter.takeSync('a', 11)).toMatchObject({ status: 'impossible', remaining: 3 })
  expect(limiter.takeSync('a', 4)).toMatchObject({ status: 'refused', remaining: 0, retryAfterMs: 3_600_000 })
  expect(limiter.takeSync('a')).toMatchObject({ status: 'refused', remaining: 0, retryAfterMs: 3_600_000 })
  clock.advance(3_600_000)
  expect(limiter.takeSync('a', 10).allowed).toBe(true)
})

test('by default a refused call counts nothing', () => {
  const { limiter } = limiterOf(fixedWindow({ limit: 10, window: '1h' }))
  limiter.takeSync('a', 7)
  expect(limiter.takeSync('a', 4)).toMatchObject({ status: 'refused', remaining: 3 })
  expect(limiter.takeSync('a', 3).allowed).toBe(true)
})

test('over Redis, in one tick and for every process', async () => {
  const server = await RedisServer.start()
  const stores = [1, 2].map(() => new RedisStore({ url: server.url, commandTimeout: 30_000 }))
  const [one, other] = stores.map((store): RateLimiter => new RateLimiter(COUNTING, { store, prefix: 'counting' })) as [
    RateLimiter,
    RateLimiter,
  ]
  try {
    const calls = [7, 11, 4, 1].map((cost) => one.take('a', cost))
    const decisions = (await Promise.all(calls)).map(({ status, remaining }) => [status, remaining])
    expect(decisions).toEqual([
      ['allowed', 3],
      ['impossible', 3],
      ['refused', 0],
      ['refused', 0],
    ])
    expect(await other.take('a')).toMatchObject({ status: 'refused', remaining: 0 })
    await other.take('b', 9)
    expect(await one.peek('b', 2)).toMatchObject({ status: 'refused', remaining: 1 })
    expect(await one.take('b')).toMatchObject({ status: 'allowed-last' })
  } finally {
    await Promise.all(stores.map((store) => store.close()))
    await server.stop()
  }
})

test('the option is true or false, and part of the policy', () => {
  for (const bad of [0, 1, 'true', null, {}, []]) {
    const error = failureOf(() => fixedWindow({ limit: 1, window: 1, countRefused: anything(bad) }))
    expect(error.code).toBe('INVALID_POLICY')
    expect(error.message).toMatch(/^fixedWindow: countRefused must be true or false, got /)
  }
  expect(COUNTING).toEqual({ algorithm: 'fixedWindow', limit: 10, window: 3_600_000, countRefused: true })
  expect(fixedWindow({ limit: 1, window: 1 }).countRefused).toBe(false)
  const byHand = new RateLimiter({ algorithm: 'fixedWindow', limit: 2, window: 1_000 } as FixedWindowPolicy)
  expect(byHand.policies.default).toMatchObject({ countRefused: false })
})
