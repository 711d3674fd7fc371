/** The clauses of express-rate-limit's documented `Store`, each on the store itself, and on every place. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Options, rateLimit, type Store, MemoryStore as TheirStore } from 'express-rate-limit'
import { fixedWindow, MemoryStore, RateLimiter } from '../../ts/index.js'
import { type ClientHits, TollgateStore } from '../../ts/middleware/express-rate-limit.js'
import { FakeClock } from '../clock.js'
import { warningsOf } from '../middleware/warnings.js'
import { until } from '../servers/until.js'
import { describeEach } from './stores.js'

const WINDOW_MS = 60_000
const OPTIONS = { windowMs: WINDOW_MS } as Options

/** What is said of the end of a window of this length that has just opened, by a clock that is read late. */
function expectEnd({ resetTime }: ClientHits, windowMs: number, openedAt: number): void {
  const ends = resetTime.getTime() - openedAt
  expect(ends).toBeGreaterThanOrEqual(windowMs)
  expect(ends).toBeLessThan(windowMs + 5_000)
}

describeEach((place) => {
  let store: TollgateStore
  beforeEach(() => {
    store = place.store()
  })
  afterEach(() => store.shutdown())

  test('it is a Store, by type and by what rateLimit() asks for', () => {
    const typed: Store = store
    expect(() => rateLimit({ store: typed })).not.toThrow()
  })

  test('init: other methods may be called at once after it, and nothing of it is awaited', async () => {
    expect(store.init(OPTIONS)).toBeUndefined()
    expect((await store.increment('ann')).totalHits).toBe(1)
  })

  test('increment: one more hit each time, exactly, far beyond any limit, and each key by itself', async () => {
    store.init(OPTIONS)
    for (let hit = 1; hit <= 5; hit++) {
      expect((await store.increment('ann')).totalHits).toBe(hit)
    }
    expect((await store.increment('bob')).totalHits).toBe(1)
    // Past where Redis changes how it keeps a count.
    const hits = await Promise.all(Array.from({ length: 9_000 }, () => store.increment('many')))
    expect(hits.map(({ totalHits }) => totalHits)).toEqual(Array.from(hits, (_, index) => index + 1))
  })

  test('increment: the reset time is when the window of the first hit ends, and later hits do not move it', async () => {
    store.init(OPTIONS)
    const openedAt = Date.now()
    const first = await store.increment('ann')
    expectEnd(first, WINDOW_MS, openedAt)
    await sleep(1_500)
    const second = await store.increment('ann')
    // Over Redis it is by this process's clock, late by as long as the answer took.
    expect(second.resetTime.getTime() - first.resetTime.getTime()).toBeLessThan(1_000)
  })

  test('increment: after the reset time the count begins again', async () => {
    store.init({ ...OPTIONS, windowMs: 300 })
    const openedAt = Date.now()
    await store.increment('ann')
    const { resetTime, totalHits } = await store.increment('ann')
    expect([1, 2]).toContain(totalHits)
    await sleep(Math.max(0, resetTime.getTime() - Date.now()) + 5)
    const again = await store.increment('ann')
    expect(again.totalHits).toBe(1)
    expectEnd(again, 300, openedAt + 300)
  })

  test('get: the hits and the reset time of a key, undefined for one that has none, and it counts nothing', async () => {
    store.init(OPTIONS)
    expect(await store.get('ann')).toBeUndefined()
    const { resetTime } = await store.increment('ann')
    await store.increment('ann')
    for (let time = 0; time < 2; time++) {
      const hits = (await store.get('ann')) as ClientHits
      expect(hits.totalHits).toBe(2)
      expect(Math.abs(hits.resetTime.getTime() - resetTime.getTime())).toBeLessThan(5_000)
    }
  })

  test('get: nothing of a window that is over', async () => {
    store.init({ ...OPTIONS, windowMs: 50 })
    await store.increment('ann')
    await sleep(60)
    expect(await store.get('ann')).toBeUndefined()
  })

  test('decrement: takes one hit back, of this key alone, and the window stays', async () => {
    store.init(OPTIONS)
    const { resetTime } = await store.increment('ann')
    await store.increment('ann')
    await store.increment('bob')
    await store.decrement('ann')
    const left = (await store.get('ann')) as ClientHits
    expect(left.totalHits).toBe(1)
    expect(Math.abs(left.resetTime.getTime() - resetTime.getTime())).toBeLessThan(5_000)
    expect((await store.get('bob'))?.totalHits).toBe(1)
    expect((await store.increment('ann')).totalHits).toBe(2)
  })

  test('decrement: never below none, nor for a key that nobody knows', async () => {
    store.init(OPTIONS)
    await store.decrement('ann')
    await store.increment('ann')
    await store.decrement('ann')
    await store.decrement('ann')
    expect(await store.get('ann')).toBeUndefined()
    expect((await store.increment('ann')).totalHits).toBe(1)
  })

  test('decrement: many at once take back as many', async () => {
    store.init(OPTIONS)
    await Promise.all(Array.from({ length: 50 }, () => store.increment('ann')))
    await Promise.all(Array.from({ length: 30 }, () => store.decrement('ann')))
    expect((await store.get('ann'))?.totalHits).toBe(20)
  })

  test('resetKey: forgets one key, and knows no harm in one that nobody knows', async () => {
    store.init(OPTIONS)
    await store.increment('ann')
    await store.increment('bob')
    await store.resetKey('ann')
    await store.resetKey('nobody')
    expect(await store.get('ann')).toBeUndefined()
    expect((await store.increment('ann')).totalHits).toBe(1)
    expect((await store.increment('bob')).totalHits).toBe(2)
  })

  test('shutdown: refuses what comes later, and may be called again', async () => {
    store.init(OPTIONS)
    await store.increment('ann')
    await store.shutdown()
    await store.shutdown()
    for (const call of [store.increment('ann'), store.get('ann'), store.resetKey('ann')]) {
      await expect(call).rejects.toMatchObject({ code: 'CLOSED' })
    }
  })

  test('before init every call fails, and says why', async () => {
    await expect(store.increment('ann')).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: 'TollgateStore must be passed to rateLimit()',
    })
  })

  test('init: again with the same length changes nothing; with another all calls fail, as one would be misled', async () => {
    store.init(OPTIONS)
    await store.increment('ann')
    store.init(OPTIONS)
    expect((await store.increment('ann')).totalHits).toBe(2)
    const message = 'windowMs must be 60000, as in the first call, got 1000'
    expect(() => store.init({ ...OPTIONS, windowMs: 1_000 })).toThrow(message)
    await expect(store.increment('ann')).rejects.toThrow(message)
  })

  test('init: a length that cannot be is an error, then and later', async () => {
    expect(() => store.init({ ...OPTIONS, windowMs: 0 })).toThrow('fixedWindow: window')
    await expect(store.increment('ann')).rejects.toMatchObject({ code: 'INVALID_POLICY' })
  })

  test('keys: any text, as long as it is; long ones are not mixed up with each other or with their digests', async () => {
    store.init(OPTIONS)
    const long = 'ü'.repeat(2_000)
    const digest = `sha256:${'0'.repeat(64)}`
    const keys = ['a:b{c}%', '\0', '漢', long, `${long}!`, `${long}\ud800`, `${long}\ud801`, digest, '2001:db8::/56']
    for (const key of keys) await store.increment(key)
    for (const key of keys) expect((await store.increment(key)).totalHits).toBe(2)
    await store.decrement(long)
    expect((await store.get(long))?.totalHits).toBe(1)
    await store.resetKey(long)
    expect(await store.get(long)).toBeUndefined()
  })

  test('keys: what is no text is counted by its text, and the first of them is warned of', async () => {
    store.init(OPTIONS)
    const long = [['x'.repeat(2_000)]]
    const keys = [
      undefined,
      null,
      '',
      42,
      true,
      { a: 1 },
      Object.create(null),
      Symbol('a'),
      long,
    ] as unknown as string[]
    const warnings = await warningsOf(async () => {
      for (const key of keys) await store.increment(key)
      for (const key of keys) expect((await store.increment(key)).totalHits).toBeGreaterThanOrEqual(2)
    })
    expect(warnings).toEqual([
      { code: 'TOLLGATE_INVALID_INPUT', message: expect.stringMatching(/keyGenerator .* undefined/) },
    ])
    expect((await store.increment('undefined')).totalHits).toBe(3)
    await store.decrement(undefined as unknown as string)
    expect((await store.get(undefined as unknown as string))?.totalHits).toBe(2)
    await store.resetKey(null as unknown as string)
    expect(await store.get(null as unknown as string)).toBeUndefined()
    expect((await store.get(''))?.totalHits).toBe(2)
  })
})

test('the default store of express-rate-limit counts the same', async () => {
  const ours = new TollgateStore()
  const theirs = new TheirStore()
  ours.init(OPTIONS)
  theirs.init(OPTIONS)
  try {
    const steps = ['increment', 'increment', 'decrement', 'increment', 'increment', 'resetKey', 'increment'] as const
    for (const step of [...steps, ...steps]) {
      await ours[step]('ann')
      await theirs[step]('ann')
      const [own, other] = [await ours.get('ann'), await theirs.get('ann')]
      expect(own?.totalHits).toBe(other?.totalHits)
      const apart = Number(own?.resetTime ?? 0) - Number(other?.resetTime ?? 0)
      expect(Math.abs(apart)).toBeLessThan(1_000)
    }
  } finally {
    theirs.shutdown()
  }
})

test('resetAll: forgets all keys, where the store is its own; others have none', async () => {
  const own = new TollgateStore()
  own.init(OPTIONS)
  await own.increment('ann')
  await own.increment('bob')
  await own.resetAll?.()
  expect(await own.get('ann')).toBeUndefined()
  expect((await own.increment('bob')).totalHits).toBe(1)
  expect(new TollgateStore({ store: new MemoryStore() }).resetAll).toBeUndefined()
})

test('localKeys and prefix: who else can count the same keys', () => {
  const store = new MemoryStore()
  expect(new TollgateStore()).toMatchObject({ localKeys: true })
  expect(new TollgateStore().prefix).toBeUndefined()
  expect(new TollgateStore({ store, prefix: 'api' })).toMatchObject({ localKeys: false, prefix: 'api' })
})

test('instances of one store and prefix share their counts, of other prefixes not, and lengths must agree', async () => {
  const store = new MemoryStore()
  const [one, two, other, longer] = ['api', 'api', 'web', 'api'].map((prefix) => new TollgateStore({ store, prefix }))
  for (const each of [one, two, other]) each?.init(OPTIONS)
  await one?.increment('ann')
  expect((await two?.increment('ann'))?.totalHits).toBe(2)
  expect((await other?.increment('ann'))?.totalHits).toBe(1)
  expect(() => longer?.init({ ...OPTIONS, windowMs: 1 })).toThrow('prefix "api"')
  // Once the others are gone, it may.
  await one?.shutdown()
  await two?.shutdown()
  const later = new TollgateStore({ store, prefix: 'api' })
  later.init({ ...OPTIONS, windowMs: 1 })
  await later.increment('ann')
})

test('the reset time is exact by the clock that decides', async () => {
  const clock = new FakeClock()
  const store = new TollgateStore({ store: new MemoryStore({ clock: clock.read }) })
  store.init(OPTIONS)
  const opened = clock.read()
  for (const pass of [0, 1, 58_998, 1_000]) {
    clock.advance(pass)
    expect((await store.increment('ann')).resetTime.getTime()).toBe(Math.ceil(opened + WINDOW_MS))
  }
  clock.advance(1)
  const { totalHits, resetTime } = await store.increment('ann')
  expect(totalHits).toBe(1)
  expect(resetTime.getTime()).toBe(Math.ceil(opened + 2 * WINDOW_MS))
})

test('decrement: takes nothing from a window that opens while it is asked', async () => {
  const clock = new FakeClock()
  const store = new TollgateStore({ store: new MemoryStore({ clock: clock.read }) })
  store.init(OPTIONS)
  await store.increment('ann')
  const decremented = store.decrement('ann')
  clock.advance(WINDOW_MS + 1)
  const [{ totalHits }] = await Promise.all([store.increment('ann'), decremented])
  expect(totalHits).toBe(1)
  expect((await store.increment('ann')).totalHits).toBe(2)
})

test('it is what a limiter of the same policy counts, so that a block of a key refuses it', async () => {
  const store = new MemoryStore()
  const hits = new TollgateStore({ store, prefix: 'api' })
  hits.init(OPTIONS)
  const limiter = new RateLimiter(fixedWindow({ limit: Number.MAX_SAFE_INTEGER, window: WINDOW_MS }), {
    store,
    prefix: 'api',
  })
  await limiter.take('ann', 3)
  expect((await hits.increment('ann')).totalHits).toBe(4)
  await limiter.block('ann', '1m')
  const { totalHits, resetTime } = await hits.increment('ann')
  expect(totalHits).toBe(Number.MAX_SAFE_INTEGER)
  expect(resetTime.getTime()).toBeGreaterThan(Date.now() + WINDOW_MS / 2)
  await limiter.unblock('ann')
  expect((await hits.increment('ann')).totalHits).toBe(5)
})

test('options are checked at once', async () => {
  const make = (options: unknown) => () => new TollgateStore(options as { prefix: string })
  expect(make({ windowMs: 1_000 })).toThrow('TollgateStore has no option "windowMs"')
  expect(make({ prefix: 'rl:' })).toThrow('prefix must match')
  expect(make({ store: new TheirStore() })).toThrow('store must be a MemoryStore, a RedisStore or a Redis URL')
  expect(make({ store: 'redis://127.0.0.1:9' })).toThrow('prefix is required with Redis')
  const store = new TollgateStore({ store: 'redis://127.0.0.1:9', prefix: 'api' })
  store.init(OPTIONS)
  await until('it is known to be away', async () => {
    return store.increment('ann').then(
      () => false,
      ({ code }) => code === 'STORE_UNAVAILABLE',
    )
  })
  await store.shutdown()
})
