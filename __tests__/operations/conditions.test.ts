/** The behaviour if the condition of a promise does not hold: docs/promises.md lists the cases. */
import { type Decision, fixedWindow, gcra, MemoryStore, RateLimiter, tokenBucket } from '../../ts/index.js'
import { FakeClock } from '../clock.js'

const HOUR_MS = 3_600_000

const clock = new FakeClock()

/** Options with a private store and a clock that stands still. */
const stored = () => ({ store: new MemoryStore({ clock: clock.read }) })

// promise: retry-with-override
test("a retry is no longer than until the override of a key ends, and then the limiter's numbers decide", async () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 3, window: '1h' }), stored())
  await limiter.override('a', { limit: 5 }, { ttl: '10m' })
  await limiter.take('a', 5)
  expect(await limiter.take('a')).toMatchObject({ status: 'refused', limit: 5, retryAfterMs: HOUR_MS / 6 })
  clock.advance(HOUR_MS / 6)
  expect(await limiter.take('a')).toMatchObject({ status: 'refused', limit: 3, retryAfterMs: (HOUR_MS * 5) / 6 })
})

// promise: initial-level-forgotten
test('a bucket with a low initial level is forgotten while another policy waits for longer, and starts again', async () => {
  const limiter = new RateLimiter(
    {
      bucket: tokenBucket({ capacity: 10, refill: { tokens: 10, every: '1s' }, initial: 1 }),
      week: fixedWindow({ limit: 5, window: '7d' }),
    },
    stored(),
  )
  await limiter.take('a')
  clock.advance(1_000)
  await limiter.take('a', 4)
  const { status, policy, retryAfterMs } = await limiter.take('a', 5)
  expect([status, policy]).toEqual(['refused', 'week'])
  clock.advance(retryAfterMs as number)
  expect(await limiter.take('a', 5)).toMatchObject({ status: 'refused', policy: 'bucket', retryAfterMs: 400 })
})

// promise: open-window-keeps-end, refund-at-most-taken
test('a window that is shortened keeps its count, and ends one new window later', async () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 3, window: '1d' }), stored())
  const decision = await limiter.take('a', 2)
  await limiter.override('a', { window: '1h' }, { ttl: '7d' })
  clock.advance(HOUR_MS / 2)
  expect(await limiter.take('a')).toMatchObject({ status: 'allowed-last', resetAfterMs: HOUR_MS / 2 })
  // Its end has moved since the decision.
  expect(await limiter.refund(decision)).toBe(0)
  clock.advance(HOUR_MS / 2)
  expect(await limiter.take('a', 3)).toMatchObject({ status: 'allowed-last' })
})

// promise: refund-own-units
test('a refund of a partly drained unit gives back the rest, and counts as one', async () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1s', burst: 2 }), stored())
  const decision = await limiter.take('a')
  await limiter.take('a')
  clock.advance(500)
  expect(await limiter.refund(decision)).toBe(1)
  // Half a second's worth of the two units has drained, and half a second's worth was refunded.
  expect(await limiter.peek('a')).toMatchObject({ remaining: 1, resetAfterMs: 1_000 })
  expect(await limiter.refund(decision)).toBe(0)
})

test('a refund counts what other refunds have given back since', async () => {
  const limiter = new RateLimiter(gcra({ limit: 100, period: '1s' }), stored())
  const [first, second] = [await limiter.take('a', 50), await limiter.take('a', 50)]
  expect(await limiter.refund(first)).toBe(50)
  // The units of the second call now drain within half a second.
  clock.advance(510)
  await limiter.take('a', 100)
  expect(await limiter.refund(second)).toBe(0)
  expect((await limiter.peek('a', 0)).remaining).toBe(0)
})

test('a fast rate gives nothing back of a call that has drained within the last millisecond', async () => {
  const limiter = new RateLimiter(gcra({ limit: 100_000, period: '1s', burst: 50 }), stored())
  const first = await limiter.take('a', 50)
  clock.advance(0.5)
  await limiter.take('a', 50)
  expect(await limiter.refund(first)).toBe(0)
  expect((await limiter.take('a', 1)).allowed).toBe(false)
})

test('a fixed window whose first call comes back begins anew with the units that remain', async () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 3, window: '1s' }), stored())
  const first = await limiter.take('a')
  clock.advance(900)
  const others = [await limiter.take('a'), await limiter.take('a')]
  expect(await limiter.refund(first)).toBe(1)
  await limiter.take('a')
  clock.advance(100)
  // Otherwise 6 units would be admitted within 100 ms: the law is 5.
  expect((await limiter.take('a')).allowed).toBe(false)
  // The window ends a second after the refund, on a whole millisecond.
  expect((await limiter.peek('a', 0)).resetAfterMs).toBe(901)
  expect(await limiter.refund(others[0] as Decision<'default'>)).toBe(1)
  clock.advance(901)
  expect((await limiter.take('a', 3)).allowed).toBe(true)
})

// promise: refund-closed-window
test('nothing comes back in the last millisecond before the reset time', async () => {
  const limiter = new RateLimiter(gcra({ limit: 3, period: '1s' }), stored())
  const decisions = [await limiter.take('a'), await limiter.take('a')] as const
  // A unit drains in a third of a second.
  expect(decisions[0].resetAfterMs).toBe(334)
  clock.advance(333.1)
  expect(await limiter.refund(decisions[0])).toBe(0)
  expect(await limiter.refund(decisions[1])).toBe(1)
})
