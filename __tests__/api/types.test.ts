import type {
  Decision,
  EmbeddedRateLimiter,
  FixedWindowPolicy,
  GcraPolicy,
  KeyOf,
  RateLimiter as Limiter,
  Policies,
  Policy,
  RedisStore,
  Reservation,
  Settlement,
} from '../../ts/index.js'
import {
  calendarWindow,
  concurrency,
  fixedWindow,
  gcra,
  MemoryStore,
  RateLimiter,
  slidingCounter,
  slidingLog,
  tiers,
  tokenBucket,
} from '../../ts/index.js'
import { type Equal, holds } from '../type-proof.js'

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

test('an embedded limiter is assignable to any limiter', async () => {
  const limiter: EmbeddedRateLimiter = new RateLimiter(gcra({ limit: 1, period: 1 }), { store: new MemoryStore() })
  const assigned: Limiter = limiter
  expect((await assigned.take('a')).allowed).toBe(true)
  // @ts-expect-error a limiter of any store has no takeSync
  expect(assigned.takeSync('b').allowed).toBe(true)
})

test('a limiter over Redis has no takeSync and needs a prefix', () => {
  const never = (store: RedisStore) => {
    const limiter = new RateLimiter(gcra({ limit: 1, period: 1 }), { store, prefix: 'api' })
    holds<Equal<typeof limiter, Limiter<GcraPolicy>>>()
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store: 'redis://localhost', prefix: 'api' })
    // @ts-expect-error takeSync is not available over Redis
    limiter.takeSync('a')
    // @ts-expect-error missing prefix
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store })
    // @ts-expect-error not a Redis URL
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store: 'http://localhost', prefix: 'api' })
  }
  expect(never).toBeInstanceOf(Function)
})

test('the store can be chosen when the program runs', () => {
  const never = (store: MemoryStore | RedisStore | undefined) => {
    const limiter = new RateLimiter(gcra({ limit: 1, period: 1 }), { store, prefix: 'api' })
    holds<Equal<typeof limiter, Limiter<GcraPolicy>>>()
    // @ts-expect-error the store may be a RedisStore
    limiter.takeSync('a')
    // @ts-expect-error a Redis store needs a prefix
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store })
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store, prefix: 'api', onStoreFailure: 'allow' })
  }
  expect(never).toBeInstanceOf(Function)
})

test('invalid code does not compile', () => {
  const never = () => {
    // @ts-expect-error missing policy
    new RateLimiter()
    // @ts-expect-error misspelt option
    gcra({ limit: 1, period: '1m', brust: 5 })
    // @ts-expect-error missing option
    gcra({ limit: 1 })
    // @ts-expect-error unknown unit
    gcra({ limit: 1, period: '1y' })
    // @ts-expect-error unknown calendar unit
    calendarWindow({ limit: 1, every: 'year' })
    // @ts-expect-error a ban has a length
    new RateLimiter(gcra({ limit: 1, period: '1m' }), { ban: { after: 3, period: '1m' } })
    // @ts-expect-error unknown unit
    new RateLimiter(gcra({ limit: 1, period: '1m' }), { blockFor: '5 fortnights' })
    // @ts-expect-error not a store
    new RateLimiter(gcra({ limit: 1, period: 1 }), { store: {} })
    // @ts-expect-error keys are strings
    void new RateLimiter(gcra({ limit: 1, period: 1 })).take(42)
    // @ts-expect-error decisions are read only
    new RateLimiter(gcra({ limit: 1, period: 1 })).takeSync('a').allowed = true
  }
  expect(never).toBeInstanceOf(Function)
})

test('only a blocked decision may have a ban', () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1m' }), { ban: { for: ['1m', '1h'] } })
  limiter.takeSync('a')
  const decision = limiter.takeSync('a')
  if (decision.status === 'blocked') {
    holds<Equal<typeof decision.ban, { readonly step: number; readonly until: number } | undefined>>()
    expect(decision.ban?.step).toBe(1)
  } else {
    // @ts-expect-error no property of other decisions
    throw new Error(String(decision.ban))
  }
})

test('the limits of a slidingLog have the declared names', () => {
  const policy = slidingLog({ limits: { perSecond: { limit: 1, window: '1s' }, perHour: { limit: 9, window: '1h' } } })
  const limiter = new RateLimiter(policy)
  type Names = 'perSecond' | 'perHour'
  holds<Equal<typeof limiter, EmbeddedRateLimiter<typeof policy>>>()
  const decision = limiter.takeSync('a')
  holds<Equal<typeof decision.policy, Names>>()
  expect(decision.policies.perSecond.limit + decision.policies.perHour.limit).toBe(10)
  // @ts-expect-error unknown limit
  expect(decision.policies.perDay).toBeUndefined()
  const never = (store: RedisStore) => {
    const shared = new RateLimiter(policy, { store, prefix: 'api' })
    holds<Equal<typeof shared, Limiter<typeof policy>>>()
    // @ts-expect-error missing window
    slidingLog({ limits: { perSecond: { limit: 1 } } })
  }
  expect(never).toBeInstanceOf(Function)
})

test('the policies and key parts have the declared names', async () => {
  const limits = { short: { limit: 1, window: '1s' }, long: { limit: 9, window: '1h' } } as const
  const plain = new RateLimiter({ burst: gcra({ limit: 1, period: 1 }), logs: slidingLog({ limits }) })
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
  const assigned: Limiter<typeof login extends Limiter<infer P> ? P : never> = login
  await assigned.block({ ip: '1' }, '1s')
  const all = new RateLimiter(gcra({ limit: 1, period: 1, per: 'global' }))
  expect((await all.take({})).allowed).toBe(true)
  const never = async (limiter: typeof login) => {
    // @ts-expect-error missing part
    await limiter.take({ ip: '1' })
    // @ts-expect-error unknown part
    await limiter.take({ ip: '1', account: 'ann', user: 'ann' })
    // @ts-expect-error the global part is not in the key
    await limiter.take({ ip: '1', account: 'ann', global: true })
    // @ts-expect-error the key is not a string
    await limiter.take('1')
    // @ts-expect-error global policies have no key
    await limiter.reset({ global: 'x' })
    // @ts-expect-error unknown part
    await limiter.reset({ user: 'ann' })
    // @ts-expect-error a global policy has no key
    await all.take('a')
    // @ts-expect-error unknown part
    await all.take({ ip: '1' })
    // @ts-expect-error either all policies have a per or none
    await new RateLimiter({ a: gcra({ limit: 1, period: 1, per: 'ip' }), b: gcra({ limit: 1, period: 1 }) }).take('a')
    // @ts-expect-error not a policy
    new RateLimiter({ a: { limit: 1 } })
    // @ts-expect-error takeSync is not available over Redis
    new RateLimiter({ a: gcra({ limit: 1, period: 1 }) }, { store: 'redis://localhost', prefix: 'api' }).takeSync('a')
  }
  expect(never).toBeInstanceOf(Function)
})

test('policies with unknown names can be used', () => {
  const policies: Policies = { a: gcra({ limit: 1, period: 1 }) }
  const policy: Policy = gcra({ limit: 1, period: 1 })
  const [several, one] = [new RateLimiter(policies), new RateLimiter(policy)]
  const [first, second] = [several.takeSync('a'), one.takeSync('a')]
  holds<Equal<typeof first.policy, string>>()
  expect([first.policy, second.policy]).toEqual(['a', 'default'])
})

test('a limiter exposes each policy with the numbers of its algorithm', () => {
  const one = new RateLimiter(gcra({ limit: 1, period: 1, burst: 5 }))
  expect(one.policies.default.burst).toBe(5)
  const limits = { short: { limit: 2, window: '1s' }, long: { limit: 9, window: '1h' } } as const
  const logs = slidingLog({ limits })
  expect(new RateLimiter(logs).policies.long.limits.short.limit).toBe(2)
  const several = new RateLimiter({ bucket: tokenBucket({ capacity: 3, refill: { tokens: 1, every: 1 } }), logs })
  expect(several.policies.bucket.refill.tokens + several.policies['logs.long'].limits.short.limit).toBe(3)
  const assigned: Limiter = several
  holds<Equal<(typeof assigned.policies)[string], Policy>>()
  const never = (policy: Policy, policies: Policies, some: GcraPolicy | FixedWindowPolicy, name: string) => {
    // @ts-expect-error the policy is not a token bucket
    one.policies.default.capacity
    // @ts-expect-error unknown policy
    several.policies.logs
    // @ts-expect-error the algorithm is unknown
    new RateLimiter(policy).policies[name]?.burst
    // @ts-expect-error the policies are unknown
    new RateLimiter(policies).policies[name]?.burst
    // @ts-expect-error the policy may be a window
    new RateLimiter(some).policies.default.burst
    return new RateLimiter(some).policies.default.limit
  }
  expect(never).toBeInstanceOf(Function)
})

test('only numbers can be overridden, and only with a ttl', () => {
  const never = async () => {
    const one = new RateLimiter(gcra({ limit: 1, period: 1 }))
    await one.override('a', { limit: 5, period: '1m' }, { ttl: '1d' })
    // @ts-expect-error missing ttl
    await one.override('a', { limit: 5 }, {})
    // @ts-expect-error the key dimension is not a number
    await one.override('a', { per: 'ip' }, { ttl: '1d' })
    const calendar = new RateLimiter(calendarWindow({ limit: 1, every: 'day' }))
    await calendar.override('a', { limit: 5 }, { ttl: '1d' })
    // @ts-expect-error a time zone is not a number
    await calendar.override('a', { timeZone: 'UTC' }, { ttl: '1d' })
    // @ts-expect-error the calendar unit is not a number
    await calendar.override('a', { every: 'hour' }, { ttl: '1d' })
    const bucket = new RateLimiter(tokenBucket({ capacity: 1, refill: { tokens: 1, every: 1 } }))
    await bucket.override('a', { refill: { tokens: 5 } }, { ttl: '1d' })
    // @ts-expect-error the refill mode is not a number
    await bucket.override('a', { refillMode: 'interval' }, { ttl: '1d' })
    const logs = new RateLimiter(slidingLog({ limits: { short: { limit: 1, window: 1 } }, precision: 1 }))
    await logs.override('a', { limits: { short: { limit: 5 } } }, { ttl: '1d' })
    // @ts-expect-error unknown limit
    await logs.override('a', { limits: { long: { limit: 5 } } }, { ttl: '1d' })
    const several = new RateLimiter({ a: gcra({ limit: 1, period: 1 }), b: fixedWindow({ limit: 1, window: 1 }) })
    await several.override('a', { b: { limit: 5 } }, { ttl: '1d' })
    // @ts-expect-error a fixed window has no period
    await several.override('a', { b: { period: 5 } }, { ttl: '1d' })
    // @ts-expect-error missing policy name
    await several.override('a', { limit: 5 }, { ttl: '1d' })
  }
  expect(never).toBeInstanceOf(Function)
})

test('operations have the documented result types', async () => {
  const limiter = new RateLimiter(gcra({ limit: 9, period: '1h' }))
  const upTo = await limiter.takeUpTo('a', 5)
  holds<Equal<typeof upTo.granted, number>>()
  if (upTo.status === 'blocked') {
    holds<Equal<typeof upTo.retryAfterMs, number>>()
  }
  expect(await limiter.refund(upTo)).toBe(5)
  expect(await limiter.penalize('a', 2)).toBe(2)
  const never = async () => {
    // @ts-expect-error missing duration
    await limiter.block('a')
    // @ts-expect-error missing units
    await limiter.takeUpTo('a')
    // @ts-expect-error refund takes a decision, not a key
    await limiter.refund('a')
    // @ts-expect-error reset takes no cost
    await limiter.reset('a', { cost: 1 })
  }
  expect(never).toBeInstanceOf(Function)
})

test('a reservation narrows on allowed, and a settlement on settled', () => {
  const never = async (limiter: Limiter<{ readonly a: GcraPolicy; readonly b: FixedWindowPolicy }>) => {
    const reservation = await limiter.reserve('a', 5, { ttl: '2m', tag: 'b' })
    holds<Equal<typeof reservation.decision.policy, 'a' | 'b'>>()
    if (reservation.allowed) {
      holds<Equal<typeof reservation, Extract<Reservation<'a' | 'b'>, { readonly allowed: true }>>>()
      holds<Equal<typeof reservation.decision.retryAfterMs, 0>>()
      const settlement: Settlement = await reservation.commit(3)
      return settlement.settled ? settlement.refunded + settlement.charged : settlement.reason
    }
    holds<Equal<typeof reservation.decision.allowed, false>>()
    // @ts-expect-error a refused reservation cannot be settled
    return reservation.commit()
  }
  expect(never).toBeInstanceOf(Function)
})

test('a forgotten await is a type error: a promise is not a decision', () => {
  const never = (limiter: Limiter) => {
    // @ts-expect-error a promise has no `allowed`
    limiter.take('a').allowed
    // @ts-expect-error a promise is always truthy
    if (limiter.take('a')) {
      return
    }
  }
  expect(never).toBeInstanceOf(Function)
})

test('a limiter of no stated policies is any with string keys and without tiers', () => {
  const take = (limiter: Limiter) => limiter.take('a')
  const takeSync = (limiter: EmbeddedRateLimiter) => limiter.takeSync('a')
  const rate = gcra({ limit: 1, period: 1 })
  const never = (store: RedisStore, policy: Policy, policies: Policies, json: ReturnType<typeof JSON.parse>) => {
    for (const limiter of [new RateLimiter(rate), new RateLimiter(slidingCounter({ limit: 1, window: 1 }))]) {
      void take(limiter)
    }
    const named = { a: rate, b: fixedWindow({ limit: 1, window: 1 }) }
    void take(new RateLimiter(named))
    void take(new RateLimiter(named, { store, prefix: 'a' }))
    takeSync(new RateLimiter(named))
    takeSync(new RateLimiter(rate))
    void take(new RateLimiter(policy))
    void take(new RateLimiter(policies))
    void take(new RateLimiter(json))
    const own: Limiter<typeof rate> = new RateLimiter(rate)
    void own.wait('a')
    // @ts-expect-error a limiter over Redis has no takeSync
    takeSync(new RateLimiter(rate, { store, prefix: 'a' }))
    // @ts-expect-error its keys have parts
    void take(new RateLimiter(gcra({ limit: 1, period: 1, per: 'ip' })))
    // @ts-expect-error its calls need a tier
    void take(new RateLimiter(tiers({ free: rate })))
    // @ts-expect-error its units need a permit
    void take(new RateLimiter(concurrency({ limit: 1 })))
    // @ts-expect-error it does not wait
    const waiting: Limiter<GcraPolicy> = new RateLimiter(fixedWindow({ limit: 1, window: 1 }))
    return waiting
  }
  expect(never).toBeInstanceOf(Function)
})

test('a function can be generic in the policies', () => {
  // In the body the compiler does not know what the policies can do.
  const take = <P extends Policy | Policies>(limiter: Limiter<P>, key: KeyOf<P>) =>
    (limiter as unknown as { take(key: KeyOf<P>): Promise<Decision> }).take(key)
  const never = async (store: RedisStore) => {
    const rate = gcra({ limit: 1, period: 1 })
    const parts = {
      ip: gcra({ limit: 1, period: 1, per: 'ip' }),
      all: fixedWindow({ limit: 1, window: 1, per: 'global' }),
    }
    await take(new RateLimiter(parts), { ip: '1' })
    await take(new RateLimiter(parts, { store, prefix: 'a' }), { ip: '1' })
    await take(new RateLimiter(rate), 'a')
    // @ts-expect-error unknown part
    await take(new RateLimiter(parts), { user: '1' })
    // @ts-expect-error the key is a string
    await take(new RateLimiter(rate), { ip: '1' })
  }
  expect(never).toBeInstanceOf(Function)
})

test('the keys follow from the policies', () => {
  holds<Equal<KeyOf<GcraPolicy>, string>>()
  holds<Equal<KeyOf<Policy>, string>>()
  holds<Equal<KeyOf<Policies>, string>>()
  holds<Equal<KeyOf<Policy & { readonly per: string }>, { readonly [dimension: string]: string }>>()
  holds<Equal<KeyOf<GcraPolicy & { readonly per: 'ip' }>, { readonly ip: string }>>()
  holds<
    Equal<
      KeyOf<{ a: GcraPolicy & { readonly per: 'ip' }; b: Policy & { readonly per: 'global' } }>,
      { readonly ip: string }
    >
  >()
})

test('tiers have typed names', async () => {
  const limiter = new RateLimiter({
    user: tiers({
      free: gcra({ limit: 1, period: '1s', per: 'user' }),
      pro: gcra({ limit: 9, period: '1s', per: 'user' }),
    }),
    all: fixedWindow({ limit: 99, window: '1s', per: 'global' }),
  })
  const { policy } = await limiter.take({ user: 'a' }, { tier: 'pro' })
  holds<Equal<typeof policy, 'user' | 'all'>>()
  holds<Equal<keyof typeof limiter.tiers, 'free' | 'pro'>>()
  expect(limiter.tiers.free.user.limit + limiter.policies.all.limit).toBe(100)
  const never = (plain: Limiter) => {
    // @ts-expect-error no such tier
    void limiter.take({ user: 'a' }, { tier: 'gold' })
    // @ts-expect-error missing tier
    void limiter.take({ user: 'a' })
    // @ts-expect-error missing tier
    void limiter.take({ user: 'a' }, 2)
    // @ts-expect-error missing tier
    void limiter.peek({ user: 'a' }, { cost: 2 })
    // @ts-expect-error missing tier
    void limiter.takeUpTo({ user: 'a' }, 2)
    void limiter.penalize({ user: 'a' }, 2, { tier: 'free' })
    void limiter.override({ user: 'a' }, { user: { limit: 2 } }, { ttl: '1d', tier: 'free' })
    // @ts-expect-error missing tier
    void limiter.override({ user: 'a' }, { user: { limit: 2 } }, { ttl: '1d' })
    // @ts-expect-error the limiter has no tiers
    void plain.take('a', { tier: 'free' })
    // @ts-expect-error the same for other operations
    void plain.takeUpTo('a', 1, { tier: 'free' })
    // @ts-expect-error not a policy
    void new RateLimiter(tiers({ free: 1 }))
  }
  expect(never).toBeInstanceOf(Function)
})
