/** The accepted clients and options. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { Redis as Upstash } from '@upstash/redis'
import { GlideClusterClient } from '@valkey/valkey-glide'
import { Cluster, Redis } from 'ioredis'
import { Redis as Valkey, Cluster as ValkeyCluster } from 'iovalkey'
import { createClient, createCluster, createSentinel } from 'redis'
import { createCluster as createCluster6 } from 'redis-6'
import { fixedWindow, gcra, MemoryStore, RateLimiter, type RedisClient, RedisStore } from '../../../ts/wasm/index.js'
import { anything, failureOf } from '../../failure.js'

const policy = gcra({ limit: 1, period: '1s' })
const never: RedisClient = () => new Promise(() => {})

// promise: never-sent-again
test('a client that resends commands with an unknown outcome is refused', () => {
  const lazy = { lazyConnect: true }
  const upstash = { url: 'http://127.0.0.1:9', token: 'secret' }
  const rule = 'otherwise it resends commands with an unknown outcome, which would charge twice'
  const refused = [
    [new Redis(lazy), 'autoResendUnfulfilledCommands: false'],
    [new Valkey(lazy), 'autoResendUnfulfilledCommands: false'],
    [new Upstash(upstash), 'retry: { retries: 0 }'],
    // It retries once nevertheless.
    [new Upstash({ ...upstash, retry: false }), 'retry: { retries: 0 }'],
  ] as const
  for (const [client, option] of refused) {
    const { code, message } = failureOf(() => RedisStore.from(client))
    expect({ code, message }).toEqual({
      code: 'INVALID_OPTION',
      message: `client must be made with ${option}: ${rule}`,
    })
  }
  const taken = [
    new Redis({ ...lazy, autoResendUnfulfilledCommands: false }),
    new Upstash({ ...upstash, retry: { retries: 0 } }),
    createClient(),
  ]
  for (const client of taken) {
    expect(RedisStore.from(client)).toBeInstanceOf(RedisStore)
  }
})

// promise: never-sent-again
test('a client whose reconnectOnError resends commands with an unknown outcome is refused', () => {
  const options = { lazyConnect: true, autoResendUnfulfilledCommands: false }
  const isTimeout = ({ message }: Error) => /timed out/.test(message)
  for (const reconnectOnError of [() => 2 as const, (error: Error) => (isTimeout(error) ? 2 : false)]) {
    for (const client of [new Redis({ ...options, reconnectOnError }), new Valkey({ ...options, reconnectOnError })]) {
      expect(failureOf(() => RedisStore.from(client))).toMatchObject({
        code: 'INVALID_OPTION',
        message:
          'client must be made with a reconnectOnError that returns 2 only for READONLY: ' +
          'otherwise it resends commands with an unknown outcome, which would charge twice',
      })
    }
  }
  const isReadonly = ({ message }: Error) => message.startsWith('READONLY')
  const throws = () => {
    throw new Error('not expected')
  }
  // The documented use of ioredis for a failover: a refused write has not run.
  const harmless = [(error: Error) => (isReadonly(error) ? 2 : false), () => 1 as const, () => true, throws]
  for (const reconnectOnError of harmless) {
    expect(RedisStore.from(new Redis({ ...options, reconnectOnError }))).toBeInstanceOf(RedisStore)
  }
})

test('no command runs in the async context of a caller: a client would keep the context with its socket', async () => {
  const context = new AsyncLocalStorage<string>()
  const seen: unknown[] = []
  const store = RedisStore.from(async () => {
    seen.push(context.getStore())
    throw new Error('ERR not supported')
  })
  const limiter = new RateLimiter(policy, { store, prefix: 'context' })
  await context.run('caller', async () => {
    for (const call of [() => limiter.peek('a'), () => limiter.ready(), () => limiter.take('a')]) {
      await call().catch(() => {})
    }
  })
  expect(seen.length).toBeGreaterThan(2)
  expect(seen.filter((value) => value !== undefined)).toEqual([])
})

test('a client that renames keys is refused: its limiters would count apart from those of other stores', () => {
  const options = { lazyConnect: true, autoResendUnfulfilledCommands: false }
  for (const client of [new Redis({ ...options, keyPrefix: 'app:' }), new Valkey({ ...options, keyPrefix: 'app:' })]) {
    expect(failureOf(() => RedisStore.from(client))).toMatchObject({
      code: 'INVALID_OPTION',
      message:
        'client must be made without keyPrefix: it renames the keys, and processes without it would count apart: ' +
        'begin the prefix of the limiter with it',
    })
  }
  expect(RedisStore.from(new Redis({ ...options, keyPrefix: '' }))).toBeInstanceOf(RedisStore)
})

test('a Sentinel client of node-redis is refused, because it resends commands', () => {
  const client = createSentinel({ name: 'main', sentinelRootNodes: [] })
  expect(failureOf(() => RedisStore.from(anything(client)))).toMatchObject({
    code: 'INVALID_OPTION',
    message:
      'client must be one for a single server, because node-redis resends commands by Sentinel: ' +
      "use the RedisStore of 'tollgate'",
  })
})

test('clients of clusters are refused', () => {
  const [nodes, lazy] = [[{ host: '127.0.0.1', port: 9 }], { lazyConnect: true }] as const
  const clusters = [new Cluster([...nodes], lazy), new ValkeyCluster([...nodes], lazy)]
  const glide = Object.create(GlideClusterClient.prototype)
  for (const client of [...clusters, createCluster({ rootNodes: [] }), createCluster6({ rootNodes: [] }), glide]) {
    expect(failureOf(() => RedisStore.from(anything(client)))).toMatchObject({
      code: 'INVALID_OPTION',
      message: "client must be one for a single server: for a cluster use the RedisStore of 'tollgate'",
    })
  }
})

test.each([undefined, null, 'redis://localhost', 7, {}, { evalsha: () => {} }])('%p is not a client', (client) => {
  expect(failureOf(() => RedisStore.from(anything(client)))).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(
      /^client must be an ioredis, iovalkey, node-redis, @valkey\/valkey-glide or @upstash\/redis client, or a function/,
    ),
  })
})

test.each([
  [{ commandTimeout: 0 }, 'commandTimeout'],
  [{ commandTimeout: 86_400_001 }, 'commandTimeout'],
  [{ maxPending: 1.5 }, 'maxPending'],
  [{ url: 'redis://localhost' }, 'url'],
  [7, 'options'],
])('%p are not valid options', (options, named) => {
  const { code, message } = failureOf(() => RedisStore.from(never, anything(options)))
  expect(code).toBe('INVALID_OPTION')
  expect(message).toContain(named)
})

test('limiters need a prefix, which is unique unless the policy is the same', async () => {
  const store = RedisStore.from(never)
  expect(failureOf(() => new RateLimiter(policy, anything({ store })))).toMatchObject({ code: 'INVALID_OPTION' })
  const first = new RateLimiter(policy, { store, prefix: 'api' })
  expect(new RateLimiter(policy, { store, prefix: 'api' })).toBeInstanceOf(RateLimiter)
  const other = () => new RateLimiter(fixedWindow({ limit: 1, window: '1s' }), { store, prefix: 'api' })
  const { code, message } = failureOf(other)
  expect(code).toBe('INVALID_OPTION')
  expect(message).toContain('api')
  // Another store has separate prefixes.
  expect(new RateLimiter(policy, { store: RedisStore.from(never), prefix: 'api' })).toBeInstanceOf(RateLimiter)
  await first.close()
})

interface RateLimiterLike {
  takeSync(key: string): unknown
}

test('a limiter over Redis has no takeSync, and a string is not a store', () => {
  const limiter = new RateLimiter(policy, { store: RedisStore.from(never), prefix: 'sync' })
  expect(failureOf(() => (limiter as never as RateLimiterLike).takeSync('a'))).toMatchObject({ code: 'INVALID_OPTION' })
  expect(failureOf(() => new RateLimiter(policy, anything({ store: 'redis://localhost', prefix: 'a' })))).toMatchObject(
    {
      code: 'INVALID_OPTION',
      message: 'store must be a MemoryStore or a RedisStore: tollgate/wasm opens no connections itself',
    },
  )
  expect(new RateLimiter(policy, { store: new MemoryStore() }).takeSync('a').allowed).toBe(true)
})
