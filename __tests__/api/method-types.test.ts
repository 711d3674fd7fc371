/** The types of methods that only some policies have. */
import type {
  Decision,
  Policies,
  Policy,
  RedisStore,
  Reservation,
  Settlement,
  TollgateError,
  WaitOptions,
} from '../../ts/index.js'
import {
  calendarWindow,
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  RateLimiter,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../ts/index.js'
import { type Equal, holds } from '../type-proof.js'

test('only a limiter whose policies are all rates can wait', () => {
  const never = async (policy: Policy, store: RedisStore) => {
    const bucket = tokenBucket({ capacity: 1, refill: { tokens: 1, every: 1 } })
    const one = await new RateLimiter(bucket).wait('a', { cost: 1, maxWait: 5, signal: AbortSignal.timeout(5) })
    holds<Equal<typeof one.waitedMs, number>>()
    holds<Equal<typeof one.policy, 'default'>>()
    holds<Equal<typeof one.allowed, true>>()
    const rejecting = await new RateLimiter(bucket).wait('a', { onTooLong: 'reject' })
    holds<Equal<typeof rejecting.status, 'allowed' | 'allowed-last'>>()
    const resolving = await new RateLimiter(bucket).wait('a', { onTooLong: 'resolve' })
    holds<Equal<typeof resolving, Decision<'default'> & { readonly waitedMs: number }>>()
    holds<Equal<typeof resolving.allowed, boolean>>()
    const given: WaitOptions = {}
    const either = await new RateLimiter(bucket).wait('a', given)
    holds<Equal<typeof either, Decision<'default'> & { readonly waitedMs: number }>>()
    // @ts-expect-error neither 'reject' nor 'resolve'
    await new RateLimiter(bucket).wait('a', { onTooLong: 'ignore' })
    holds<Equal<TollgateError['decision'], Decision | undefined>>()
    const leaky = leakyBucket({ capacity: 1, leak: { units: 1, every: 1 }, per: 'ip' })
    const two = new RateLimiter({ a: leaky, b: gcra({ limit: 1, period: 1, per: 'user' }) }, { store, prefix: 'api' })
    await two.wait({ ip: '1', user: 'ann' })
    // @ts-expect-error missing part
    await two.wait({ ip: '1' })
    // @ts-expect-error unknown option
    await two.wait({ ip: '1', user: 'ann' }, { maxWaitMs: 5 })
    // @ts-expect-error a window is not a rate
    await new RateLimiter(fixedWindow({ limit: 1, window: 1 })).wait('a')
    // @ts-expect-error a calendar window is not a rate
    await new RateLimiter(calendarWindow({ limit: 1, every: 'day' })).wait('a')
    // @ts-expect-error a sliding window is not a rate
    await new RateLimiter(slidingWindow({ limit: 1, window: 1 })).wait('a')
    // @ts-expect-error a sliding counter is not a rate
    await new RateLimiter(slidingCounter({ limit: 1, window: 1 })).wait('a')
    // @ts-expect-error a log is not a rate
    await new RateLimiter(slidingLog({ limit: 1, window: 1 })).wait('a')
    // @ts-expect-error several logs are not a rate
    await new RateLimiter(slidingLog({ limits: { short: { limit: 1, window: 1 } } })).wait('a')
    // @ts-expect-error a window is not a rate, over Redis either
    await new RateLimiter(fixedWindow({ limit: 1, window: 1 }), { store, prefix: 'api' }).wait('a')
    const interval = tokenBucket({ capacity: 1, refill: { tokens: 1, every: 1 }, refillMode: 'interval' })
    // @ts-expect-error a bucket that refills at intervals is not a rate
    await new RateLimiter(interval).wait('a')
    // @ts-expect-error a policy is not a rate
    await new RateLimiter({ a: bucket, b: fixedWindow({ limit: 1, window: 1 }) }).wait('a')
    // @ts-expect-error the policy may not be a rate
    await new RateLimiter(policy).wait('a')
  }
  expect(never).toBeInstanceOf(Function)
})

test('reserve does not compile where a policy is, or may be, a slidingCounter', () => {
  const counter = slidingCounter({ limit: 1, window: 1, per: 'ip' })
  const never = async (store: RedisStore, policy: Policy, policies: Policies) => {
    // @ts-expect-error the policy is a slidingCounter
    await new RateLimiter(counter).reserve({ ip: '1' }, 1)
    const both = { counter, window: fixedWindow({ limit: 1, window: 1, per: 'account' }) }
    // @ts-expect-error a policy is a slidingCounter
    await new RateLimiter(both, { store, prefix: 'a' }).reserve({ ip: '1', account: 'ann' }, 1)
    // @ts-expect-error the policy may be a slidingCounter
    await new RateLimiter(policy).reserve('a', 1)
    // @ts-expect-error a policy may be a slidingCounter
    await new RateLimiter(policies).reserve('a', 1)
    // @ts-expect-error missing units
    await new RateLimiter(gcra({ limit: 1, period: 1 })).reserve('a')
    await new RateLimiter(gcra({ limit: 1, period: 1, per: 'ip' })).reserve({ ip: '1' }, 1)
  }
  expect(never).toBeInstanceOf(Function)
})

test('methods that always fail do not compile', () => {
  const never = (store: RedisStore) => {
    const permits = new RateLimiter(concurrency({ limit: 1 }))
    void permits.acquire('a')
    // @ts-expect-error a permit is needed
    void permits.take('a')
    // @ts-expect-error a permit is needed
    void permits.tryTake('a')
    // @ts-expect-error a permit is needed
    void permits.takeMany(['a'])
    // @ts-expect-error a permit is needed
    void permits.takeUpTo('a', 1)
    // @ts-expect-error a permit is needed
    void permits.penalize('a')
    // @ts-expect-error a permit is needed
    permits.takeSync('a')
    // @ts-expect-error a permit is needed
    void permits.reserve('a', 1)
    // @ts-expect-error a permit is needed
    void permits.settle('a')
    // @ts-expect-error permits do not come at a rate
    void permits.wait('a')
    // @ts-expect-error a rate has no permits
    void new RateLimiter(gcra({ limit: 1, period: 1 })).acquire('a')
    const both = { jobs: concurrency({ limit: 1 }), rate: gcra({ limit: 1, period: 1 }) }
    void new RateLimiter(both, { store, prefix: 'a' }).acquire('a')
    // @ts-expect-error a permit is needed for one of them
    void new RateLimiter(both, { store, prefix: 'a' }).take('a')
    void new RateLimiter(both, { store, prefix: 'a' }).reserve('a', 1)
    void new RateLimiter(both, { store, prefix: 'a' }).settle('id')
    const estimated = { jobs: concurrency({ limit: 1 }), count: slidingCounter({ limit: 1, window: 1 }) }
    // @ts-expect-error slidingCounter cannot give units back
    void new RateLimiter(estimated, { store, prefix: 'a' }).reserve('a', 1)
  }
  expect(never).toBeInstanceOf(Function)
})

test('permits are settled where there are units to settle', () => {
  const never = async () => {
    const jobs = concurrency({ limit: 1 })
    const [alone, both, estimated] = await Promise.all([
      new RateLimiter(jobs).acquire('a'),
      new RateLimiter({ jobs, rate: gcra({ limit: 1, period: 1 }) }).acquire('a'),
      new RateLimiter({ jobs, count: slidingCounter({ limit: 1, window: 1 }) }).acquire('a'),
    ])
    if (!alone.allowed || !both.allowed || !estimated.allowed) {
      return
    }
    const settlement: Settlement = await both.commit(1)
    void [settlement, both.cancel(), both.extend(1), both.renew('1m'), both.release()]
    const id: string = both.id
    // @ts-expect-error a permit alone has nothing to settle
    void alone.commit(1)
    // @ts-expect-error
    void alone.cancel()
    // @ts-expect-error
    const none: string = alone.id
    // @ts-expect-error slidingCounter cannot give units back
    void estimated.commit(1)
    void [id, none, alone.release(), estimated.release()]
    const reservation = await new RateLimiter({ jobs, rate: gcra({ limit: 1, period: 1 }) }).reserve('a', 1)
    const asReservation: Reservation<'jobs' | 'rate'> = reservation
    if (reservation.allowed) {
      void [reservation.signal, asReservation]
    }
  }
  expect(never).toBeInstanceOf(Function)
})
