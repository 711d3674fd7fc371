import { fixedWindow, gcra, MemoryStore, RateLimiter, tiers } from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { failureOf } from '../failure.js'
import { warningsOf } from '../middleware/warnings.js'
import { DIFFERENCES } from '../policies/differences.js'

const perHour = (limit: number) => fixedWindow({ limit, window: '1h' })

let names = 0

/** A name that no other test uses. */
const newName = () => {
  names++
  return `differences-${names}`
}

/** Two objects of one store. */
const STORES = {
  'one store': () => {
    const store = new MemoryStore()
    return [store, store] as const
  },
  'two stores of one name': () => {
    const name = newName()
    return [new MemoryStore({ name }), new MemoryStore({ name })] as const
  },
}

describe('several limiters on one store', () => {
  test('prefixes keep their keys apart', () => {
    const store = new MemoryStore()
    const reads = new RateLimiter(perHour(1), { store, prefix: 'reads' })
    const writes = new RateLimiter(perHour(1), { store, prefix: 'writes' })
    expect(reads.takeSync('a').allowed).toBe(true)
    expect(writes.takeSync('a').allowed).toBe(true)
    expect(store.size).toBe(2)
  })

  test('equal prefixes with equal policies share their counts', () => {
    const store = new MemoryStore()
    const one = new RateLimiter(perHour(1), { store })
    const other = new RateLimiter(perHour(1), { store })
    expect(one.takeSync('a').allowed).toBe(true)
    expect(other.takeSync('a').allowed).toBe(false)
  })

  test('an equal prefix with another algorithm is refused until the first limiter is closed', async () => {
    const store = new MemoryStore()
    const old = new RateLimiter(perHour(1), { store, prefix: 'api' })
    old.takeSync('a')
    const again = () => new RateLimiter(gcra({ limit: 5, period: '1h' }), { store, prefix: 'api' })
    const rule = 'is in use on this store by a limiter whose policies differ in more than numbers'
    expect(failureOf(again)).toMatchObject({
      code: 'INVALID_OPTION',
      message: `prefix "api" ${rule}: algorithm was "fixedWindow" and is now "gcra"; close it, or use another prefix`,
    })
    await old.close()
    expect(again().takeSync('a')).toMatchObject({ limit: 5, remaining: 4 })
  })

  test('other numbers take over with a warning, as when a module is loaded again', async () => {
    const store = new MemoryStore()
    const load = (limit: number) => new RateLimiter(perHour(limit), { store, prefix: 'reloaded' })
    const warnings = await warningsOf(async () => {
      const old = load(1)
      old.takeSync('a')
      expect(old.takeSync('a').allowed).toBe(false)
      const next = load(3)
      expect(next.takeSync('a')).toMatchObject({ allowed: true, limit: 3, remaining: 1 })
      expect(old.takeSync('a')).toMatchObject({ allowed: false, limit: 1 })
      expect(load(3).takeSync('a')).toMatchObject({ limit: 3, remaining: 0 })
      expect(load(4).takeSync('a')).toMatchObject({ limit: 4, remaining: 0 })
    })
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_OTHER_NUMBERS'])
    expect(warnings[0]?.message).toMatch(/^prefix "reloaded" is open on this store with other numbers: each/)
  })

  test('so do the numbers of a tier', async () => {
    const store = new MemoryStore()
    const load = (pro: number) =>
      new RateLimiter(tiers({ free: perHour(1), pro: perHour(pro) }), { store, prefix: 'tiers' })
    const warnings = await warningsOf(async () => {
      load(2)
      expect(load(5).takeSync('a', { tier: 'pro' })).toMatchObject({ limit: 5 })
    })
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_OTHER_NUMBERS'])
  })

  describe.each(Object.entries(STORES))('%s: an equal prefix', (_, pair) => {
    test.each(DIFFERENCES)('is refused as by update, and counts nothing: %s', async (difference, earlier, later) => {
      const [store, other] = pair()
      const old = new RateLimiter(earlier, { store, prefix: 'api' })
      const warnings = await warningsOf(async () => {
        expect(failureOf(() => new RateLimiter(later, { store: other, prefix: 'api' }))).toMatchObject({
          code: 'INVALID_OPTION',
          message: `prefix "api" is in use on this store by a limiter whose policies differ in more than numbers: ${difference}; close it, or use another prefix`,
        })
      })
      expect(warnings).toEqual([])
      expect(failureOf(() => old.update(later as never))).toMatchObject({
        code: 'INVALID_OPTION',
        message: `update: policies must differ in numbers only: ${difference}; make a new limiter`,
      })
      // The refused limiter has not opened the prefix.
      await old.close()
      const next = new RateLimiter(later, { store: other, prefix: 'api' })
      expect(failureOf(() => new RateLimiter(earlier, { store, prefix: 'api' })).code).toBe('INVALID_OPTION')
      await next.close()
    })

    test('is as before after a reload and after updates, until the last limiter is closed', async () => {
      const [store, other] = pair()
      const plans = (limit: number) => ({
        plan: tiers({
          free: fixedWindow({ limit, window: '1h', per: 'ip' }),
          pro: fixedWindow({ limit: 2 * limit, window: '1h', per: 'ip' }),
        }),
      })
      const load = (limit: number) => new RateLimiter(plans(limit), { store: other, prefix: 'api' })
      const fails = () =>
        failureOf(() => new RateLimiter(fixedWindow({ limit: 5, window: '1h', per: 'ip' }), { store, prefix: 'api' }))
          .code
      const old = new RateLimiter(plans(5), { store, prefix: 'api' })
      const next = load(5)
      next.update(plans(6))
      old.update(plans(6))
      await old.close()
      await old.close()
      expect(fails()).toBe('INVALID_OPTION')
      await load(6).close()
      expect(fails()).toBe('INVALID_OPTION')
      await next.close()
      new RateLimiter(fixedWindow({ limit: 5, window: '1h', per: 'ip' }), { store, prefix: 'api' })
    })
  })

  // promise: used-units-stay-charged
  test('a policy that changes its algorithm never meets the old states', async () => {
    const store = new MemoryStore()
    const old = new RateLimiter(perHour(1), { store })
    old.takeSync('a')
    await old.close()
    const limiter = new RateLimiter(gcra({ limit: 1, period: '1h' }), { store })
    expect(limiter.takeSync('a').allowed).toBe(true)
  })

  test('closing a limiter does not close a shared store', async () => {
    const store = new MemoryStore()
    const one = new RateLimiter(perHour(2), { store })
    const other = new RateLimiter(perHour(2), { store })
    one.takeSync('a')
    await one.close()
    expect(other.takeSync('a').remaining).toBe(0)
  })
})

describe('names', () => {
  test('stores with one name are the same store', () => {
    const [one, other] = [new MemoryStore({ name: 'shared' }), new MemoryStore({ name: 'shared' })]
    new RateLimiter(perHour(1), { store: one }).takeSync('a')
    expect(new RateLimiter(perHour(1), { store: other }).takeSync('a').allowed).toBe(false)
    expect(other.size).toBe(1)
  })

  test('a name with other options is refused', () => {
    new MemoryStore({ name: 'sized', maxKeys: 10 })
    expect(failureOf(() => new MemoryStore({ name: 'sized', maxKeys: 20 }))).toMatchObject({
      code: 'INVALID_OPTION',
      message: 'name "sized" is in use with maxKeys: 10',
    })
    expect(failureOf(() => new MemoryStore({ name: 'sized', maxKeys: 10, clock: Date.now }))).toMatchObject({
      message: 'name "sized" is in use with another clock',
    })
  })
})

describe('maxKeys', () => {
  test('bounds the number of keys, and fresh keys make room', () => {
    const clock = new FakeClock()
    const store = new MemoryStore({ maxKeys: 10, clock: clock.read })
    const limiter = new RateLimiter(perHour(1), { store })
    for (let key = 0; key < 100; key++) {
      limiter.takeSync(`first ${key}`)
    }
    expect(store.size).toBe(10)
    clock.advance(3_600_000)
    for (let key = 0; key < 10; key++) {
      expect(limiter.takeSync(`second ${key}`).allowed).toBe(true)
    }
    expect(store.size).toBe(10)
  })

  test('a key without room shares a count, which cannot be reset for it alone', async () => {
    const store = new MemoryStore({ maxKeys: 1 })
    const limiter = new RateLimiter(perHour(1), { store })
    limiter.takeSync('resident')
    expect(limiter.takeSync('newcomer').allowed).toBe(true)
    expect(limiter.takeSync('newcomer').allowed).toBe(false)
    await expect(limiter.reset('newcomer')).rejects.toMatchObject({
      code: 'STORE_FULL',
      charged: false,
      message: expect.stringContaining('maxKeys'),
    })
    await limiter.reset('resident')
    expect(limiter.takeSync('resident').allowed).toBe(true)
  })

  test('unused keys are dropped like others', () => {
    const clock = new FakeClock()
    const store = new MemoryStore({ clock: clock.read })
    const limiter = new RateLimiter(gcra({ limit: 10, period: '1s' }), { store })
    for (let key = 0; key < 50_000; key++) {
      limiter.takeSync(`old ${key}`)
    }
    expect(store.size).toBe(50_000)
    clock.advance(1_000)
    for (let call = 0; call < 200_000; call++) {
      limiter.takeSync(`new ${call % 10}`)
    }
    expect(store.size).toBe(10)
  })
})

describe('clock steps', () => {
  // promise: locks-after-clock-step
  test('a jump far ahead and back locks a key for no longer than its horizon', () => {
    const clock = new FakeClock()
    const limiter = new RateLimiter(gcra({ limit: 10, period: '1s' }), {
      store: new MemoryStore({ clock: clock.read }),
    })
    clock.advance(365 * 86_400_000)
    limiter.takeSync('a')
    clock.advance(-365 * 86_400_000)
    expect(limiter.takeSync('a')).toMatchObject({ allowed: false, retryAfterMs: 100, resetAfterMs: 1_000 })
    clock.advance(1_000)
    expect(limiter.takeSync('a', 10).allowed).toBe(true)
  })

  test('a step back counts as no refill', () => {
    const clock = new FakeClock()
    const limiter = new RateLimiter(gcra({ limit: 10, period: '1s' }), {
      store: new MemoryStore({ clock: clock.read }),
    })
    limiter.takeSync('a', 5)
    clock.advance(-200)
    expect(limiter.takeSync('a').remaining).toBe(2)
  })
})
