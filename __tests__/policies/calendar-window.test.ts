import {
  type CalendarWindowOptions,
  type CalendarWindowPolicy,
  calendarWindow,
  MemoryStore,
  RateLimiter,
} from '../../ts/index.js'
import { anything, failureOf } from '../failure.js'
import { boundaryAfter } from './calendar.js'

/** A limiter at a given time, such as `2026-03-29T00:30:00Z`. */
function limiterAt(options: CalendarWindowOptions, start: string) {
  let now = Date.parse(start)
  const limiter = new RateLimiter(calendarWindow(options), { store: new MemoryStore({ clock: () => now }) })
  return {
    limiter,
    goTo: (time: string) => {
      now = Date.parse(time)
    },
  }
}

describe('options', () => {
  const good = { limit: 1, every: 'day' } as const

  test('a policy is plain, frozen and complete, and its values make an equal policy', () => {
    const policy = calendarWindow({ limit: 5, every: 'week', timeZone: 'Asia/Shanghai' })
    expect(policy).toEqual({ algorithm: 'calendarWindow', limit: 5, every: 'week', timeZone: 'Asia/Shanghai' })
    expect(Object.isFrozen(policy)).toBe(true)
    const again: CalendarWindowPolicy = JSON.parse(JSON.stringify(policy))
    expect(new RateLimiter(again).policies.default).toEqual(policy)
    expect(calendarWindow(good).timeZone).toBe('UTC')
    expect(calendarWindow({ limit: 1, every: '15m' }).every).toBe(900_000)
    expect(new RateLimiter(calendarWindow({ limit: 1, every: '15m' })).policies.default).toMatchObject({
      every: 900_000,
    })
  })

  test("the lengths of an hour and a day mean the calendar's hour and day", () => {
    for (const every of ['1h', '60m', 3_600_000] as const) {
      expect(calendarWindow({ limit: 1, every }).every).toBe('hour')
    }
    for (const every of ['1d', '24h', 86_400_000] as const) {
      expect(calendarWindow({ limit: 1, every }).every).toBe('day')
    }
  })

  const badWindows = [
    'year',
    'Day',
    '',
    '7h',
    '2d',
    '1w',
    '0s',
    '500ms',
    '1.5s',
    0,
    -1,
    NaN,
    Infinity,
    1_500,
    null,
    undefined,
    {},
    10n,
  ]

  test.each(badWindows)('every: the error for %p has the name, the value and the rule', (every) => {
    const { code, message } = failureOf(() => calendarWindow({ ...good, every: anything(every) }))
    expect(code).toBe('INVALID_POLICY')
    expect(message).toMatch(/^calendarWindow: every must be 'hour', 'day', 'week', 'month' or whole seconds .*, got /)
  })

  const badZones = ['', 'Mars/Base', 'Europe', 'GMT+25', '+02:00', '../UTC', 'Etc/Unknown', 'UTC\0', null, 1, {}, []]

  test.each(badZones)('timeZone: the error for %p has the name, the value and the rule', (timeZone) => {
    const { code, message } = failureOf(() => calendarWindow({ ...good, timeZone: anything(timeZone) }))
    expect(code).toBe('INVALID_POLICY')
    expect(message).toMatch(/^calendarWindow: timeZone must be the IANA name of a time zone, such as .*, got /)
  })

  test('the error has the value', () => {
    expect(failureOf(() => calendarWindow({ ...good, timeZone: 'Mars/Base' })).message).toMatch(/got "Mars\/Base"$/)
    expect(failureOf(() => calendarWindow({ ...good, every: '7h' })).message).toMatch(/got "7h"$/)
  })

  test('invalid limits and unknown options', () => {
    for (const limit of [0, -1, 0.5, 2 ** 53, NaN, '1', undefined]) {
      const { message } = failureOf(() => calendarWindow({ ...good, limit: anything(limit) }))
      expect(message).toMatch('calendarWindow: limit must be a whole number from 1 to 2^53 - 1, got ')
    }
    expect(failureOf(() => calendarWindow(anything({ ...good, zone: 'UTC' }))).message).toMatch(
      'calendarWindow has no option "zone"; did you mean "timeZone"? It takes limit, every, timeZone',
    )
    expect(failureOf(() => calendarWindow(anything(undefined))).message).toMatch(/takes an object of options/)
  })

  test("all zones of Node's Intl are known", () => {
    for (const timeZone of Intl.supportedValuesOf('timeZone')) {
      expect(calendarWindow({ ...good, timeZone }).timeZone).toBe(timeZone)
    }
  })
})

describe('embedded', () => {
  test('allowed, the last of the quota, over the quota; and the full quota after the boundary', async () => {
    const { limiter, goTo } = limiterAt({ limit: 3, every: 'day', timeZone: 'Asia/Shanghai' }, '2026-06-01T12:00:00Z')
    const taken = [1, 1, 1, 1].map((cost) => limiter.takeSync('user:42', cost))
    expect(taken.map(({ status }) => status)).toEqual(['allowed', 'allowed', 'allowed-last', 'refused'])
    // Midnight in Shanghai is 16:00 UTC.
    expect(taken[3]).toMatchObject({ retryAfterMs: 4 * 3_600_000, resetAfterMs: 4 * 3_600_000, remaining: 0, limit: 3 })
    goTo('2026-06-01T15:59:59.999Z')
    expect(limiter.takeSync('user:42')).toMatchObject({ status: 'refused', retryAfterMs: 1 })
    goTo('2026-06-01T16:00:00Z')
    expect(await limiter.peek('user:42')).toMatchObject({ status: 'allowed', remaining: 3, resetAfterMs: 86_400_000 })
    expect(limiter.takeSync('user:42', 3).status).toBe('allowed-last')
    expect(limiter.takeSync('user:42', 4).status).toBe('impossible')
  })

  test('a day has 23 or 25 hours at clock changes, and a repeated hour counts again', () => {
    const berlin = { limit: 1, timeZone: 'Europe/Berlin' } as const
    const hours = (options: CalendarWindowOptions, time: string) =>
      limiterAt(options, time).limiter.takeSync('a').resetAfterMs / 3_600_000
    expect(hours({ ...berlin, every: 'day' }, '2026-03-28T23:00:00Z')).toBe(23)
    expect(hours({ ...berlin, every: 'day' }, '2026-10-24T22:00:00Z')).toBe(25)
    const { limiter, goTo } = limiterAt({ ...berlin, every: 'hour' }, '2026-10-25T00:00:00Z')
    expect(limiter.takeSync('a')).toMatchObject({ allowed: true, resetAfterMs: 3_600_000 })
    goTo('2026-10-25T01:00:00Z')
    expect(limiter.takeSync('a')).toMatchObject({ allowed: true, resetAfterMs: 3_600_000 })
  })

  test('a clock that is set back by years keeps the count to the next boundary, and no longer', () => {
    const { limiter, goTo } = limiterAt({ limit: 3, every: 'month' }, '2030-06-15T00:00:00Z')
    limiter.takeSync('a', 2)
    goTo('2026-06-15T00:00:00Z')
    expect(limiter.takeSync('a', 2)).toMatchObject({ status: 'refused', retryAfterMs: 16 * 86_400_000 })
    expect(limiter.takeSync('a')).toMatchObject({ status: 'allowed-last', resetAfterMs: 16 * 86_400_000 })
    goTo('2026-07-01T00:00:00Z')
    expect(limiter.takeSync('a')).toMatchObject({ status: 'allowed', remaining: 2 })
  })
})

describe('boundaries equal those of Intl', () => {
  const zones = [
    'UTC',
    'America/New_York',
    'America/St_Johns',
    'America/Sao_Paulo',
    'America/Havana',
    'Africa/Cairo',
    'Africa/Casablanca',
    'Asia/Beirut',
    'Asia/Kathmandu',
    'Asia/Kolkata',
    'Asia/Tehran',
    'Australia/Lord_Howe',
    'Europe/Berlin',
    'Europe/London',
    'Pacific/Apia',
    'Pacific/Chatham',
  ]
  const windows = ['hour', '15m', '2h', '6h', '12h', 'day', 'week', 'month'] as const
  /**
   * Times at clock changes and other times, from a fixed sequence. All are past: governments change
   * future rules, and Node's copy of the data may be older or newer than the system's.
   */
  const changes = ['2018-11-04', '2011-12-30', '2023-03-25', '2024-11-03', '2024-03-31', '2025-04-06', '2024-10-27']

  test.each(zones)('%s', (timeZone) => {
    let seed = 42
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % below
    }
    for (const every of windows) {
      let now = 0
      const store = new MemoryStore({ clock: () => now })
      const limiter = new RateLimiter(calendarWindow({ limit: 1, every, timeZone }), { store })
      const calls = every === 'month' || every === 'week' ? 6 : 20
      for (let call = 0; call < calls; call++) {
        const day = changes[call % changes.length] as string
        const around = Date.parse(day) + random(3 * 86_400_000) - 86_400_000
        now = call % 3 === 2 ? Date.UTC(2005) + random(2_000_000_000) * 320 : around
        const { resetAfterMs } = limiter.takeSync(`${call}`)
        const shown = { timeZone, every, now: new Date(now).toISOString() }
        expect({ ...shown, end: new Date(now + resetAfterMs).toISOString() }).toEqual({
          ...shown,
          end: new Date(boundaryAfter(now, every, timeZone)).toISOString(),
        })
      }
    }
  })
})
