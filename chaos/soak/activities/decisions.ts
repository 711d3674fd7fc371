/** Each algorithm, several policies, and each operation that decides or changes a key. */
import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  RateLimiter,
  slidingCounter,
  slidingLog,
  slidingLogs,
  slidingWindow,
  tiers,
  tokenBucket,
  watchPolicies,
} from 'tollgate'
import type { Activity, Bench } from './activity.js'

/** Short windows, so that the ever new keys expire soon. */
const ALGORITHMS = {
  gcra: gcra({ limit: 10, period: '1s', burst: 5 }),
  fixed: fixedWindow({ limit: 10, window: '2s' }),
  calendar: calendarWindow({ limit: 1_000, every: 'hour', timeZone: 'Asia/Kathmandu' }),
  sliding: slidingWindow({ limit: 10, window: '2s', buckets: 10 }),
  hash: slidingWindow({ limit: 10, window: '2s', buckets: 10, layout: 'hash' }),
  counter: slidingCounter({ limit: 10, window: '2s' }),
  log: slidingLog({ limit: 5, window: '2s', countRefused: true }),
  logs: slidingLogs({ limits: { short: { limit: 3, window: '1s' }, long: { limit: 10, window: '5s' } } }),
  bucket: tokenBucket({ capacity: 10, refill: { tokens: 5, every: '1s' }, debt: 5 }),
  interval: tokenBucket({ capacity: 10, refill: { tokens: 5, every: '1s' }, refillMode: 'interval' }),
  leaky: leakyBucket({ capacity: 10, leak: { units: 5, every: '1s' } }),
} as const

/** A call of each algorithm, on a few keys and on ever new ones. */
export function algorithms(bench: Bench): Activity[] {
  const { store, calls } = bench
  return Object.entries(ALGORITHMS).map(([name, policy]) => {
    const limiter = new RateLimiter(policy, { store, prefix: `algorithm-${name}` })
    // Each calendar window of an ever new key lasts for an hour.
    const key = () => (name === 'calendar' ? `user:${bench.below(20)}` : bench.key())
    return {
      everyMs: 400,
      run: () => calls.make(bench.kind('take'), () => limiter.take(key(), 1 + bench.below(2))),
      close: () => limiter.close(),
    }
  })
}

/** Several policies on several keys, and several keys in one call. */
export function several(bench: Bench): Activity[] {
  const { store, calls } = bench
  const login = new RateLimiter(
    {
      ip: gcra({ limit: 20, period: '1s', per: 'ip' }),
      account: fixedWindow({ limit: 5, window: '2s', per: 'account' }),
      all: slidingWindow({ limit: 1_000, window: '1s', per: 'global' }),
    },
    { store, prefix: 'several', tag: 'several' },
  )
  const batch = new RateLimiter(
    { short: gcra({ limit: 10, period: '1s' }), long: fixedWindow({ limit: 50, window: '5s' }) },
    { store, prefix: 'batch' },
  )
  const keys = () => Array.from({ length: 10 }, () => bench.key())
  return [
    {
      everyMs: 300,
      run: () =>
        calls.make(bench.kind('take'), () => login.take({ ip: `ip:${bench.below(10)}`, account: bench.key() })),
      close: () => login.close(),
    },
    {
      everyMs: 700,
      run: async () => {
        await calls.make(bench.kind('takeMany'), () => batch.takeMany(keys()))
        await calls.make(bench.kind('takeUpTo'), () => batch.takeUpTo(bench.key(), 8))
        await calls.make(bench.kind('tryTake'), () => batch.tryTake(bench.key()))
      },
      close: () => batch.close(),
    },
  ]
}

/** Everything that changes a key, and gives units back. */
export function changes(bench: Bench): Activity[] {
  const { store, calls } = bench
  const limiter = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 10 }), { store, prefix: 'changes' })
  const change = () => calls.make.bind(calls, bench.kind('change'))
  return [
    {
      everyMs: 400,
      run: async () => {
        const [key, make] = [bench.key(), change()]
        const decision = await calls.make(bench.kind('take'), () => limiter.take(key, 3))
        await (decision?.allowed && make(() => limiter.refund(decision, 2)))
        await make(() => limiter.penalize(key, 2))
        await make(() => limiter.block(key, '1s'))
        await calls.make(bench.kind('peek'), () => limiter.peek(key))
        await make(() => limiter.unblock(key))
        await make(() => limiter.override(key, { limit: 20 + bench.below(10) }, { ttl: '2s' }))
        await calls.make(bench.kind('take'), () => limiter.take(key))
        await make(() => (bench.random() < 0.5 ? limiter.clearOverride(key) : limiter.reset(key)))
      },
      close: () => limiter.close(),
    },
  ]
}

const TIERS = (factor: number) =>
  tiers({
    free: gcra({ limit: 5 * factor, period: '1s' }),
    pro: gcra({ limit: 50 * factor, period: '1s' }),
  })

/** Tiers whose numbers change, also by a watch that starts and stops. */
export function tiered(bench: Bench): Activity[] {
  const { store, calls } = bench
  const limiter = new RateLimiter(TIERS(1), { store, prefix: 'tiered' })
  const read = async () => TIERS(1 + bench.below(2))
  return [
    {
      everyMs: 300,
      run: () =>
        calls.make(bench.kind('take'), () =>
          limiter.take(bench.key(), { cost: 2, tier: bench.random() < 0.5 ? 'free' : 'pro' }),
        ),
      close: () => limiter.close(),
    },
    {
      everyMs: 2_000,
      run: async () => {
        limiter.update(TIERS(1 + bench.below(3)))
        const watch = watchPolicies(limiter, read, { every: 10 + bench.below(100) })
        await watch.refresh()
        watch.stop()
      },
    },
  ]
}

/** Refused calls that ban their keys. */
export function bans(bench: Bench): Activity[] {
  const { store, calls } = bench
  const ban = { after: 2, period: '2s', for: ['1s', '2s'], ttl: '3s' } as const
  const banning = new RateLimiter(gcra({ limit: 2, period: '1s' }), { store, prefix: 'bans', ban })
  const blocking = new RateLimiter(fixedWindow({ limit: 2, window: '1s' }), { store, prefix: 'blocks', blockFor: '1s' })
  return [banning, blocking].map((limiter) => ({
    everyMs: 400,
    run: async () => {
      const key = bench.key()
      for (let call = 0; call < 5; call++) {
        await calls.make(bench.kind('take'), () => limiter.take(key))
      }
    },
    close: () => limiter.close(),
  }))
}
