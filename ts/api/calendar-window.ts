import { engine } from '../backends/addon.js'
import { calendarWindowIn, type MakeCalendarWindow } from '../policies/calendar-window.js'

/**
 * At most `limit` units per window of the calendar: per day in Shanghai, per month in UTC.
 *
 * **Law:** `limit` per calendar window, and at most 2 · `limit` in any rolling span that is no longer than
 * the windows in it.
 *
 * Days, weeks and months begin with the first instant of their first date in the time zone: a day has 23 or
 * 25 hours where the clocks change. Parts of a day are counted by the local clock from its midnight: an hour
 * that the clocks repeat is counted again, and where the clocks change by half an hour, so long is a window.
 *
 * A window that is open keeps its end, so processes whose time zone data differ never reset each other. Only if it
 * ends more than twice the longest window ahead (two parts of a day; for days 50 hours, for weeks 14 days and 2
 * hours, for months 62 days and 2 hours), because the deciding clock was set back or the windows were longer, its end
 * moves to the next boundary. Its count stays.
 *
 * Time zones are the system's (or `TZDIR`'s), with a copy of its own for names that the system has not.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * calendarWindow({ limit: 5000, every: 'day', timeZone: 'Asia/Shanghai' })
 *
 * @function
 */
export const calendarWindow: MakeCalendarWindow = calendarWindowIn(engine.Policy.isTimeZone)
