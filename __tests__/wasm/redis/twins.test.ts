/**
 * A client's store has the same results as memory, in every field, and shares one law with the
 * native store.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import * as native from '../../../ts/index.js'
import * as wasm from '../../../ts/wasm/index.js'
import { atRate, inAnySpan, inEachOpenedWindow, type Law } from '../../redis/laws.js'
import { CASES } from '../cases.js'
import { type AnyLimiter, Random, TracedClock, TracedPair } from '../trace.js'
import { CLIENT_STORES, ioredis, openedServer } from './stores.js'

const opened = openedServer()

const STEPS = 2_000

/**
 * A client whose script uses a given clock, and whose keys live long, because the real time
 * differs.
 */
function atTimeOf(clock: () => number) {
  const client = ioredis(opened.server.port)
  let digest: string | undefined
  const run = async ([name = '', script = '', ...rest]: string[]) => {
    if (name === 'EVAL') {
      const source = script
        .replace(/local clock = .*\nlocal now = .*\n/, "local now = tonumber(redis.call('GET', 'now'))\n")
        .replaceAll("'PX', ttl", "'PX', '10000000000000'")
        .replaceAll("'PEXPIRE', name, ttl", "'PEXPIRE', name, '10000000000000'")
        .replaceAll("'PEXPIRE', KEYS[key], ttl", "'PEXPIRE', KEYS[key], '10000000000000'")
      expect(source).not.toContain("redis.call('TIME')")
      digest = String(await client.call('SCRIPT', 'LOAD', source))
    }
    if (digest === undefined) {
      throw new Error('NOSCRIPT No matching script. Please use EVAL.')
    }
    const set = client.call('SET', 'now', String(Math.round(clock() * 1_000)))
    const [, answer] = await Promise.all([set, client.call('EVALSHA', digest, ...rest)])
    return answer
  }
  return { run, client }
}

describe.each(CASES.map((one) => [one.name, one] as const))('%s', (_, { policy, ...asking }) => {
  test('has the same results as memory', async () => {
    // An expired state may exist or not, which matters if the clock goes back.
    const clock = new TracedClock({ goesBack: false })
    const random = new Random(asking.maxCost * 1_000 + asking.horizonMs)
    const { run, client } = atTimeOf(clock.read)
    await client.call('FLUSHALL')
    const store = wasm.RedisStore.from(run, { commandTimeoutMs: 20_000 })
    const limiters = [
      new native.RateLimiter(policy, { store: new native.MemoryStore({ clock: clock.read }) }),
      new wasm.RateLimiter(policy, { store, prefix: 'twin' }),
    ] as unknown as readonly AnyLimiter[]
    const traced = new TracedPair(limiters as readonly [AnyLimiter, AnyLimiter], asking, random, { isRemote: true })
    for (let step = 0; step < STEPS; step++) {
      clock.step(random, asking.horizonMs)
      await traced.step()
    }
    expect(traced.seen.get('take allowed')).toBeGreaterThan(STEPS / 100)
    expect(traced.seen.get('take refused')).toBeGreaterThan(STEPS / 1_000)
    expect([...traced.seen.keys()]).toEqual(expect.arrayContaining(['peek allowed', 'takeMany', 'refund', 'penalize']))
    await store.close()
    client.disconnect()
  })
})

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
      commandTimeoutMs: 30_000,
    })
    const store = new native.RedisStore({ url: server.url, commandTimeoutMs: 30_000 })
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
