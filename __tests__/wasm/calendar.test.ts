/**
 * Calendars with the zones of `Intl`: their windows end at the same times as the addon's, which
 * uses the system's data. All times are in the past, because versions of the time zone database
 * differ about the future: version 2026c moves Morocco to UTC, for example.
 */
import * as native from '../../ts/index.js'
import * as wasm from '../../ts/wasm/index.js'
import { failureOf } from '../failure.js'
import { Random } from '../random.js'

const WINDOWS = ['hour', 'day', 'week', 'month', '15m', '6h'] as const

/**
 * Their clocks change by hours and half hours, at midnight and at noon, in both halves of the year.
 */
const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/Sao_Paulo',
  'America/St_Johns',
  'America/Havana',
  'America/Asuncion',
  'Asia/Kathmandu',
  'Asia/Shanghai',
  'Africa/Cairo',
  'Africa/Casablanca',
  'Antarctica/Troll',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'Pacific/Chatham',
  'Pacific/Kiritimati',
]

const HOUR = 3_600_000

/** The end of the window of a time. */
function endAt(time: number, module: typeof native | typeof wasm, every: (typeof WINDOWS)[number], timeZone: string) {
  const policy = module.calendarWindow({ limit: 5, every, timeZone })
  const store = new module.MemoryStore({ clock: () => time })
  const limiter = new module.RateLimiter(policy, { store: store as never }) as native.EmbeddedRateLimiter
  const { at, resetAfterMs } = limiter.takeSync('a')
  return at + resetAfterMs
}

test.each(ZONES)('%s', (zone) => {
  const random = new Random(zone.length)
  for (const every of WINDOWS) {
    // At random, and around the weekends on which clocks change.
    const times = Array.from({ length: 30 }, () => Date.UTC(2018, 0, 1) + random.whole(0, 8 * 365 * 24) * HOUR)
    for (const [year, month, day] of [
      [2025, 2, 8],
      [2025, 2, 29],
      [2025, 3, 5],
      [2025, 9, 4],
      [2025, 9, 25],
      [2025, 10, 1],
      [2011, 11, 29],
    ] as const) {
      times.push(...Array.from({ length: 12 }, (_, index) => Date.UTC(year, month, day) + index * 4 * HOUR + 1))
    }
    const ends = times.map((time) => {
      const [one, other] = [native, wasm].map((module) => new Date(endAt(time, module, every, zone)))
      return { time: new Date(time), one, other }
    })
    expect({ every, differing: ends.filter(({ one, other }) => one?.getTime() !== other?.getTime()) }).toEqual({
      every,
      differing: [],
    })
  }
})

test('zones have the same names', () => {
  for (const timeZone of ['UTC', 'utc', 'Europe/Berlin', 'europe/BERLIN', 'US/Pacific', 'Asia/Calcutta']) {
    expect(wasm.calendarWindow({ limit: 1, every: 'day', timeZone })).toMatchObject({ timeZone })
  }
  for (const timeZone of ['', 'Berlin', 'Europe', '+02:00', '-0300', '../zoneinfo/UTC', 'posix/UTC', 7 as never]) {
    const options = { limit: 1, every: 'day', timeZone } as const
    const [one, other] = [native, wasm].map(({ calendarWindow }) => failureOf(() => calendarWindow(options)))
    expect([other?.code, other?.message]).toEqual([one?.code, one?.message])
  }
})

test('a policy that was written down is refused if no zone has its name', () => {
  const policy = { algorithm: 'calendarWindow', limit: 1, every: 'day', timeZone: 'Europe/Atlantis' } as const
  for (const { RateLimiter } of [native, wasm]) {
    expect(failureOf(() => new RateLimiter(policy))).toMatchObject({
      code: 'INVALID_POLICY',
      message: 'calendarWindow: timeZone must name an IANA time zone',
    })
  }
})
