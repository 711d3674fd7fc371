/** Changes of a key during an outage, and their effect afterwards. */
import type { Applied } from '../../ts/api/decision.js'
import { fixedWindow, gcra, MemoryStore, RateLimiter, RedisStore, slidingLog } from '../../ts/index.js'
import { anything, rejectionOf } from '../failure.js'
import { PATIENT_MS, recovery } from '../redis/help.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { failing, fallbackLimiter, knownDown, newPrefix, waitUntilDown } from './help.js'

const POLICY = gcra({ limit: 100, period: '1h', burst: 20 })
/** A quarter of it: bursts of 5. */
const QUARTER = { embedded: { share: 0.25 } } as const

type PlainLimiter = RateLimiter<typeof POLICY>

/** Every change, by name. */
const CHANGES: Readonly<Record<string, (limiter: PlainLimiter, key: string) => Promise<Applied>>> = {
  block: (limiter, key) => limiter.block(key, '1h'),
  unblock: (limiter, key) => limiter.unblock(key),
  override: (limiter, key) => limiter.override(key, { burst: 40 }, { ttl: '1h' }),
  clearOverride: (limiter, key) => limiter.clearOverride(key),
  reset: (limiter, key) => limiter.reset(key),
}

/** The results of all changes, in order. */
async function applied(limiter: PlainLimiter, key = 'a'): Promise<Applied[]> {
  const results: Applied[] = []
  for (const change of Object.values(CHANGES)) {
    results.push(await change(limiter, key))
  }
  return results
}

const each = (what: Applied) => Object.values(CHANGES).map(() => what)

describe.each([failing(), knownDown()])('$name', (away) => {
  test.each(Object.entries(CHANGES))("%s: 'throw' rejects with the failure", async (_name, change) => {
    const limiter = fallbackLimiter(away.store(), POLICY, 'throw')
    expect((await rejectionOf(change(limiter, 'a'))).code).toMatch(/^STORE_/)
    expect((await rejectionOf(limiter.penalize('a'))).code).toMatch(/^STORE_/)
  })

  test.each(['allow', 'refuse'] as const)("'%s': nothing is changed, and nothing rejects", async (mode) => {
    const limiter = fallbackLimiter(away.store(), POLICY, mode)
    expect(await applied(limiter)).toEqual(each(false))
    expect(await limiter.penalize('a', 3)).toBe(0)
    expect(await limiter.take('a')).toMatchObject({ allowed: mode === 'allow', source: 'none' })
  })

  test('parts of a key that a call leaves out do not affect the others', async () => {
    const policies = {
      ip: gcra({ limit: 8, period: '1h', per: 'ip' }),
      all: gcra({ limit: 40, period: '1h', per: 'global' }),
    }
    for (const [mode, what] of [
      ['refuse', false],
      [QUARTER, 'fallback'],
    ] as const) {
      const limiter = fallbackLimiter(away.store(), policies, mode)
      expect(await limiter.block({ ip: 'a' }, '1h')).toBe(what)
      expect(await limiter.unblock({ global: true })).toBe(what)
      expect(await limiter.override({ ip: 'b' }, { ip: { limit: 16 } }, { ttl: '1h' })).toBe(what)
      expect(await limiter.reset({ ip: 'a', global: true })).toBe(what)
      expect(await limiter.block({ ip: 'a' }, '1h')).toBe(what)
      if (what === 'fallback') {
        expect((await limiter.take({ ip: 'a' })).status).toBe('blocked')
        expect((await limiter.take({ ip: 'b' })).policies).toMatchObject({ ip: { limit: 4 }, all: { limit: 10 } })
      }
    }
  })

  describe('an embedded share', () => {
    const open = () => fallbackLimiter(away.store(), POLICY, QUARTER)

    test('does every change', async () => {
      expect(await applied(open())).toEqual(each('fallback'))
    })

    test('refuses a blocked key until the block ends', async () => {
      const limiter = open()
      expect(await limiter.block('a', '1h')).toBe('fallback')
      expect(await limiter.take('a')).toMatchObject({ status: 'blocked', source: 'fallback' })
      expect((await limiter.take('b')).status).toBe('allowed')
      expect(await limiter.unblock('a')).toBe('fallback')
      expect((await limiter.take('a')).status).toBe('allowed')
      await limiter.block('a', '1h')
      expect(await limiter.reset('a')).toBe('fallback')
      expect(await limiter.take('a')).toMatchObject({ status: 'allowed', remaining: 4 })
    })

    test('applies its share to an override, too', async () => {
      const limiter = open()
      expect(await limiter.override('a', { burst: 40 }, { ttl: '1h' })).toBe('fallback')
      expect(await limiter.take('a')).toMatchObject({ capacity: 10, remaining: 9, source: 'fallback' })
      expect((await limiter.take('b')).capacity).toBe(5)
      expect(await limiter.clearOverride('a')).toBe('fallback')
      expect((await limiter.peek('a')).capacity).toBe(5)
      const several = fallbackLimiter(
        away.store(),
        { fast: POLICY, daily: fixedWindow({ limit: 80, window: '1d' }) },
        QUARTER,
      )
      expect(await several.override('a', { daily: { limit: 400 } }, { ttl: '1h' })).toBe('fallback')
      expect((await several.take('a')).policies).toMatchObject({ fast: { capacity: 5 }, daily: { limit: 100 } })
    })

    test('keeps an override unchanged if a share of its numbers would be zero', async () => {
      const limiter = open()
      expect(await limiter.override('a', { burst: 3 }, { ttl: '1h' })).toBe(false)
      expect((await limiter.take('a')).capacity).toBe(5)
    })

    test('charges penalized units', async () => {
      const limiter = open()
      expect(await limiter.penalize('a', 3)).toBe(3)
      expect(await limiter.penalize('a', 3)).toBe(2)
      expect(await limiter.take('a')).toMatchObject({ status: 'refused', source: 'fallback' })
    })
  })

  // As in docs/migrating.md.
  test.each([
    ['allow', false, 'allowed'],
    ['refuse', false, 'refused'],
    [QUARTER, 'fallback', 'blocked'],
  ] as const)('a client above the limit is blocked for a while: %j', async (mode, what, after) => {
    const limiter = fallbackLimiter(away.store(), slidingLog({ limit: 8, window: '1h' }), mode)
    const call = async (key: string) => {
      const decision = await limiter.take(key)
      if (decision.status === 'refused') return limiter.block(key, '5m')
      return decision.status
    }
    const answers = [await call('a'), await call('a'), await call('a')]
    expect(answers).toEqual(
      mode === 'allow'
        ? Array(3).fill('allowed')
        : mode === 'refuse'
          ? Array(3).fill(what)
          : ['allowed', 'allowed-last', what],
    )
    expect((await limiter.take('a')).status).toBe(after)
  })

  test.each(['allow', 'refuse', QUARTER] as const)("%j: a caller's mistake stays an error", async (mode) => {
    const limiter = fallbackLimiter(away.store(), POLICY, mode)
    for (const key of [42, '', 'x'.repeat(1_025)]) {
      for (const change of Object.values(CHANGES)) {
        expect((await rejectionOf(change(limiter, anything(key)))).code).toBe('INVALID_KEY')
      }
    }
    const ttl = { ttl: '1h' } as const
    const wrong = [
      [limiter.block('a', anything('soon')), 'INVALID_OPTION'],
      [limiter.reset('a', { tag: '' }), 'INVALID_OPTION'],
      [limiter.override('a', anything({ window: 1 }), ttl), 'INVALID_OPTION'],
      [limiter.override('a', { limit: 0 }, ttl), 'INVALID_POLICY'],
      // Mistakes that only the engine detects.
      [limiter.override('a', { burst: 2 ** 53 - 1, period: '300d', limit: 1 }, ttl), 'INVALID_POLICY'],
    ] as const
    for (const [call, code] of wrong) {
      expect((await rejectionOf(call)).code).toBe(code)
    }
    await limiter.close()
    for (const change of Object.values(CHANGES)) {
      expect((await rejectionOf(change(limiter, 'a'))).code).toBe('CLOSED')
    }
  })
})

describe('a flood of keys', () => {
  const away = knownDown()

  // promise: changes-need-space
  test('a full share makes no more changes that need room, and rejects none', async () => {
    const limiter = fallbackLimiter(away.store(), fixedWindow({ limit: 40, window: '1h' }), QUARTER)
    for (let keys = 0; keys < 1_100_000; keys += 50_000) {
      await limiter.takeMany(Array.from({ length: 50_000 }, (_, key) => `flood-${keys + key}`))
    }
    const full = await Promise.all(Array.from({ length: 20 }, (_, key) => limiter.block(`late-${key}`, '1h')))
    expect(full).toContain(false)
    expect(await limiter.penalize('late-0', 2)).toBeGreaterThanOrEqual(0)
  })
})

test('a working store does every change, and so does the embedded one', async () => {
  await using server = await RedisServer.start()
  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  for (const mode of ['throw', 'allow', 'refuse', QUARTER] as const) {
    expect(await applied(fallbackLimiter(store, POLICY, mode))).toEqual(each('store'))
  }
  expect(await applied(new RateLimiter(POLICY))).toEqual(each('store'))
  expect(await applied(new RateLimiter(POLICY, { store: new MemoryStore(), onStoreFailure: 'allow' }))).toEqual(
    each('store'),
  )
})

// promise: changes-end-with-outage
test('a server that is killed and comes back: the change ends with the outage', async () => {
  await using server = await RedisServer.start()
  await using patient = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  // For the outage. Limiters of one prefix have one share.
  await using impatient = new RedisStore({ url: server.url, commandTimeout: 300 })
  const prefix = newPrefix()
  const limiter = fallbackLimiter(patient, POLICY, QUARTER, prefix)
  const during = fallbackLimiter(impatient, POLICY, QUARTER, prefix)
  expect(await limiter.block('before', '1h')).toBe('store')
  await server.kill()
  // The share does not know the changes in the store.
  expect(await during.take('before')).toMatchObject({ status: 'allowed', source: 'fallback' })
  for (const key of ['unblocked', 'stays', 'reset']) {
    expect(await during.block(key, '1h')).toBe('fallback')
  }
  expect(await during.override('own', { burst: 40 }, { ttl: '1h' })).toBe('fallback')
  await server.begin()
  await recovery(fallbackLimiter(patient, POLICY, 'throw', prefix), 'other')
  for (const key of ['unblocked', 'stays', 'reset', 'own']) {
    expect(await limiter.take(key)).toMatchObject({ status: 'allowed', capacity: 20, source: 'store' })
  }
  expect(await limiter.unblock('unblocked')).toBe('store')
  expect(await limiter.reset('reset')).toBe('store')
  expect(await limiter.clearOverride('own')).toBe('store')
  await server.kill()
  await waitUntilDown(impatient)
  // A change that still lasts applies again in the next outage, unless it was undone in between.
  const statuses = ['unblocked', 'stays', 'reset'].map(async (key) => (await during.take(key)).status)
  expect(await Promise.all(statuses)).toEqual(['allowed', 'blocked', 'allowed'])
  expect((await during.take('own')).capacity).toBe(5)
})

// promise: charged-in-share-too
test('a server that is frozen: the fallback makes the change at the deadline, and the store may receive it, too', async () => {
  await using server = await RedisServer.start()
  await using store = new RedisStore({ url: server.url, commandTimeout: 300 })
  const prefix = newPrefix()
  const limiter = fallbackLimiter(store, POLICY, QUARTER, prefix)
  const refusing = fallbackLimiter(store, POLICY, 'refuse')
  await until('both are ready', () => Promise.all([limiter.ready(), refusing.ready()]))
  server.freeze()
  expect(await Promise.all([limiter.block('a', '1h'), refusing.block('a', '1h')])).toEqual(['fallback', false])
  expect(await limiter.take('a')).toMatchObject({ status: 'blocked', source: 'fallback' })
  server.thaw()
  await using patient = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const throwing = fallbackLimiter(patient, POLICY, 'throw', prefix)
  await recovery(throwing, 'other')
  expect(await throwing.take('a')).toMatchObject({ status: 'blocked', source: 'store' })
})

test('calls that fail together resolve in call order', async () => {
  await using server = await RedisServer.start()
  await server.kill()
  await using store = new RedisStore({ url: server.url, commandTimeout: 300 })
  const limiter = fallbackLimiter(store, POLICY, QUARTER)
  const [first, , second, , third, , fourth, , fifth] = await Promise.all([
    limiter.take('a', 5),
    limiter.reset('a'),
    limiter.take('a', 5),
    limiter.block('a', '1h'),
    limiter.take('a'),
    limiter.unblock('a'),
    limiter.take('a'),
    limiter.override('a', { burst: 40 }, { ttl: '1h' }),
    limiter.take('a'),
  ])
  const statuses = [first, second, third, fourth, fifth].map(({ status }) => status)
  expect(statuses).toEqual(['allowed-last', 'allowed-last', 'blocked', 'refused', 'allowed'])
})

test('the type names the changes that were made', () => {
  const never = async (limiter: RateLimiter) => {
    const done: 'store' | 'fallback' | false = await limiter.block('a', '1h')
    const applied: Applied = done
    return applied
  }
  expect(never).toBeInstanceOf(Function)
})
