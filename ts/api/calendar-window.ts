import { engine } from '../backends/addon.js'
import { type CalendarWindowFactory, createCalendarWindow } from '../policies/calendar-window.js'

/**
 * At most `limit` units per calendar window, for example per day in Shanghai or per month in UTC.
 *
 * **Law:** at most `limit` units in each calendar window, and at most 2 · `limit` in any rolling
 * span that is no longer than the shortest window that it overlaps.
 *
 * Days, weeks and months begin at the first instant of their first date in the time zone, and windows shorter
 * than a day are counted by the local clock from midnight: see `docs/algorithms.md`. Time zone data come from
 * the system (or from `TZDIR`); the package's own copy covers names that the system does not have.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * calendarWindow({ limit: 5000, every: 'day', timeZone: 'Asia/Shanghai' })
 *
 * @function
 */
export const calendarWindow: CalendarWindowFactory = createCalendarWindow(engine.Policy.isTimeZone)
