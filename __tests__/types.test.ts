import type { Decision, EmbeddedRateLimiter, RateLimiter as Limiter, RedisStore } from '../ts/index.js'
import { calendarWindow, gcra, MemoryStore, RateLimiter, slidingLogs } from '../ts/index.js'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Compiles for `true` alone: `npm run check:types` is what runs these tests. */
const holds = <T extends true>(_proof?: T) => expect(true).toBe(true)

test('a decision narrows on allowed and on status', () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: 1 }))
  const decision: Decision<'default'> = limiter.takeSync('a')
  if (decision.allowed) {
    holds<Equal<typeof decision.retryAfterMs, 0>>()
    holds<Equal<typeof decision.status, 'allowed' | 'allowed-last'>>()
  } else if (decision.status === 'refused') {
    holds<Equal<typeof decision.retryAfterMs, number>>()
  } else {
    holds<Equal<typeof decision.retryAfterMs, null>>()
  }
  holds<Equal<typeof decision.policy, 'default'>>()
})

test('an embedded limiter can be passed where any limiter is wanted', async () => {
  const limiter: EmbeddedRateLimiter = new RateLimiter(gcra({ limit: 1, period: 1 }), { store: new MemoryStore() })
  const wanted: Limiter = limiter
  expect((await wanted.take('a')).allowed).toBe(true)
  // @ts-expect-error a limiter that may be on another store cannot answer at once
  expect(wanted.takeSync('b').allowed).toBe(true)
})

test('a limiter over Redis has no takeSync and needs a prefix', () => {
  const never = (store: RedisStore) => {
    const limiter = new RateLimiter(gcra({ limit: 1, period: 1 }), { store, prefix: 'api' })
    holds<Equal<typeof limiter, Limiter<string, 'default'>>>()
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store: 'redis://localhost', prefix: 'api' })
    // @ts-expect-error over Redis nothing is answered at once
    limiter.takeSync('a')
    // @ts-expect-error the prefix is missing
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store })
    // @ts-expect-error no Redis URL
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store: 'http://localhost', prefix: 'api' })
  }
  expect(never).toBeInstanceOf(Function)
})

test('what makes no sense does not compile', () => {
  const never = () => {
    // @ts-expect-error a policy is needed
    new RateLimiter()
    // @ts-expect-error a misspelt option
    gcra({ limit: 1, period: '1m', brust: 5 })
    // @ts-expect-error a missing one
    gcra({ limit: 1 })
    // @ts-expect-error no such unit
    gcra({ limit: 1, period: '1y' })
    // @ts-expect-error no window of a calendar
    calendarWindow({ limit: 1, every: 'year' })
    // @ts-expect-error no store
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store: {} })
    // @ts-expect-error keys are strings
    void new RateLimiter(gcra({ limit: 1, period: 1 })).take(42)
    // @ts-expect-error decisions are read only
    new RateLimiter(gcra({ limit: 1, period: 1 })).takeSync('a').allowed = true
  }
  expect(never).toBeInstanceOf(Function)
})

test('the names of several limits are those given', () => {
  const policy = slidingLogs({ limits: { perSecond: { limit: 1, window: '1s' }, perHour: { limit: 9, window: '1h' } } })
  const limiter = new RateLimiter(policy)
  type Names = 'perSecond' | 'perHour'
  holds<Equal<typeof limiter, EmbeddedRateLimiter<string, Names>>>()
  const decision = limiter.takeSync('a')
  holds<Equal<typeof decision.policy, Names>>()
  expect(decision.policies.perSecond.limit + decision.policies.perHour.limit).toBe(10)
  // @ts-expect-error no such limit
  expect(decision.policies.perDay).toBeUndefined()
  const never = (store: RedisStore) => {
    const shared = new RateLimiter(policy, { store, prefix: 'api' })
    holds<Equal<typeof shared, Limiter<string, Names>>>()
    // @ts-expect-error a limit needs a window
    slidingLogs({ limits: { perSecond: { limit: 1 } } })
  }
  expect(never).toBeInstanceOf(Function)
})
