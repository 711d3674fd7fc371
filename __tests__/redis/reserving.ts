import { fixedWindow, gcra, type Policy, RateLimiter, slidingLog, slidingWindow } from '../../ts/index.js'
import { SEED } from '../cases.js'
import type { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { allReady, reportOf, skewed } from './help.js'
import type { OpenedRedis } from './opened.js'

const LIMIT = 60
const SHORT = { limit: 20, window: 200, maxOwed: 0 }

/** Policies whose units do not return during the test. */
const EXACT = {
  window: fixedWindow({ limit: LIMIT, window: '1d', maxOwed: 0 }),
  log: slidingLog({ limit: LIMIT, window: '1h', maxOwed: 0 }),
  buckets: slidingWindow({ limit: LIMIT, window: '1h', maxOwed: 0 }),
}

/** After a refund, a fraction of a unit may count longer than it should, so that one more unit counts at the end. */
const RATE = { rate: gcra({ limit: LIMIT, period: '365d', maxOwed: 0 }) }

interface ReservingCase {
  readonly prefix: string
  readonly hour: Readonly<Record<string, Policy>>
  /** How many units beyond the charged ones may count at the end. */
  readonly excess: number
}

/** The report of a process of `reserving.mjs`. */
interface ReservingReport {
  /** Units of the hour that it has charged and not refunded. */
  readonly spent: number
  /** The same of the short windows, by their end. */
  readonly windows: Readonly<Record<string, number>>
  readonly counts: Readonly<Record<'allowed' | 'refused' | 'settled' | 'again' | 'expired' | 'forgotten', number>>
}

/** The number of keys with a matching name that have a TTL, or have none. */
export function keys(server: RedisServer, pattern: string, hasTtl: boolean): Promise<number> {
  const script = `
    local count = 0
    for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
      if (redis.call('PTTL', key) >= 0) == (ARGV[2] == 'true') then
        count = count + 1
      end
    end
    return count`
  return server.command('EVAL', script, '0', pattern, `${hasTtl}`)
}

type Result = keyof ReservingReport['counts']

/** The results that occur at any speed of the machine. */
const USUAL: readonly Result[] = ['allowed', 'refused', 'settled', 'again']

/**
 * Tests with processes that reserve a number of times, each by a seed of its own.
 *
 * @param expected - The results that must occur.
 */
export function describeReserving(redis: OpenedRedis, rounds: number, expected = USUAL): void {
  describe.each<ReservingCase>([
    { prefix: 'windows', hour: EXACT, excess: 0 },
    { prefix: 'rate', hour: RATE, excess: 1 },
  ])('three processes that reserve and settle at random under $prefix', ({ prefix, hour, excess }) => {
    let reports: readonly ReservingReport[]

    beforeAll(async () => {
      const work = { url: redis.server.url, prefix, hour, short: fixedWindow(SHORT), inFlight: 6, rounds }
      const children = await allReady(
        [-900, 0, 60_000].map((skew, index) => skewed('reserving.mjs', { ...work, seed: SEED + index }, skew)),
      )
      reports = await Promise.all(children.map((child) => reportOf<ReservingReport>(child)))
    }, 60_000)

    const count = (what: keyof ReservingReport['counts']) => reports.reduce((sum, { counts }) => sum + counts[what], 0)

    test('each reservation settled once', () => {
      for (const what of expected) {
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
      const limiter = new RateLimiter(hour, { store: redis.store, prefix })
      const { policies } = await limiter.peek('key', 0)
      const spent = reports.reduce((sum, report) => sum + report.spent, 0)
      expect(spent).toBeGreaterThan(0)
      expect(spent).toBeLessThanOrEqual(LIMIT)
      for (const { remaining } of Object.values(policies)) {
        expect(LIMIT - remaining).toBeGreaterThanOrEqual(spent)
        expect(LIMIT - remaining).toBeLessThanOrEqual(spent + excess)
      }
    })

    test('no window exceeds its limit', () => {
      const windows = new Map<string, number>()
      for (const report of reports) {
        for (const [end, units] of Object.entries(report.windows)) {
          windows.set(end, (windows.get(end) ?? 0) + units)
        }
      }
      expect(windows.size).toBeGreaterThan(0)
      expect(Math.max(...windows.values())).toBeLessThanOrEqual(SHORT.limit)
      expect(Math.min(...windows.values())).toBeGreaterThanOrEqual(0)
    })

    test('every key has a TTL', async () => {
      expect(await keys(redis.server, '*', false)).toBe(0)
      expect(await keys(redis.server, `${prefix}:*`, true)).toBeGreaterThanOrEqual(Object.keys(hour).length)
      // The only other key records the policies under the prefix.
      await until('no window is left', async () => (await keys(redis.server, 'short:[^~]*', true)) === 0)
    })
  })
}
