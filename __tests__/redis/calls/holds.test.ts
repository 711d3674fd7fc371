/**
 * Reservations of several processes on one Redis: nothing is charged or refunded twice, and no hold
 * stays behind.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  fixedWindow,
  gcra,
  RateLimiter,
  RedisStore,
  type Reservation,
  slidingLog,
  slidingWindow,
} from '../../../ts/index.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { allReady, reportOf, skewed } from '../help.js'
import { openedRedis } from '../opened.js'

const LIMIT = 60
const SHORT = { limit: 20, window: 200 }

/** None of their units return during the test. */
const hour = {
  window: fixedWindow({ limit: LIMIT, window: '1d' }),
  rate: gcra({ limit: LIMIT, period: '365d' }),
  log: slidingLog({ limit: LIMIT, window: '1h' }),
  buckets: slidingWindow({ limit: LIMIT, window: '1h' }),
}

/** The report of a process of `reserving.mjs`. */
interface ReservingReport {
  /** Units of the hour that it has charged and not refunded. */
  readonly spent: number
  /** The same of the short windows, by their end. */
  readonly windows: Readonly<Record<string, number>>
  readonly counts: Readonly<Record<'allowed' | 'refused' | 'settled' | 'again' | 'expired' | 'forgotten', number>>
}

const redis = openedRedis()

/** The number of keys with a matching name that have a TTL, or have none. */
function keys(pattern: string, hasTtl: boolean): Promise<number> {
  const script = `
    local count = 0
    for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
      if (redis.call('PTTL', key) >= 0) == (ARGV[2] == 'true') then
        count = count + 1
      end
    end
    return count`
  return redis.server.command('EVAL', script, '0', pattern, `${hasTtl}`)
}

describe('three processes that reserve and settle at random', () => {
  let reports: readonly ReservingReport[]

  beforeAll(async () => {
    const work = { url: redis.server.url, hour, short: fixedWindow(SHORT), inFlight: 6, ms: 3_000 }
    const children = await allReady([-900, 0, 60_000].map((skew) => skewed('reserving.mjs', work, skew)))
    reports = await Promise.all(children.map((child) => reportOf<ReservingReport>(child)))
  }, 30_000)

  const count = (what: keyof ReservingReport['counts']) => reports.reduce((sum, { counts }) => sum + counts[what], 0)

  test('every kind of result occurred, and each reservation settled once', () => {
    for (const what of ['allowed', 'refused', 'settled', 'again', 'expired', 'forgotten'] as const) {
      expect(count(what)).toBeGreaterThan(0)
    }
    // Each reservation that was not forgotten has three attempts; one of them settles it unless it
    // has expired.
    const tried = count('allowed') - count('forgotten')
    expect(count('settled') + count('again') + count('expired')).toBe(3 * tried)
    expect(count('settled')).toBeLessThanOrEqual(tried)
    expect(3 * count('settled')).toBeLessThanOrEqual(3 * tried - count('expired'))
  })

  test('the stored count equals the units charged and not refunded, exactly', async () => {
    const limiter = new RateLimiter(hour, { store: redis.store, prefix: 'hour' })
    const { policies } = await limiter.peek('key', 0)
    const spent = reports.reduce((sum, report) => sum + report.spent, 0)
    expect(spent).toBeGreaterThan(0)
    expect(spent).toBeLessThanOrEqual(LIMIT)
    expect(Object.values(policies).map(({ remaining }) => LIMIT - remaining)).toEqual([spent, spent, spent, spent])
  })

  test('no window exceeds its limit', () => {
    const windows = new Map<string, number>()
    for (const report of reports) {
      for (const [end, units] of Object.entries(report.windows)) {
        windows.set(end, (windows.get(end) ?? 0) + units)
      }
    }
    expect(windows.size).toBeGreaterThan(5)
    expect(Math.max(...windows.values())).toBeLessThanOrEqual(SHORT.limit)
    expect(Math.min(...windows.values())).toBeGreaterThanOrEqual(0)
  })

  test('every key has a TTL, and no holds are left', async () => {
    expect(await keys('*', false)).toBe(0)
    expect(await keys('hour:*', true)).toBeGreaterThanOrEqual(4)
    await sleep(900)
    expect(await keys('*~holds*', true)).toBe(0)
    // The only other key records the policies under the prefix.
    expect(await keys('short:[^~]*', true)).toBe(0)
  })
})

describe('a process that is killed', () => {
  test('a killed process has spent its reservations, which vanish with the window or by draining', async () => {
    const policies = [fixedWindow({ limit: 10, window: '2s' }), gcra({ limit: 10, period: '3s' })] as const
    const work = { url: redis.server.url, policies, units: 5, expiresIn: '500ms' }
    using child = fork(join(__dirname, '..', 'programs', 'reserve-and-wait.mjs'), [JSON.stringify(work)])
    const [allowed] = await once(child, 'message')
    expect(allowed).toEqual([true, true])
    const start = performance.now()
    child.kill('SIGKILL')
    await once(child, 'exit')
    const limiters = policies.map(
      (policy, index) => new RateLimiter(policy, { store: redis.store, prefix: `killed-${index}` }),
    )
    const remaining = () => Promise.all(limiters.map(async (limiter) => (await limiter.peek('key', 0)).remaining))
    expect(await keys('killed-*~holds*', true)).toBe(2)
    await sleep(600 - (performance.now() - start))
    expect(await keys('killed-*~holds*', true)).toBe(0)
    const [inWindow, draining] = await remaining()
    expect(inWindow).toBe(5)
    expect(draining).toBeLessThan(10)
    await sleep(2_100 - (performance.now() - start))
    expect(await remaining()).toEqual([10, 10])
    // TTLs are up to three times as long as the states matter.
    while ((await keys('killed-*', true)) > 0) {
      expect(performance.now() - start).toBeLessThan(12_100)
      await sleep(100)
    }
    expect(await keys('killed-*', false)).toBe(0)
  }, 20_000)
})

describe('a call whose outcome is unknown', () => {
  const units = (reservation: Reservation) => (reservation.allowed ? reservation.units : 0)

  test.each([
    { actual: 1, remaining: 9 },
    { actual: 6, remaining: 4 },
  ])('can be retried: $actual units are settled once', async ({ actual, remaining }) => {
    const impatient = new RedisStore({ url: redis.server.url, commandTimeoutMs: 300 })
    const limiter = new RateLimiter(fixedWindow({ limit: 10, window: '1h' }), { store: impatient, prefix: 'unknown' })
    try {
      await limiter.reset('key')
      const reservation = await limiter.reserve('key', 4)
      expect(units(reservation)).toBe(4)
      if (!reservation.allowed) {
        return
      }
      redis.server.freeze()
      await expect(reservation.commit(actual)).rejects.toMatchObject({ code: 'STORE_TIMEOUT', charged: 'unknown' })
      redis.server.thaw()
      await limiter.ready()
      expect(await reservation.commit(actual)).toEqual({ settled: false, reason: 'settled-before' })
      expect((await limiter.peek('key', 0)).remaining).toBe(remaining)
      expect(await reservation.cancel()).toEqual({ settled: false, reason: 'settled-before' })
      expect((await limiter.peek('key', 0)).remaining).toBe(remaining)
    } finally {
      redis.server.thaw()
      await impatient.close()
    }
  })
})

test('answers that are lost: a repeated settlement has no effect, and a repeated extension is counted', async () => {
  await using proxy = await TcpProxy.start(redis.server)
  const policy = fixedWindow({ limit: 100, window: '1d' })
  await using direct = new RedisStore(redis.server.url)
  await using remote = new RedisStore({ url: proxy.url, commandTimeoutMs: 300 })
  const near = new RateLimiter(policy, { store: direct, prefix: 'lost' })
  const far = new RateLimiter(policy, { store: remote, prefix: 'lost' })
  const reservation = await far.reserve('key', 10, { expiresIn: '1d' })
  if (!reservation.allowed) {
    throw new Error('not allowed')
  }
  /** Makes a call whose answer is lost after it has taken effect. */
  const lost = async (call: () => Promise<unknown>, remaining: number) => {
    proxy.hold('down')
    await expect(call()).rejects.toMatchObject({ charged: 'unknown' })
    expect((await near.peek('key')).remaining).toBe(remaining)
    proxy.cut()
    proxy.release()
    // The client may see only by its next call that its connection is broken.
    const isConnected = () => far.peek('key').then(Boolean, () => false)
    while (!(await isConnected())) {
      await sleep(10)
    }
  }
  await lost(() => reservation.extend(20), 70)
  const extension = await reservation.extend(20)
  expect(extension.extended).toBe(true)
  expect((await near.peek('key')).remaining).toBe(50)
  // The units of the extension without an answer count as spent: the caller does not know of them.
  await lost(() => reservation.commit(5), 80)
  const again = { settled: false, reason: 'settled-before' }
  const settled = await Promise.all([
    reservation.commit(5),
    near.settle(reservation.id, 5),
    far.settle(reservation.id, 0),
  ])
  expect(settled).toEqual([again, again, again])
  expect((await near.peek('key')).remaining).toBe(80)
  await Promise.all([near.close(), far.close()])
})
