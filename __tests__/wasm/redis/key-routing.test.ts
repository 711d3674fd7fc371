/** Stores on proxies that route a script by its first key, and on sharded servers behind one address. */

import { fixedWindow, RateLimiter, RedisStore, type RedisStoreOptions } from '../../../ts/index.js'
import * as wasm from '../../../ts/wasm/index.js'
import { failureOf } from '../../failure.js'
import { outcome, PATIENT_MS } from '../../redis/help.js'
import { RedisCluster } from '../../servers/cluster.js'
import { KeyRouter } from '../../servers/key-router.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { ioredis } from './stores.js'

const LIMIT = 10
const KEYS = Array.from({ length: 8 }, (_, number) => `key-${number}`)
const ONE_KEY = { oneKeyPerScript: true }

type Keys = string | { ip: string; user: string }

/** What these tests need of a limiter of either package. */
interface Limiter {
  take(keys: Keys, options?: { tag: string }): Promise<{ allowed: boolean }>
  reserve(keys: Keys, cost: number, options: object): Promise<{ allowed: boolean; commit?(units: number): unknown }>
  penalize(keys: Keys, units: number): Promise<unknown>
}

/** A store, and limiters on it. */
interface Opened extends AsyncDisposable {
  /** @param per - The key dimensions of its policies: a policy for each. */
  limiter(prefix: string, per?: readonly ('ip' | 'user')[]): Limiter
}

type Options = Pick<RedisStoreOptions, 'commandTimeout' | 'oneKeyPerScript'>

/** Opens a store at a port, by its kind. */
const STORES: Record<string, (port: number, options?: Options) => Opened> = {
  'the native store'(port, options) {
    const store = new RedisStore({ host: '127.0.0.1', port, commandTimeout: PATIENT_MS, ...options })
    return {
      limiter: (prefix, per) => new RateLimiter(policiesOf(per) as never, { store, prefix }) as never,
      [Symbol.asyncDispose]: () => store.close(),
    }
  },
  'RedisStore.from'(port, options) {
    const client = ioredis(port)
    const store = wasm.RedisStore.from(client, { commandTimeout: PATIENT_MS, ...options })
    return {
      limiter: (prefix, per) => new wasm.RateLimiter(policiesOf(per) as never, { store, prefix }) as never,
      async [Symbol.asyncDispose]() {
        await store.close()
        client.disconnect()
      },
    }
  },
}

function policiesOf(per: readonly string[] | undefined): unknown {
  const policy = { limit: LIMIT, window: '1d' } as const
  return per === undefined
    ? fixedWindow(policy)
    : Object.fromEntries(per.map((dimension) => [dimension, fixedWindow({ ...policy, per: dimension })]))
}

/** The admitted units of each key. Each tick takes from 5 or 6 of the keys, in another order. */
async function admittedOf(limiter: Limiter): Promise<number[]> {
  const admitted = KEYS.map(() => 0)
  for (let round = 0; round < 6 * LIMIT; round++) {
    const indexes = KEYS.map((_, index) => (index + round) % KEYS.length).filter((index) => (index + round) % 3 !== 0)
    const decisions = await Promise.all(indexes.map((index) => limiter.take(KEYS[index] as string)))
    indexes.forEach((index, call) => {
      admitted[index] = (admitted[index] as number) + Number(decisions[call]?.allowed)
    })
  }
  return admitted
}

/** Three servers behind a proxy, during the tests of a block. */
function routed(hashTags: boolean): { readonly port: number } {
  let [shards, router]: [RedisServer[], KeyRouter | undefined] = [[], undefined]
  beforeAll(async () => {
    shards = await Promise.all([1, 2, 3].map(() => RedisServer.start()))
    router = await KeyRouter.start(shards, { hashTags })
  })
  afterAll(async () => {
    await router?.stop()
    await Promise.all(shards.map((shard) => shard.stop()))
  })
  return {
    get port() {
      return (router as KeyRouter).port
    },
  }
}

describe.each(Object.entries(STORES))('%s', (name, open) => {
  describe.each([false, true])('behind a proxy that routes by the first key, hash tags: %j', (hashTags) => {
    const proxy = routed(hashTags)

    // promise: one-count-behind-a-proxy
    test('each key has one count', async () => {
      await using store = open(proxy.port, ONE_KEY)
      expect(await admittedOf(store.limiter(`one-${name.length}`))).toEqual(KEYS.map(() => LIMIT))
    })

    test('the reservations of a key are on the server of the key', async () => {
      await using store = open(proxy.port, ONE_KEY)
      const limiter = store.limiter(`held-${name.length}`)
      for (const key of KEYS.slice(0, 3)) {
        const reservation = await limiter.reserve(key, 4, { ttl: '1m' })
        await Promise.all(KEYS.map((other) => limiter.penalize(other, other === key ? 2 : 1)))
        await reservation.commit?.(1)
      }
      const admitted = await Promise.all(
        KEYS.map(async (key) => {
          const takes = await Promise.all(Array.from({ length: LIMIT }, () => limiter.take(key)))
          return takes.filter(({ allowed }) => allowed).length
        }),
      )
      // A key with a reservation has lost 1 unit to it, and 4 to penalties; another has lost 3 to these.
      expect(admitted).toEqual(KEYS.map((_, index) => LIMIT - (index < 3 ? 5 : 3)))
    })

    test('a call on different keys needs a tag, and the error says so', async () => {
      await using store = open(proxy.port, ONE_KEY)
      const limiter = store.limiter(`two-${name.length}`, ['ip', 'user'])
      const keys = { ip: '10.0.0.1', user: 'alice' }
      const [{ error }, tagged] = await Promise.all([
        outcome(limiter.take(keys) as never),
        outcome(limiter.take(keys, { tag: 'sign-in' }) as never),
      ])
      expect(error).toMatchObject({ code: 'STORE_ERROR', charged: false, message: expect.stringContaining('tag') })
      expect(tagged.decision?.allowed).toBe(true)
    })
  })

  test('a cluster of one node behind a plain URL: its refusal of several slots is no failure', async () => {
    await using cluster = await RedisCluster.start({ masters: 1 })
    await using store = open(cluster.nodes[0]?.port as number)
    const limiter = store.limiter('slots')
    const node = cluster.nodes[0] as RedisServer
    expect(await admittedOf(limiter)).toEqual(KEYS.map(() => LIMIT))
    // The store remembers it: from then on a script per key, and no more refusals.
    await node.command('CONFIG', 'RESETSTAT')
    await Promise.all(KEYS.map((key) => limiter.take(key)))
    expect(await node.command<string>('INFO', 'commandstats')).toMatch(/cmdstat_evalsha:calls=8,.*rejected_calls=0/)
    const two = store.limiter('two', ['ip', 'user'])
    const { error } = await outcome(two.take({ ip: '10.0.0.1', user: 'alice' }) as never)
    expect(error).toMatchObject({ code: 'STORE_ERROR', charged: false, message: expect.stringContaining('set a tag') })
    expect(await two.take({ ip: '10.0.0.1', user: 'alice' }, { tag: 'sign-in' })).toMatchObject({ allowed: true })
  })

  test("a proxy's error after the script ran: the charge is unknown", async () => {
    await using server = await RedisServer.start()
    await using router = await KeyRouter.start([server], { timeoutMs: 50 })
    await using store = open(router.port)
    const limiter = store.limiter('proxy-error')
    await until('the store is up', async () => (await outcome(limiter.take('ready') as never)).error === undefined)
    server.freeze()
    const outcomes = await Promise.all(KEYS.map(() => outcome(limiter.take('key') as never)))
    server.thaw()
    expect(outcomes.map(({ error }) => `${error?.code} ${error?.charged}`)).toEqual(
      KEYS.map(() => 'STORE_ERROR unknown'),
    )
    expect(outcomes[0]?.error?.message).toContain('ERR Connection timed out')
    // They were charged.
    const remaining = await until('the server answers', () => limiter.take('key') as Promise<{ remaining?: number }>)
    expect(remaining).toMatchObject({ remaining: LIMIT - KEYS.length - 1 })
  })

  test('a node of a larger cluster behind a plain URL is named as such', async () => {
    await using cluster = await RedisCluster.start({ masters: 3 })
    await using store = open(cluster.nodes[0]?.port as number)
    const outcomes = await Promise.all(KEYS.map((key) => outcome(store.limiter('moved').take(key) as never)))
    const errors = outcomes.flatMap(({ error }) => (error === undefined ? [] : [error]))
    expect(errors.length).toBeGreaterThan(0)
    for (const error of errors) {
      expect(error).toMatchObject({ code: 'STORE_ERROR', charged: false })
      expect(error.message).toMatch(/this is a node of a Redis Cluster: .*cluster: \{ nodes \}.*MOVED/)
    }
  })
})

test('errors have the name, value and rule of oneKeyPerScript', () => {
  const message = (run: () => unknown) => failureOf(run).message
  const url = 'redis://127.0.0.1:9'
  expect(message(() => new RedisStore(url, { oneKeyPerScript: 1 as never }))).toBe(
    'oneKeyPerScript must be true or false, got 1',
  )
  expect(message(() => wasm.RedisStore.from(() => Promise.reject(), { oneKeyPerScript: 1 as never }))).toBe(
    'oneKeyPerScript must be true or false, got 1',
  )
  expect(message(() => new RedisStore({ cluster: { nodes: ['a'] }, oneKeyPerScript: true }))).toBe(
    'oneKeyPerScript must be false with cluster, got true',
  )
})
