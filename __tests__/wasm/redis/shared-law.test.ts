/** A client's store shares one law with the native store. `__tests__/simulation/` compares their results. */
import { setTimeout as sleep } from 'node:timers/promises'
import * as native from '../../../ts/index.js'
import * as wasm from '../../../ts/wasm/index.js'
import { Random } from '../../random.js'
import { atRate, inAnySpan, inEachOpenedWindow, type Law } from '../../redis/laws.js'
import { CLIENT_STORES, openedServer } from './stores.js'

const opened = openedServer()

/** The callers of two processes. */
const SHARED: readonly (readonly [string, native.Policy, Law])[] = [
  ['gcra', native.gcra({ limit: 250, period: 250, burst: 50 }), atRate(50, 250, 250)],
  ['fixedWindow', native.fixedWindow({ limit: 200, window: 250 }), inEachOpenedWindow(200, 250)],
  ['slidingLog', native.slidingLog({ limit: 200, window: 250 }), inAnySpan(200, 250)],
  ['slidingWindow', native.slidingWindow({ limit: 200, window: 250, buckets: 5 }), inAnySpan(200, 250)],
]

describe.each(Object.keys(CLIENT_STORES))('%s', (clientStore) => {
  test.each(SHARED)('keeps one law together with the native store, on the same keys: %s', async (name, policy, law) => {
    const { server } = opened
    const prefix = `${name}-${clientStore.replaceAll(/\W/g, '')}`
    const other = await (CLIENT_STORES[clientStore] as (typeof CLIENT_STORES)[string])(server.port, {
      commandTimeout: 30_000,
    })
    const store = new native.RedisStore({ url: server.url, commandTimeout: 30_000 })
    const limiters = [
      new native.RateLimiter(policy, { store, prefix }),
      new wasm.RateLimiter(policy, { store: other.store, prefix }),
    ]
    const random = new Random(prefix.length)
    const admitted = new Map<string, { at: number; cost: number }[]>()
    const by: [number, number] = [0, 0]
    let flushes = 0
    // Long enough for several windows, and for units of both, however slow the machine is.
    const isOver = () => flushes > 10 && Math.min(...by) > 50
    const caller = async (which: 0 | 1) => {
      const limiter = limiters[which] as native.RateLimiter
      while (!isOver()) {
        const key = `key ${random.whole(1, 3)}`
        const cost = random.whole(1, 3)
        const { allowed, at } = await limiter.take(key, cost)
        if (allowed) {
          by[which]++
          admitted.set(key, [...(admitted.get(key) ?? []), { at: Math.round(at * 1_000), cost }])
        }
        if (random.next() < 0.01) {
          await sleep(random.whole(1, 20))
        }
      }
    }
    const flushing = (async () => {
      while (!isOver()) {
        await sleep(100)
        await server.command('SCRIPT', 'FLUSH')
        flushes++
      }
    })()
    await Promise.all([...Array.from({ length: 24 }, (_, index) => caller((index % 2) as 0 | 1)), flushing])
    for (const trace of admitted.values()) {
      expect(law(trace.sort((one, two) => one.at - two.at))).toBeUndefined()
    }
    await Promise.all([store.close(), other.store.close()])
    await other.close()
  })
})
