import { type CalendarWindowFactory, createCalendarWindow } from '../policies/calendar-window.js'
import { isTimeZone } from './engine/host.js'

/**
 * At most `limit` units per calendar window, as the `calendarWindow` of `tollgate`. Time zones are
 * those of the platform's `Intl`.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * calendarWindow({ limit: 5000, every: 'day', timeZone: 'Asia/Shanghai' })
 *
 * @function
 */
export const calendarWindow: CalendarWindowFactory = createCalendarWindow(isTimeZone)
