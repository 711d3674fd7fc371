/** Times of logs in epoch milliseconds, with fractions if the log has them. An invalid time is `NaN`. */

const MONTHS = new Map(
  ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'].map((name, month) => [
    monthCode(name, 0),
    month,
  ]),
)

/** The length of `10/Oct/2000:13:55:36 -0700`. */
export const CLF_TIME_LENGTH = 26

let lastDate = -1
let lastDateMs = 0

/**
 * Parses a time of the common log format, `10/Oct/2000:13:55:36 -0700`, that starts at `start`. It reads single
 * characters in place: a string for the time of each line would take longer than the rest of the parsing.
 */
export function clfTime(text: string, start: number): number {
  const day = twoDigits(text, start)
  const month = MONTHS.get(monthCode(text, start + 3))
  const year = twoDigits(text, start + 7) * 100 + twoDigits(text, start + 9)
  const hour = twoDigits(text, start + 12)
  const minute = twoDigits(text, start + 15)
  const second = twoDigits(text, start + 18)
  const zone = twoDigits(text, start + 22) * 60 + twoDigits(text, start + 24)
  const isFramed =
    text.charCodeAt(start + 2) === SLASH &&
    text.charCodeAt(start + 6) === SLASH &&
    text.charCodeAt(start + 11) === COLON &&
    text.charCodeAt(start + 14) === COLON &&
    text.charCodeAt(start + 17) === COLON &&
    text.charCodeAt(start + 20) === SPACE
  const sign = signOf(text.charCodeAt(start + 21))
  // A second of 60 is a leap second. A character that is not a digit gives NaN, which no comparison accepts.
  if (!isFramed || month === undefined || !(hour < 24 && minute < 60 && second <= 60 && zone < 1_440)) {
    return Number.NaN
  }
  return dateMs(year, month, day) + (hour * 60 + minute - sign * zone) * 60_000 + second * 1_000
}

const SLASH = 47
const COLON = 58
const SPACE = 32

/** Midnight of a date in UTC; `NaN` for an impossible date. The last date is cached. */
function dateMs(year: number, month: number, day: number): number {
  const date = (year * 12 + month) * 32 + day
  if (date !== lastDate) {
    const millis = Date.UTC(year, month, day)
    const isDate = year >= 1970 && new Date(millis).getUTCDate() === day
    lastDateMs = isDate ? millis : Number.NaN
    lastDate = date
  }
  return lastDateMs
}

function monthCode(text: string, start: number): number {
  return (text.charCodeAt(start) << 16) | (text.charCodeAt(start + 1) << 8) | text.charCodeAt(start + 2)
}

function twoDigits(text: string, start: number): number {
  const tens = text.charCodeAt(start) - 48
  const ones = text.charCodeAt(start + 1) - 48
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN
}

function signOf(code: number): number {
  return code === 43 ? 1 : code === 45 ? -1 : Number.NaN
}

const ISO = /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\d*\s*(Z|UTC|[+-]\d\d:?\d\d)?$/i
const NUMBER = /^\d{1,19}(\.\d+)?$/

/**
 * Parses the time field of a JSON line: ISO 8601 (UTC without a zone), the common log format, or a number since 1970 in
 * seconds, milliseconds, microseconds or nanoseconds, by its size.
 */
export function timeOfField(value: unknown): number {
  if (typeof value === 'number') {
    return millisOfNumber(value)
  }
  if (typeof value !== 'string') {
    return Number.NaN
  }
  const iso = ISO.exec(value)
  if (iso !== null) {
    return isoTime(iso)
  }
  if (NUMBER.test(value)) {
    return millisOfNumber(Number(value))
  }
  const bare = value.startsWith('[') ? value.slice(1, -1) : value
  return bare.length === CLF_TIME_LENGTH ? clfTime(bare, 0) : Number.NaN
}

function isoTime([, year, month, day, hour, minute, second, fraction, zone]: RegExpExecArray): number {
  const clock = Number(hour) * 3_600 + Number(minute) * 60 + Number(second)
  if (!(Number(hour) < 24 && Number(minute) < 60 && Number(second) <= 60)) {
    return Number.NaN
  }
  const part = fraction === undefined ? 0 : Math.round(Number(`0.${fraction}`) * 1_000_000) / 1_000
  return dateMs(Number(year), Number(month) - 1, Number(day)) + clock * 1_000 + part - zoneMs(zone)
}

function zoneMs(zone: string | undefined): number {
  const [, sign, hours, minutes] = /^([+-])(\d\d):?(\d\d)$/.exec(zone ?? '') ?? []
  const millis = (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * 60_000
  return sign === '-' ? -millis : millis
}

/** Seconds up to the year 5138, milliseconds from 1973, and so on. No log is older, or has later nanoseconds. */
function millisOfNumber(number: number): number {
  if (!(number >= 0 && number < 1e20)) {
    return Number.NaN
  }
  if (number < 1e11) {
    return Math.round(number * 1_000_000) / 1_000
  }
  return number < 1e14 ? number : number < 1e17 ? number / 1_000 : Math.round(number / 1_000) / 1_000
}
