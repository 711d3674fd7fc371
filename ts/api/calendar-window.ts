import { engine } from '../backends/addon.js'
import { type CalendarWindowFactory, createCalendarWindow } from '../policies/calendar-window.js'

/**
 * At most `limit` units per calendar window, for example per day in Shanghai or per month in UTC.
 *
 * **Law:** at most `limit` units in each calendar window, and at most 2 · `limit` in any rolling
 * span that is no longer than the windows in it.
 *
 * Days, weeks and months begin at the first instant of their first date in the time zone, so a day
 * has 23 or 25 hours when the clocks change. Windows shorter than a day are counted by the local
 * clock from midnight. An hour that the clocks repeat is counted again. Where the clocks change by
 * half an hour, one window is half an hour long.
 *
 * An open window keeps its end, so processes with different time zone data never reset each other.
 * There is one exception: the end lies more than twice the longest window ahead, because the
 * deciding clock was set back or the windows were longer before. Twice the longest window is two
 * windows for windows shorter than a day, 50 hours for days, 14 days and 2 hours for weeks, and 62
 * days and 2 hours for months. The end then moves to the next boundary, and the count stays.
 *
 * Time zone data come from the system (or from `TZDIR`). The package's own copy covers names that
 * the system does not have.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * calendarWindow({ limit: 5000, every: 'day', timeZone: 'Asia/Shanghai' })
 *
 * @function
 */
export const calendarWindow: CalendarWindowFactory = createCalendarWindow(engine.Policy.isTimeZone)
