/** The options of limiters over Redis: local decisions, and answers while the store is away. */
import { fixedWindow, gcra, type OnStoreFailure, RateLimiter } from 'tollgate'
import type { Activity, Bench } from './activity.js'

/** Leases of hot keys, and cached refusals of a flood. */
export function local(bench: Bench): Activity[] {
  const { store, calls } = bench
  const leased = new RateLimiter(gcra({ limit: 500, period: '1s', burst: 800 }), {
    store,
    prefix: 'leased',
    local: { lease: '500ms', refusals: '500ms', maxKeys: 1_000 },
  })
  const flooded = new RateLimiter(fixedWindow({ limit: 5, window: '5s' }), {
    store,
    prefix: 'flooded',
    local: { refusals: '1s', maxKeys: 100 },
  })
  return [
    {
      everyMs: 200,
      run: () =>
        Promise.all(Array.from({ length: 10 }, () => calls.make(bench.kind('take (lease)'), () => leased.take('hot')))),
      close: () => leased.close(),
    },
    {
      everyMs: 2_000,
      run: async () => {
        const decision = await calls.make(bench.kind('take (lease)'), () => leased.take(bench.key()))
        await (decision?.allowed && calls.make(bench.kind('change'), () => leased.refund(decision)))
        // Ends the leases of the key.
        await calls.make(bench.kind('change'), () => leased.reset('hot'))
      },
    },
    {
      everyMs: 200,
      run: async () => {
        const key = bench.below(10) === 0 ? bench.freshKey() : 'flood'
        await calls.make(bench.kind('take (cached)'), () => flooded.take(key))
        await calls.make(bench.kind('takeMany'), () => flooded.takeMany(['flood', key]))
      },
      close: () => flooded.close(),
    },
  ]
}

const MODES: Readonly<Record<string, OnStoreFailure>> = {
  throw: 'throw',
  allow: 'allow',
  refuse: 'refuse',
  share: { embedded: { share: 0.5 } },
}

/** Limiters with each kind of answer while the store is away. Only `'throw'` rejects. */
export function fallbacks(bench: Bench): Activity[] {
  const { store, calls } = bench
  return Object.entries(MODES).map(([name, onStoreFailure]) => {
    const limiter = new RateLimiter(gcra({ limit: 10, period: '1s' }), {
      store,
      prefix: `mode-${name}`,
      onStoreFailure,
    })
    const make = calls.make.bind(calls, name === 'throw' ? bench.kind('take') : bench.safe('take (fallback)'))
    return {
      everyMs: 400,
      run: async () => {
        await make(() => limiter.take(bench.key()))
        await make(() => limiter.takeMany([bench.key(), bench.key()]))
        await make(() => limiter.block(`blocked:${bench.below(10)}`, '1s'))
      },
      close: () => limiter.close(),
    }
  })
}
