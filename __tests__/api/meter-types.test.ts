/** The types of limiters whose policies have a `meter`. */
import type {
  CostOf,
  GcraOptions,
  GcraPolicy,
  RateLimiter as Limiter,
  Permit,
  Policies,
  Policy,
  RedisStore,
  Reservation,
  Settlement,
} from '../../ts/index.js'
import { calendarWindow, concurrency, fixedWindow, gcra, RateLimiter, tiers, tokenBucket } from '../../ts/index.js'
import { type Equal, holds } from '../type-proof.js'

const every = { tokens: 40_000, every: '1m' } as const

const policies = {
  requests: gcra({ limit: 100, period: '1m' }),
  tokens: tokenBucket({ capacity: 40_000, refill: every, meter: 'tokens' }),
  spend: calendarWindow({ limit: 5_000, every: 'day', meter: 'cents', defaultCost: 0 }),
}

test('the type of a policy has its literal meter, and tells whether it has a default cost', () => {
  holds<Equal<(typeof policies)['requests'], GcraPolicy>>()
  const metered = gcra({ limit: 1, period: 1, meter: 'tokens' })
  holds<Equal<typeof metered, GcraPolicy & { readonly meter: 'tokens' }>>()
  const all = gcra({ limit: 1, period: 1, per: 'ip', meter: 'tokens', defaultCost: 5 })
  holds<
    Equal<
      typeof all,
      GcraPolicy & { readonly per: 'ip' } & { readonly meter: 'tokens' } & { readonly defaultCost: number }
    >
  >()
  const options: GcraOptions = { limit: 1, period: 1 }
  const open = gcra(options)
  holds<Equal<typeof open.meter, string | undefined>>()
  const policy: Policy = metered
  expect([metered.meter, policy.meter, all.defaultCost]).toEqual(['tokens', 'tokens', 5])
})

test('CostOf is a number without meters, and otherwise an object by meter', () => {
  holds<Equal<CostOf<typeof policies>, { readonly tokens: number; readonly calls?: number; readonly cents?: number }>>()
  holds<Equal<CostOf<(typeof policies)['tokens']>, { readonly tokens: number }>>()
  holds<Equal<CostOf<GcraPolicy>, number>>()
  holds<Equal<CostOf<{ a: GcraPolicy; b: GcraPolicy & { readonly meter: 'calls' } }>, number>>()
  holds<Equal<CostOf<Policy>, number>>()
  holds<Equal<CostOf<Policies>, number>>()
  // biome-ignore lint/suspicious/noExplicitAny: the type of values that nobody has typed
  holds<Equal<CostOf<any>, number>>()
  const plans = tiers({
    free: gcra({ limit: 1, period: 1, meter: 'tokens', defaultCost: 1 }),
    pro: gcra({ limit: 2, period: 1, meter: 'tokens', defaultCost: 2 }),
  })
  holds<Equal<CostOf<typeof plans>, { readonly tokens?: number }>>()
})

test('a call must name each meter without a default cost, and no other meter', () => {
  const never = async (store: RedisStore) => {
    const limiter = new RateLimiter(policies)
    await limiter.take('a', { cost: { tokens: 5 } })
    await limiter.take('a', { cost: { tokens: 5, cents: 1, calls: 2 }, tag: 'a' })
    limiter.takeSync('a', { cost: { tokens: 5 } })
    await limiter.tryTake('a', { cost: { tokens: 5 } })
    await limiter.peek('a', { cost: { tokens: 0 } })
    await limiter.takeMany(['a', 'b'], { cost: { tokens: 5 } })
    await limiter.takeMany(['a', 'b'], [{ tokens: 5 }, { tokens: 6, calls: 0 }])
    // @ts-expect-error the cost is missing
    await limiter.take('a')
    // @ts-expect-error the cost is missing
    limiter.takeSync('a')
    // @ts-expect-error the cost is missing
    await limiter.takeMany(['a'])
    // @ts-expect-error a number
    await limiter.take('a', 5)
    // @ts-expect-error a number
    await limiter.take('a', { cost: 5 })
    // @ts-expect-error tokens are missing
    await limiter.take('a', { cost: { cents: 5 } })
    // @ts-expect-error no policy counts bytes
    await limiter.take('a', { cost: { tokens: 5, bytes: 1 } })
    // @ts-expect-error a cost in place of options
    await limiter.take('a', { tokens: 5 })
    // @ts-expect-error numbers
    await limiter.takeMany(['a'], [1])
    const shared = new RateLimiter(policies, { store, prefix: 'a' })
    await shared.take('a', { cost: { tokens: 5 } })
    // @ts-expect-error the cost is missing
    await shared.take('a')
    const plain = new RateLimiter(policies.requests)
    // @ts-expect-error no policy has a meter
    await plain.take('a', { cost: { tokens: 5 } })
  }
  expect(never).toBeInstanceOf(Function)
})

test('a call may leave out its cost if all meters have default costs', () => {
  const never = async () => {
    const limiter = new RateLimiter({ requests: policies.requests, spend: policies.spend })
    await limiter.take('a')
    await limiter.take('a', { cost: { cents: 3 } })
    await limiter.takeMany(['a'])
    // @ts-expect-error a number
    await limiter.take('a', 1)
  }
  expect(never).toBeInstanceOf(Function)
})

test('with tiers the options have the tier and the cost', () => {
  const never = async () => {
    const plan = tiers({
      free: fixedWindow({ limit: 1, window: 1, meter: 'tokens' }),
      pro: fixedWindow({ limit: 2, window: 1, meter: 'tokens' }),
    })
    const limiter = new RateLimiter(plan)
    await limiter.take('a', { tier: 'free', cost: { tokens: 1 } })
    await limiter.penalize('a', { tokens: 1 }, { tier: 'free' })
    // @ts-expect-error the cost is missing
    await limiter.take('a', { tier: 'free' })
    // @ts-expect-error the tier is missing
    await limiter.take('a', { cost: { tokens: 1 } })
  }
  expect(never).toBeInstanceOf(Function)
})

test('units that an operation moves are by meter', () => {
  const never = async () => {
    const limiter = new RateLimiter(policies)
    const penalty = await limiter.penalize('a', { tokens: 5 })
    type All = { readonly tokens: number; readonly calls: number; readonly cents: number }
    const isAll = <T extends All>(units: T) => [units.tokens, units.calls, units.cents] as const
    isAll(penalty)
    const decision = await limiter.take('a', { cost: { tokens: 5 } })
    isAll(await limiter.refund(decision))
    isAll(await limiter.refund(decision, { cents: 1 }))
    // @ts-expect-error a number
    await limiter.refund(decision, 1)
    // @ts-expect-error a number
    await limiter.penalize('a', 5)
    // @ts-expect-error the units are missing
    await limiter.penalize('a')
    const reservation = await limiter.reserve('a', { tokens: 4_000 }, { ttl: '2m' })
    if (reservation.allowed) {
      isAll(reservation.units)
      const settlement = await reservation.commit({ tokens: 3_000 })
      if (settlement.settled) {
        isAll(settlement.refunded)
      }
      await reservation.extend({ tokens: 5 })
      // @ts-expect-error a number
      await reservation.commit(5)
      await limiter.settle(reservation.id, { cents: 5 })
    }
    // @ts-expect-error tokens are missing
    await limiter.reserve('a', { cents: 5 })
    holds<Equal<Reservation<'default'>, Reservation<'default', never>>>()
    holds<Equal<Extract<Settlement, { settled: true }>['refunded'], number>>()
  }
  expect(never).toBeInstanceOf(Function)
})

test('wait and acquire take a cost by meter', () => {
  const never = async () => {
    const { requests, tokens } = policies
    const pacer = new RateLimiter({ requests, tokens })
    const waited = await pacer.wait('a', { cost: { tokens: 5 }, maxWait: '5s' })
    holds<Equal<typeof waited.allowed, true>>()
    const resolved = await pacer.wait('a', { cost: { tokens: 5 }, onTooLong: 'resolve' })
    holds<Equal<typeof resolved.allowed, boolean>>()
    // @ts-expect-error the cost is missing
    await pacer.wait('a')
    // @ts-expect-error the cost is missing
    await pacer.wait('a', { maxWait: '5s' })
    const permits = new RateLimiter({ running: concurrency({ limit: 10 }), tokens })
    const permit = await permits.acquire('a', { cost: { tokens: 5 }, maxWait: '5s' })
    holds<Equal<typeof permit, Permit<'running' | 'tokens', 'calls' | 'tokens', true>>>()
    // @ts-expect-error the cost is missing
    await permits.acquire('a')
  }
  expect(never).toBeInstanceOf(Function)
})

test('takeUpTo does not compile with meters', () => {
  const never = async () => {
    // @ts-expect-error which units it takes would be unclear
    await new RateLimiter(policies).takeUpTo('a', 5)
    await new RateLimiter(policies.requests).takeUpTo('a', 5)
  }
  expect(never).toBeInstanceOf(Function)
})

test('a limiter with meters is no limiter whose calls cost a number', () => {
  const never = () => {
    // @ts-expect-error calls must name the tokens
    const limiter: Limiter = new RateLimiter(policies)
    return limiter
  }
  expect(never).toBeInstanceOf(Function)
})
