import { type Duration, microsOf, millisOf } from '../input/duration.js'
import { invalid, wholeNumber } from '../input/options.js'
import { type AlgorithmDefinition, policyOptions, WINDOW_DEFINITION } from './definition.js'
import { type Counted, type CountOptions, countOf } from './meter.js'

/** The named calendar windows. A week begins on Monday (ISO 8601). @inline */
type CalendarUnit = 'hour' | 'day' | 'week' | 'month'

/**
 * A calendar window policy; made by {@link calendarWindow}. Durations are in milliseconds.
 *
 * @example
 * const policy: CalendarWindowPolicy = calendarWindow({ limit: 5_000, every: 'day', timeZone: 'Asia/Shanghai' })
 */
export interface CalendarWindowPolicy {
  readonly algorithm: 'calendarWindow'
  readonly limit: number
  readonly every: CalendarUnit | number
  readonly timeZone: string
}

/**
 * The options of {@link calendarWindow}.
 *
 * @example
 * const options: CalendarWindowOptions = { limit: 5_000, every: 'day', timeZone: 'Asia/Shanghai' }
 * const limiter = new RateLimiter(calendarWindow(options))
 */
export interface CalendarWindowOptions<S extends string = string, M extends string = string, D extends number = number>
  extends CountOptions<S, M, D> {
  /** Units per window: a whole number from 1 to 2^53 − 1. */
  readonly limit: number
  /**
   * The window: an hour, a day, a week, a month, or a part of a day: a duration in whole seconds that divides a day
   * evenly (`'15m'`, `'6h'`). `'1h'` is `'hour'`, and `'1d'` is `'day'`.
   */
  readonly every: CalendarUnit | Duration
  /** The IANA name of the time zone that the windows follow. Default: `'UTC'`. */
  readonly timeZone?: string
}

const UNITS: readonly unknown[] = ['hour', 'day', 'week', 'month'] satisfies CalendarUnit[]

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The type of {@link calendarWindow}. */
export type CalendarWindowFactory = <
  const S extends string = never,
  const M extends string = never,
  const D extends number = never,
>(
  options: CalendarWindowOptions<S, M, D>,
) => Counted<CalendarWindowPolicy, NoInfer<S>, NoInfer<M>, NoInfer<D>>

/** Makes `calendarWindow`. Without `isTimeZone` it accepts every name, and the engine rejects unknown ones. */
export function createCalendarWindow(isTimeZone: (name: string) => boolean = () => true): CalendarWindowFactory {
  return function calendarWindow<
    const S extends string = never,
    const M extends string = never,
    const D extends number = never,
  >(options: CalendarWindowOptions<S, M, D>) {
    const required = ['limit', 'every'] as const
    const given = policyOptions('calendarWindow', arguments, options, required, ['timeZone'])
    const { limit, every, timeZone = 'UTC' } = given
    return Object.freeze({
      algorithm: 'calendarWindow',
      limit: wholeNumber('INVALID_POLICY', 'calendarWindow: limit', limit),
      every: everyOf(every),
      timeZone: timeZoneOf(timeZone, isTimeZone),
      ...countOf('calendarWindow', given),
    }) as Counted<CalendarWindowPolicy, S, M, D>
  }
}

function everyOf(value: unknown): CalendarUnit | number {
  if (UNITS.includes(value)) {
    return value as CalendarUnit
  }
  const millis = partOfDayOf(value)
  if (millis === undefined) {
    const rule =
      "must be 'hour', 'day', 'week', 'month' or whole seconds that divide a day evenly, such as '15m' or '6h'"
    throw invalid('INVALID_POLICY', 'calendarWindow: every', rule, value)
  }
  return millis === HOUR_MS ? 'hour' : millis === DAY_MS ? 'day' : millis
}

function partOfDayOf(value: unknown): number | undefined {
  try {
    const millis = millisOf('INVALID_POLICY', 'every', value)
    return millis % 1_000 === 0 && DAY_MS % millis === 0 ? millis : undefined
  } catch {
    return undefined
  }
}

function timeZoneOf(value: unknown, isTimeZone: (name: string) => boolean): string {
  if (typeof value === 'string' && isTimeZone(value)) {
    return value
  }
  const rule = "must be the IANA name of a time zone, such as 'Europe/Berlin'"
  throw invalid('INVALID_POLICY', 'calendarWindow: timeZone', rule, value)
}

/** The length of calendar windows when no clock changes; a month counts as 30 days. */
const NOMINAL_MS: { readonly [Unit in CalendarUnit]: number } = {
  hour: HOUR_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
}

export const CALENDAR_WINDOW: AlgorithmDefinition<CalendarWindowPolicy> = {
  ...WINDOW_DEFINITION,
  // The engine checks the time zone.
  create: createCalendarWindow(),
  // The numbers of the named windows are their positions in `UNITS`.
  encode: ({ limit, every }) => [
    'calendarWindow',
    [limit, typeof every === 'number' ? microsOf(every) : UNITS.indexOf(every)],
  ],
  lease: () => ({}),
  windowMs: ({ every }) => (typeof every === 'number' ? every : NOMINAL_MS[every]),
  decodeOverride: ([limit = 0]) => ({ limit }),
}
