/** The accepted clients and options. */
import { Redis as Upstash } from '@upstash/redis'
import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster } from 'redis'
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

test('clients of clusters are refused', () => {
  const cluster = new Cluster([{ host: '127.0.0.1', port: 9 }], { lazyConnect: true })
  for (const client of [cluster, createCluster({ rootNodes: [] })]) {
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
      /^client must be an ioredis, a node-redis or an @upstash\/redis client, or a function/,
    ),
  })
})

test.each([
  [{ commandTimeoutMs: 0 }, 'commandTimeoutMs'],
  [{ commandTimeoutMs: 86_400_001 }, 'commandTimeoutMs'],
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
