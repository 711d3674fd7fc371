import type {
  Decision,
  EmbeddedRateLimiter,
  Enforcing,
  FixedWindowPolicy,
  GcraPolicy,
  RateLimiter as Limiter,
  Policies,
  Policy,
  PolicyOverride,
  RedisStore,
  Reserved,
  Reserving,
  Settlement,
  SlidingLogsPolicy,
  TollgateError,
  Waited,
  WaitedOrRefused,
  WaitOptions,
  Waits,
} from '../../ts/index.js'
import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  MemoryStore,
  RateLimiter,
  slidingCounter,
  slidingLog,
  slidingLogs,
  slidingWindow,
  tokenBucket,
} from '../../ts/index.js'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Compiles for `true` alone: `npm run check:types` is what runs these tests. */
const holds = <T extends true>(_proof?: T) => expect(true).toBe(true)

/** A limiter of one rate that may be over Redis. */
type OverGcra = Limiter<string, 'default', PolicyOverride<GcraPolicy>> &
  Enforcing<GcraPolicy<never>> &
  Reserving &
  Waits<string, 'default'>

test('a decision narrows on allowed and on status', () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: 1 }))
  const decision: Decision<'default'> = limiter.takeSync('a')
  if (decision.allowed) {
    holds<Equal<typeof decision.retryAfterMs, 0>>()
    holds<Equal<typeof decision.status, 'allowed' | 'allowed-last'>>()
  } else if (decision.status === 'refused' || decision.status === 'blocked') {
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
    holds<Equal<typeof limiter, OverGcra>>()
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

test('the store can be chosen when the program runs', () => {
  const never = (store: MemoryStore | RedisStore | undefined) => {
    const limiter = new RateLimiter(gcra({ limit: 1, period: 1 }), { store, prefix: 'api' })
    holds<Equal<typeof limiter, OverGcra>>()
    // @ts-expect-error it may be over Redis
    limiter.takeSync('a')
    // @ts-expect-error there the prefix is needed
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store })
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store, prefix: 'api', onStoreFailure: 'allow' })
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
  type Own = PolicyOverride<SlidingLogsPolicy<Names>>
  type Expected = EmbeddedRateLimiter<string, Names, Own> & Enforcing<typeof policy> & Reserving<string, Names>
  holds<Equal<typeof limiter, Expected>>()
  const decision = limiter.takeSync('a')
  holds<Equal<typeof decision.policy, Names>>()
  expect(decision.policies.perSecond.limit + decision.policies.perHour.limit).toBe(10)
  // @ts-expect-error no such limit
  expect(decision.policies.perDay).toBeUndefined()
  const never = (store: RedisStore) => {
    const shared = new RateLimiter(policy, { store, prefix: 'api' })
    holds<Equal<typeof shared, Limiter<string, Names, Own> & Enforcing<typeof policy> & Reserving<string, Names>>>()
    // @ts-expect-error a limit needs a window
    slidingLogs({ limits: { perSecond: { limit: 1 } } })
  }
  expect(never).toBeInstanceOf(Function)
})

test('the names and keys of several policies are those given', async () => {
  const limits = { short: { limit: 1, window: '1s' }, long: { limit: 9, window: '1h' } } as const
  const plain = new RateLimiter({ burst: gcra({ limit: 1, period: 1 }), logs: slidingLogs({ limits }) })
  holds<Equal<Parameters<typeof plain.take>[0], string>>()
  const decision = plain.takeSync('a')
  holds<Equal<typeof decision.policy, 'burst' | 'logs.short' | 'logs.long'>>()
  const login = new RateLimiter({
    ip: gcra({ limit: 1, period: 1, per: 'ip' }),
    account: fixedWindow({ limit: 1, window: 1, per: 'account' }),
    all: gcra({ limit: 1, period: 1, per: 'global' }),
  })
  type LoginKey = { readonly ip: string; readonly account: string }
  holds<Equal<Parameters<typeof login.take>[0], LoginKey>>()
  const taken = await login.take({ ip: '1', account: 'ann' })
  holds<Equal<typeof taken.policy, 'ip' | 'account' | 'all'>>()
  const wanted: Limiter<LoginKey, 'ip' | 'account' | 'all'> = login
  await wanted.block({ ip: '1' }, '1s')
  const all = new RateLimiter(gcra({ limit: 1, period: 1, per: 'global' }))
  expect((await all.take({})).allowed).toBe(true)
  const never = async (limiter: typeof login) => {
    // @ts-expect-error a part is missing
    await limiter.take({ ip: '1' })
    // @ts-expect-error no such part
    await limiter.take({ ip: '1', account: 'ann', user: 'ann' })
    // @ts-expect-error a call names no global key
    await limiter.take({ ip: '1', account: 'ann', global: true })
    // @ts-expect-error it is no string
    await limiter.take('1')
    // @ts-expect-error what is global has no key
    await limiter.reset({ global: 'x' })
    // @ts-expect-error no such part
    await limiter.reset({ user: 'ann' })
    // @ts-expect-error all calls together have no key
    await all.take('a')
    // @ts-expect-error no such part
    await all.take({ ip: '1' })
    // @ts-expect-error either all policies have a per or none
    await new RateLimiter({ a: gcra({ limit: 1, period: 1, per: 'ip' }), b: gcra({ limit: 1, period: 1 }) }).take('a')
    // @ts-expect-error no policy
    new RateLimiter({ a: { limit: 1 } })
    // @ts-expect-error over Redis nothing is answered at once
    new RateLimiter({ a: gcra({ limit: 1, period: 1 }) }, { store: 'redis://localhost', prefix: 'api' }).takeSync('a')
  }
  expect(never).toBeInstanceOf(Function)
})

test('policies whose names are not known can be used, too', () => {
  const policies: Policies = { a: gcra({ limit: 1, period: 1 }) }
  const policy: Policy = gcra({ limit: 1, period: 1 })
  const [several, one] = [new RateLimiter(policies), new RateLimiter(policy)]
  const [first, second] = [several.takeSync('a'), one.takeSync('a')]
  holds<Equal<typeof first.policy, string>>()
  expect([first.policy, second.policy]).toEqual(['a', 'default'])
})

test('a limiter shows each policy with the numbers of its own algorithm', () => {
  const one = new RateLimiter(gcra({ limit: 1, period: 1, burst: 5 }))
  expect(one.policies.default.burst).toBe(5)
  const limits = { short: { limit: 2, window: '1s' }, long: { limit: 9, window: '1h' } } as const
  const logs = slidingLogs({ limits })
  expect(new RateLimiter(logs).policies.long.limits.short.limit).toBe(2)
  const several = new RateLimiter({ bucket: tokenBucket({ capacity: 3, refill: { tokens: 1, every: 1 } }), logs })
  expect(several.policies.bucket.refill.tokens + several.policies['logs.long'].limits.short.limit).toBe(3)
  const wanted: Limiter<string, 'bucket' | 'logs.short' | 'logs.long'> = several
  holds<Equal<typeof wanted.policies.bucket, Policy>>()
  const never = (policy: Policy, policies: Policies, some: GcraPolicy | FixedWindowPolicy, name: string) => {
    // @ts-expect-error it is no bucket
    one.policies.default.capacity
    // @ts-expect-error no such policy
    several.policies.logs
    // @ts-expect-error it may be any
    new RateLimiter(policy).policies[name]?.burst
    // @ts-expect-error nor is it known which there are
    new RateLimiter(policies).policies[name]?.burst
    // @ts-expect-error it may be a window
    new RateLimiter(some).policies.default.burst
    return new RateLimiter(some).policies.default.limit
  }
  expect(never).toBeInstanceOf(Function)
})

test('only numbers can be overridden, and for a time', () => {
  const never = async () => {
    const one = new RateLimiter(gcra({ limit: 1, period: 1 }))
    await one.override('a', { limit: 5, period: '1m' }, { ttl: '1d' })
    // @ts-expect-error a ttl is needed
    await one.override('a', { limit: 5 }, {})
    // @ts-expect-error what the key counts by is no number
    await one.override('a', { per: 'ip' }, { ttl: '1d' })
    const calendar = new RateLimiter(calendarWindow({ limit: 1, every: 'day' }))
    await calendar.override('a', { limit: 5 }, { ttl: '1d' })
    // @ts-expect-error nor is a time zone
    await calendar.override('a', { timeZone: 'UTC' }, { ttl: '1d' })
    // @ts-expect-error nor is the calendar
    await calendar.override('a', { every: 'hour' }, { ttl: '1d' })
    const bucket = new RateLimiter(tokenBucket({ capacity: 1, refill: { tokens: 1, every: 1 } }))
    await bucket.override('a', { refill: { tokens: 5 } }, { ttl: '1d' })
    // @ts-expect-error nor is the mode
    await bucket.override('a', { refillMode: 'interval' }, { ttl: '1d' })
    const logs = new RateLimiter(slidingLogs({ limits: { short: { limit: 1, window: 1 } }, precision: 1 }))
    await logs.override('a', { limits: { short: { limit: 5 } } }, { ttl: '1d' })
    // @ts-expect-error no such limit
    await logs.override('a', { limits: { long: { limit: 5 } } }, { ttl: '1d' })
    const several = new RateLimiter({ a: gcra({ limit: 1, period: 1 }), b: fixedWindow({ limit: 1, window: 1 }) })
    await several.override('a', { b: { limit: 5 } }, { ttl: '1d' })
    // @ts-expect-error a fixed window has no period
    await several.override('a', { b: { period: 5 } }, { ttl: '1d' })
    // @ts-expect-error whose limit?
    await several.override('a', { limit: 5 }, { ttl: '1d' })
  }
  expect(never).toBeInstanceOf(Function)
})

test('only a limiter whose policies are all rates can wait', () => {
  const never = async (policy: Policy, store: RedisStore) => {
    const bucket = tokenBucket({ capacity: 1, refill: { tokens: 1, every: 1 } })
    const one = await new RateLimiter(bucket).wait('a', { cost: 1, maxWaitMs: 5, signal: AbortSignal.timeout(5) })
    holds<Equal<typeof one.waitedMs, number>>()
    holds<Equal<typeof one.policy, 'default'>>()
    holds<Equal<typeof one.allowed, true>>()
    const rejecting = await new RateLimiter(bucket).wait('a', { onTooLong: 'reject' })
    holds<Equal<typeof rejecting, Waited<'default'>>>()
    const resolving = await new RateLimiter(bucket).wait('a', { onTooLong: 'resolve' })
    holds<Equal<typeof resolving, WaitedOrRefused<'default'>>>()
    holds<Equal<typeof resolving.allowed, boolean>>()
    const given: WaitOptions = {}
    const either = await new RateLimiter(bucket).wait('a', given)
    holds<Equal<typeof either, WaitedOrRefused<'default'>>>()
    // @ts-expect-error a refusal rejects or resolves
    await new RateLimiter(bucket).wait('a', { onTooLong: 'ignore' })
    holds<Equal<TollgateError['decision'], Decision | undefined>>()
    const leaky = leakyBucket({ capacity: 1, leak: { units: 1, every: 1 }, per: 'ip' })
    const two = new RateLimiter({ a: leaky, b: gcra({ limit: 1, period: 1, per: 'user' }) }, { store, prefix: 'api' })
    await two.wait({ ip: '1', user: 'ann' })
    // @ts-expect-error a part is missing
    await two.wait({ ip: '1' })
    // @ts-expect-error no such option
    await two.wait({ ip: '1', user: 'ann' }, { maxWait: 5 })
    // @ts-expect-error a window is no rate
    await new RateLimiter(fixedWindow({ limit: 1, window: 1 })).wait('a')
    // @ts-expect-error of a calendar neither
    await new RateLimiter(calendarWindow({ limit: 1, every: 'day' })).wait('a')
    // @ts-expect-error nor if it slides
    await new RateLimiter(slidingWindow({ limit: 1, window: 1 })).wait('a')
    // @ts-expect-error nor if it is estimated
    await new RateLimiter(slidingCounter({ limit: 1, window: 1 })).wait('a')
    // @ts-expect-error a log is none
    await new RateLimiter(slidingLog({ limit: 1, window: 1 })).wait('a')
    // @ts-expect-error nor are several limits on one
    await new RateLimiter(slidingLogs({ limits: { short: { limit: 1, window: 1 } } })).wait('a')
    // @ts-expect-error over Redis neither
    await new RateLimiter(fixedWindow({ limit: 1, window: 1 }), { store, prefix: 'api' }).wait('a')
    const interval = tokenBucket({ capacity: 1, refill: { tokens: 1, every: 1 }, refillMode: 'interval' })
    // @ts-expect-error nor is a bucket that gains its tokens at once
    await new RateLimiter(interval).wait('a')
    // @ts-expect-error one of them is none
    await new RateLimiter({ a: bucket, b: fixedWindow({ limit: 1, window: 1 }) }).wait('a')
    // @ts-expect-error it may be none
    await new RateLimiter(policy).wait('a')
  }
  expect(never).toBeInstanceOf(Function)
})

test('operations answer what they say', async () => {
  const limiter = new RateLimiter(gcra({ limit: 9, period: '1h' }))
  const upTo = await limiter.takeUpTo('a', 5)
  holds<Equal<typeof upTo.granted, number>>()
  if (upTo.status === 'blocked') {
    holds<Equal<typeof upTo.retryAfterMs, number>>()
  }
  expect(await limiter.refund(upTo)).toBe(5)
  expect(await limiter.penalize('a', 2)).toBe(2)
  const never = async () => {
    // @ts-expect-error how long?
    await limiter.block('a')
    // @ts-expect-error how many?
    await limiter.takeUpTo('a')
    // @ts-expect-error it is the decision that is given back
    await limiter.refund('a')
    // @ts-expect-error it has no cost
    await limiter.reset('a', { cost: 1 })
  }
  expect(never).toBeInstanceOf(Function)
})

test('a reservation narrows on allowed, and its settlement on settled', () => {
  const never = async (limiter: Reserving<string, 'a' | 'b'>) => {
    const reservation = await limiter.reserve('a', 5, { expiresIn: '2m', tag: 'b' })
    holds<Equal<typeof reservation.decision.policy, 'a' | 'b'>>()
    if (reservation.allowed) {
      holds<Equal<typeof reservation, Reserved<'a' | 'b'>>>()
      holds<Equal<typeof reservation.decision.retryAfterMs, 0>>()
      const settlement: Settlement = await reservation.commit(3)
      return settlement.settled ? settlement.refunded + settlement.charged : settlement.reason
    }
    holds<Equal<typeof reservation.decision.allowed, false>>()
    // @ts-expect-error there is nothing to settle
    return reservation.commit()
  }
  expect(never).toBeInstanceOf(Function)
})

test('where a policy is a slidingCounter, or may be one, reserve does not compile', () => {
  const counter = slidingCounter({ limit: 1, window: 1, per: 'ip' })
  const never = async (store: RedisStore, policy: Policy, policies: Policies) => {
    // @ts-expect-error it is one
    await new RateLimiter(counter).reserve({ ip: '1' }, 1)
    const both = { counter, window: fixedWindow({ limit: 1, window: 1, per: 'account' }) }
    // @ts-expect-error one of them is
    await new RateLimiter(both, { store, prefix: 'a' }).reserve({ ip: '1', account: 'ann' }, 1)
    // @ts-expect-error it may be one
    await new RateLimiter(policy).reserve('a', 1)
    // @ts-expect-error one of them may be
    await new RateLimiter(policies).reserve('a', 1)
    // @ts-expect-error the units are missing
    await new RateLimiter(gcra({ limit: 1, period: 1 })).reserve('a')
    await new RateLimiter(gcra({ limit: 1, period: 1, per: 'ip' })).reserve({ ip: '1' }, 1)
  }
  expect(never).toBeInstanceOf(Function)
})

test('a promise is no decision: that await was forgotten is an error of types', () => {
  const never = (limiter: Limiter) => {
    // @ts-expect-error it is a promise
    limiter.take('a').allowed
    // @ts-expect-error it is always true
    if (limiter.take('a')) {
      return
    }
  }
  expect(never).toBeInstanceOf(Function)
})
