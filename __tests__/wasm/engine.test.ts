/**
 * The parts that are specific to WebAssembly: keys by the encoder, stores by instance, zones and a
 * clock by the platform.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import * as native from '../../ts/index.js'
import * as wasm from '../../ts/wasm/index.js'
import { FakeClock } from '../clock.js'
import { anything, failureOf } from '../failure.js'
import { DIFFERENCES } from '../policies/differences.js'

const { fixedWindow, gcra, MemoryStore, RateLimiter, TollgateError } = wasm

const perHour = (limit: number) => fixedWindow({ limit, window: '1h' })

test('the module is smaller than 68 kB, compressed', () => {
  const module = readFileSync(join(__dirname, '..', '..', 'generated', 'wasm', 'tollgate.wasm'))
  // Without the sources of the standard library it is larger: `rustup component add rust-src`.
  expect(gzipSync(module, { level: 9 }).length).toBeLessThan(68_000)
})

describe('keys', () => {
  /** Short and long keys, with one to four bytes a character, and invalid ones. */
  const KEYS = [
    '',
    'a',
    '\0',
    '\0\0',
    'a\0',
    'ä',
    'ключ',
    '🔑',
    '\ufffd',
    '\ud800',
    '\udc00a',
    'a\ud83d',
    '\ud83d\udd11\ud83d',
    ...[47, 48, 49, 1_023, 1_024, 1_025, 100_000].flatMap((length) => [
      'x'.repeat(length),
      `${'x'.repeat(length - 1)}ä`,
    ]),
    'ä'.repeat(512),
    'ä'.repeat(513),
    '€'.repeat(341),
    '€'.repeat(342),
    '🔑'.repeat(256),
    `${'🔑'.repeat(256)}x`,
    `${'x'.repeat(1_022)}\ud800`,
    `${'x'.repeat(1_021)}\ud800`,
    undefined,
    null,
    42,
    {},
  ]

  test('are distinct, and refused, exactly as by the addon', () => {
    const policy = perHour(1)
    const limiters = [new native.RateLimiter(policy), new RateLimiter(policy)] as const
    for (const key of [...KEYS, ...KEYS]) {
      const [one, other] = limiters.map((limiter) => {
        try {
          return limiter.takeSync(anything(key)).status
        } catch (error) {
          const { code, message } = error as wasm.TollgateError
          return { code, message }
        }
      })
      expect(other).toEqual(one)
    }
  })

  test('with several parts are handled as by the addon', async () => {
    const policies = { a: gcra({ limit: 9, period: '1h', per: 'a' }), b: gcra({ limit: 9, period: '1h', per: 'b' }) }
    const [one, other] = [new native.RateLimiter(policies), new RateLimiter(policies)].map(async (limiter) => {
      const calls = KEYS.map((key) => limiter.take({ a: anything(key), b: 'b' }))
      const statuses = (await Promise.allSettled(calls)).map(({ status }) => status)
      const blocked = limiter.block({ b: 'b' }, '1m').then(() => limiter.peek({ a: 'new', b: 'b' }))
      return [...statuses, (await blocked).status]
    })
    expect(await other).toEqual(await one)
  })

  test('of a failing call do not affect the next call', async () => {
    const policies = { a: gcra({ limit: 1, period: '1h', per: 'a' }), b: gcra({ limit: 1, period: '1h', per: 'b' }) }
    const limiter = new RateLimiter(policies)
    await expect(limiter.override({ a: '' }, { a: { limit: 5 } }, { ttl: '1d' })).rejects.toThrow(TollgateError)
    const other = new RateLimiter({ c: perHour(3), d: perHour(2) })
    expect(other.takeSync('x').policies).toMatchObject({ c: { remaining: 2 }, d: { remaining: 1 } })
    expect((await limiter.take({ a: 'x', b: 'y' })).policies).toMatchObject({ a: { limit: 1 }, b: { limit: 1 } })
  })
})

describe('stores', () => {
  test('grow with their keys, while callers keep references to the memory', () => {
    const store = new MemoryStore()
    const limiter = new RateLimiter(perHour(2), { store })
    const several = new RateLimiter({ a: perHour(2), b: perHour(3) }, { store, prefix: 'several' })
    for (let number = 0; number < 50_000; number++) {
      expect(limiter.takeSync(`user:${number}`).remaining).toBe(1)
      if (number % 100 === 0) {
        expect(several.takeSync(`user:${number}`).policies).toMatchObject({ a: { remaining: 1 }, b: { remaining: 2 } })
      }
    }
    expect(store.size).toBe(51_000)
    expect(limiter.takeSync('user:0').status).toBe('allowed-last')
  })

  test('that are full refuse new keys, and forget no old ones', async () => {
    const store = new MemoryStore({ maxKeys: 2_000 })
    const limiter = new RateLimiter(perHour(1), { store })
    expect(limiter.takeSync('spent').status).toBe('allowed-last')
    for (let number = 0; number < 20_000; number++) {
      limiter.takeSync(`flood:${number}`)
    }
    expect(store.size).toBe(2_000)
    expect(limiter.takeSync('spent').status).toBe('refused')
    const newcomer = await limiter.reset('newcomer').catch((error) => error.code)
    expect(newcomer).toBe('STORE_FULL')
    await expect(limiter.block('newcomer', '1m')).rejects.toMatchObject({ code: 'STORE_FULL' })
  })

  test('have private hash seeds: two full stores share counts between different keys', () => {
    const sharing = () => {
      const limiter = new RateLimiter(perHour(1), { store: new MemoryStore({ maxKeys: 1 }) })
      limiter.takeSync('resident')
      // The first key of each of the 1,024 overflow buckets takes it.
      return Array.from({ length: 1_000 }, (_, number) => limiter.takeSync(`user:${number}`).allowed)
    }
    expect(sharing()).not.toEqual(sharing())
  })

  test('with one name are the same store', () => {
    const options = { name: 'shared', maxKeys: 10 }
    const [one, other] = [new MemoryStore(options), new MemoryStore(options)]
    new RateLimiter(perHour(1), { store: one }).takeSync('a')
    expect(new RateLimiter(perHour(1), { store: other }).takeSync('a').status).toBe('refused')
    const taken = { code: 'INVALID_OPTION', message: 'name "shared" is in use with maxKeys: 10' }
    expect(failureOf(() => new MemoryStore({ ...options, maxKeys: 11 }))).toMatchObject(taken)
    const clock = { code: 'INVALID_OPTION', message: 'name "shared" is in use with another clock' }
    expect(failureOf(() => new MemoryStore({ ...options, clock: Date.now }))).toMatchObject(clock)
  })

  test('refuse a prefix that is open with another policy, until that limiter is closed', async () => {
    const store = new MemoryStore()
    const old = new RateLimiter(perHour(1), { store, prefix: 'api' })
    old.takeSync('a')
    expect(failureOf(() => new RateLimiter(gcra({ limit: 5, period: '1h' }), { store, prefix: 'api' }))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('differ in more than numbers'),
    })
    await old.close()
    expect(new RateLimiter(perHour(5), { store, prefix: 'api' }).takeSync('a')).toMatchObject({ remaining: 3 })
    expect(failureOf(() => old.takeSync('a'))).toMatchObject({ code: 'CLOSED' })
  })

  test('cannot be Redis URLs', () => {
    const options = { store: anything('redis://localhost'), prefix: 'api' }
    expect(failureOf(() => new RateLimiter(perHour(1), options))).toMatchObject({ code: 'INVALID_OPTION' })
  })
})

// promise: wasm-same-decisions
test('the default clock is that of the platform', () => {
  const before = Date.now()
  const { at } = new RateLimiter(perHour(1)).takeSync('a')
  expect(at).toBeGreaterThanOrEqual(before)
  expect(at).toBeLessThanOrEqual(Date.now())
  const clock = new FakeClock()
  const limiter = new RateLimiter(perHour(1), { store: new MemoryStore({ clock: clock.read }) })
  expect(limiter.takeSync('a').at).toBe(clock.read())
})

test('errors for numbers too large for exact counting have the same words', () => {
  const policies: readonly wasm.Policy[] = [
    gcra({ limit: 2 ** 53 - 1, period: '7d' }),
    wasm.slidingCounter({ limit: 2 ** 53 - 1, window: '7d' }),
    wasm.tokenBucket({ capacity: 2 ** 53 - 1, refill: { tokens: 1, every: '1d' }, refillMode: 'interval' }),
    wasm.leakyBucket({ capacity: 2 ** 53 - 1, leak: { units: 7, every: 1 } }),
  ]
  for (const policy of policies) {
    const refused = failureOf(() => new native.RateLimiter(policy))
    const { code, message } = failureOf(() => new RateLimiter(policy))
    expect({ code, message }).toEqual({ code: refused.code, message: refused.message })
  }
})

test.each(DIFFERENCES)('an open prefix has one set of policies, except their numbers: %s', (difference, one, other) => {
  const store = new MemoryStore()
  const limiter = new RateLimiter(one, { store })
  expect(failureOf(() => new RateLimiter(other, { store }))).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringContaining(difference),
  })
  expect(failureOf(() => limiter.update(other as never)).message).toContain(difference)
})

test('a cost by meter that is no plain object is refused', () => {
  const limiter = new RateLimiter(gcra({ limit: 9, period: '1h', meter: 'tokens', defaultCost: 1 }))
  const cost = anything(new Map([['tokens', 5]]))
  expect(failureOf(() => limiter.takeSync('a', { cost })).code).toBe('INVALID_COST')
  expect(limiter.takeSync('a')).toMatchObject({ remaining: 8 })
})
