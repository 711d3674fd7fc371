/** The option `onStoreFailure`, and the sharing of an embedded share. */
import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { addressOf, targetOf } from '../../ts/backends/redis/target.js'
import type { OnStoreFailure } from '../../ts/index.js'
import { fixedWindow, gcra, MemoryStore, RateLimiter, RedisStore, slidingLogs, tokenBucket } from '../../ts/index.js'
import { anything, failureOf } from '../failure.js'
import { RedisServer } from '../servers/redis-server.js'
import { fallbackLimiter, newPrefix } from './help.js'

const POLICY = gcra({ limit: 100, period: '1h', burst: 20 })

let server: RedisServer
let store: RedisStore

beforeAll(async () => {
  server = await RedisServer.reserve()
  store = down()
})

afterAll(async () => {
  await store.close()
  await server.stop()
})

/** Another store on the same server that is known to be down. */
function down(url = server.url): RedisStore {
  const opened = new RedisStore(url)
  // The address has no server, and the store does not need to detect that.
  opened.batcher.health.handleEvent('down', ['nobody is there'])
  return opened
}

const embedded = (share: number): OnStoreFailure => ({ embedded: { share } })

describe('the option', () => {
  test.each(['', 'fail', 42, null, true, [], {}, { embedded: undefined }, { embedded: 0.5 }, { embedded: {} }])(
    '%p is refused by name and rule',
    (value) => {
      const error = failureOf(() => fallbackLimiter(store, POLICY, anything(value)))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toMatch(
        /^onStoreFailure(:| must be 'throw', 'allow', 'refuse' or .*, got | takes an object)/,
      )
    },
  )

  test.each([0, -1, 1.01, Number.NaN, Number.POSITIVE_INFINITY, '0.5', null])(
    'a share of %p is refused, too',
    (share) => {
      const { code, message } = failureOf(() => fallbackLimiter(store, POLICY, anything({ embedded: { share } })))
      expect(code).toBe('INVALID_OPTION')
      expect(message).toMatch(/^onStoreFailure: embedded.share must be a number above 0, at most 1, got /)
    },
  )

  test('unknown options of it are refused', () => {
    const extra = anything({ embedded: { share: 0.5, shares: 2 } })
    expect(failureOf(() => fallbackLimiter(store, POLICY, extra)).message).toMatch(/embedded has no option "shares"/)
    const other = anything({ embedded: { share: 0.5 }, redis: {} })
    expect(failureOf(() => fallbackLimiter(store, POLICY, other)).message).toMatch(
      /onStoreFailure has no option "redis"/,
    )
  })

  // promise: memory-in-place-of-redis
  test.each(['throw', 'allow', 'refuse', embedded(0.5)] as const)(
    '%p changes nothing on the embedded store',
    async (value) => {
      for (const options of [
        { onStoreFailure: value },
        { store: new MemoryStore(), prefix: 'a', onStoreFailure: value },
      ]) {
        const limiter = new RateLimiter(POLICY, options)
        expect(limiter.takeSync('a')).toMatchObject({ allowed: true, source: 'store' })
        expect(await limiter.take('a')).toMatchObject({ allowed: true, source: 'store' })
      }
    },
  )

  test('an invalid value is also invalid on the embedded store', () => {
    const wrong = (onStoreFailure: unknown) =>
      failureOf(() => new RateLimiter(POLICY, { onStoreFailure: anything(onStoreFailure) }))
    expect(wrong('open').message).toMatch("onStoreFailure must be 'throw', 'allow', 'refuse'")
    expect(wrong({ embedded: { share: 2 } }).message).toMatch('embedded.share must be a number above 0')
    expect(wrong({ embedded: { share: 0.0001 } }).code).toBe('INVALID_OPTION')
  })

  test('it compiles on every store, with all valid values', () => {
    const never = () => {
      new RateLimiter(POLICY, { store, prefix: 'a', onStoreFailure: 'throw' })
      new RateLimiter(POLICY, { store: 'redis://localhost', prefix: 'a', onStoreFailure: 'allow' })
      new RateLimiter(POLICY, { store, prefix: 'a', onStoreFailure: { embedded: { share: 0.5 } } })
      new RateLimiter(POLICY, { onStoreFailure: 'allow' })
      new RateLimiter(POLICY, { store: new MemoryStore(), prefix: 'a', onStoreFailure: 'allow' })
      // @ts-expect-error unknown mode
      new RateLimiter(POLICY, { store, prefix: 'a', onStoreFailure: 'open' })
      // @ts-expect-error missing share
      new RateLimiter(POLICY, { store, prefix: 'a', onStoreFailure: { embedded: {} } })
      // @ts-expect-error takeSync is not available over Redis, even with a fallback
      new RateLimiter(POLICY, { store, prefix: 'a', onStoreFailure: 'allow' }).takeSync('a')
    }
    expect(never).toBeInstanceOf(Function)
  })

  test("the default is 'throw'", async () => {
    await using closing = new RedisStore({ url: server.url, commandTimeout: 50 })
    const limiter = new RateLimiter(POLICY, { store: closing, prefix: newPrefix() })
    await expect(limiter.take('a')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    await expect(fallbackLimiter(closing, POLICY, 'throw').take('a')).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    })
  })

  test('a prefix is still needed', () => {
    const options = anything({ store, onStoreFailure: embedded(0.5) })
    expect(failureOf(() => new RateLimiter(POLICY, options)).message).toMatch(/^prefix is required/)
  })
})

describe('a share that leaves nothing', () => {
  test('is refused by policy, number and share', () => {
    const message = (policies: Parameters<typeof fallbackLimiter>[1], share: number) => {
      const error = failureOf(() => fallbackLimiter(store, policies, embedded(share)))
      expect(error.code).toBe('INVALID_OPTION')
      return error.message
    }
    expect(message(POLICY, 0.04)).toBe(
      'onStoreFailure: embedded.share must leave at least 1 of gcra: burst, which is 20, got 0.04',
    )
    const policies = { second: POLICY, day: fixedWindow({ limit: 3, window: '1d' }) }
    expect(message(policies, 0.25)).toBe(
      'onStoreFailure: embedded.share must leave at least 1 of policies.day: fixedWindow: limit, which is 3, got 0.25',
    )
    const refill = { tokens: 3, every: '1s' } as const
    const interval = tokenBucket({ capacity: 9, refill, refillMode: 'interval' })
    expect(message(interval, 0.25)).toMatch('at least 1 of tokenBucket: refill.tokens, which is 3, got 0.25')
    const limits = { short: { limit: 2, window: '1s' }, long: { limit: 9, window: '1m' } } as const
    expect(message(slidingLogs({ limits }), 0.25)).toMatch('slidingLogs: limits.short.limit, which is 2, got 0.25')
  })

  test('or that makes a policy impossible, with the cause', () => {
    const limits = { short: { limit: 4, window: '1s' }, long: { limit: 5, window: '1m' } } as const
    const error = failureOf(() => fallbackLimiter(store, { logs: slidingLogs({ limits }) }, embedded(0.25)))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', cause: { code: 'INVALID_POLICY' } })
    expect(error.message).toMatch(
      /^onStoreFailure: embedded.share 0.25 makes an invalid policy: policies.logs: slidingLogs: limits.short: limit must/,
    )
    expect(failureOf(() => fallbackLimiter(store, slidingLogs({ limits }), embedded(0.25))).message).toMatch(
      /makes an invalid policy: slidingLogs: limits.short: /,
    )
  })
})

describe('an embedded share belongs to the process', () => {
  test('limiters with one prefix and one server share it, whatever their stores', async () => {
    await using other = down(`redis://someone:secret@127.0.0.1:${server.port}/0`)
    await using elsewhere = down(`redis://127.0.0.1:${server.port}/1`)
    const prefix = newPrefix()
    const open = (of: RedisStore, prefix: string) => fallbackLimiter(of, POLICY, embedded(0.25), prefix)
    const [first, second] = [open(store, prefix), open(other, prefix)]
    expect(await first.take('a', 3)).toMatchObject({ remaining: 2 })
    const decision = await second.take('a')
    expect(decision).toMatchObject({ remaining: 1 })
    expect(await open(elsewhere, prefix).take('a')).toMatchObject({ remaining: 4 })
    expect(await open(store, newPrefix()).take('a')).toMatchObject({ remaining: 4 })
    // The counts stay, although only the process keeps them.
    await Promise.all([first.close(), second.close()])
    expect(await open(store, prefix).peek('a', 0)).toMatchObject({ remaining: 1 })
  })

  test('one prefix has one share, of one kind of policy, until all are closed', async () => {
    await using other = down()
    const prefix = newPrefix()
    const first = fallbackLimiter(store, POLICY, embedded(0.25), prefix)
    const rule = 'is open in this process with policies that differ in more than numbers, and its counts are shared'
    const { code, message } = failureOf(() => {
      return fallbackLimiter(other, fixedWindow({ limit: 100, window: '1h' }), embedded(0.25), prefix)
    })
    expect([code, message]).toEqual(['INVALID_OPTION', `onStoreFailure: prefix ${JSON.stringify(prefix)} ${rule}`])
    // The failed attempt has left nothing open, and limiters without a share do not interfere.
    expect(await fallbackLimiter(store, POLICY, 'allow', prefix).take('a')).toMatchObject({ source: 'none' })
    // Other numbers, as when a module is loaded again.
    const reloaded = fallbackLimiter(other, gcra({ limit: 100, period: '1h', burst: 40 }), embedded(0.25), prefix)
    expect(await reloaded.take('b', 3)).toMatchObject({ capacity: 10, remaining: 7, source: 'fallback' })
    expect(await first.take('b')).toMatchObject({ capacity: 5, source: 'fallback' })
    await reloaded.close()
    await first.close()
    const second = fallbackLimiter(store, POLICY, embedded(0.5), prefix)
    expect(await second.take('a')).toMatchObject({ capacity: 10, remaining: 9, source: 'fallback' })
  })

  test('worker threads share it, too', async () => {
    const prefix = newPrefix()
    const limiter = fallbackLimiter(store, POLICY, embedded(0.25), prefix)
    await limiter.take('a')
    const workerData = { url: server.url, policy: POLICY, prefix, onStoreFailure: embedded(0.25) }
    const [sources] = await once(new Worker(join(__dirname, 'thread.mjs'), { workerData }), 'message')
    expect(sources).toMatchObject({ remaining: 2, source: 'fallback' })
    expect(await limiter.take('a')).toMatchObject({ remaining: 1 })
  })

  test('it cannot be opened by name', () => {
    for (const name of [`fallback: ${store.address}`, 'fallback:']) {
      expect(failureOf(() => new MemoryStore({ name })).code).toBe('INVALID_OPTION')
    }
  })
})

test.each([
  ['redis://localhost', 'localhost:6379//0'],
  ['redis://me:secret@LocalHost:6379/', 'localhost:6379//0'],
  ['redis://:secret@10.0.0.1:7000/3', '10.0.0.1:7000//3'],
  ['redis://[::1]', '::1:6379//0'],
  ['redis+unix:///run/redis.sock?db=2&pass=secret', '/run/redis.sock//2'],
])('the address of %s', (url, address) => {
  expect(addressOf(targetOf({ url }, 1, 1))).toBe(address)
})
