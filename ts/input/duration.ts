import type { TollgateErrorCode } from '../api/error.js'
import { Warnings } from '../platform/warning.js'
import { invalid } from './options.js'

/**
 * A duration: a string with a unit, such as `'500ms'`, `'1.5m'` or `'10 minutes'`, or a number of milliseconds
 * from 1 on. Fractions are exact down to a microsecond. A day is 24 hours. A bare whole number below 1,000 may
 * have been meant as seconds: the process emits the warning `TOLLGATE_SHORT_DURATION`, once for each option.
 *
 * @example
 * const durations: Duration[] = ['500ms', '1.5m', '10 minutes', 1_000]
 */
export type Duration = number | `${number}${'' | ' '}${DurationUnit | DurationWord}`

/** The longest wait of a call, in milliseconds: an hour. */
export const MAX_WAIT_MS = 3_600_000

/** The units of a {@link Duration}. @inline */
type DurationUnit = 'ms' | 's' | 'm' | 'h' | 'd' | 'w'

/** The units of a {@link Duration}, as words. @inline */
type DurationWord =
  | 'millisecond'
  | 'milliseconds'
  | 'sec'
  | 'secs'
  | 'second'
  | 'seconds'
  | 'min'
  | 'mins'
  | 'minute'
  | 'minutes'
  | 'hour'
  | 'hours'
  | 'day'
  | 'days'
  | 'week'
  | 'weeks'

/** The units of durations, the shortest first. */
export const MILLIS: Readonly<Record<DurationUnit, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

const TEXT = /^(\d+(?:\.\d+)?) ?([a-z]+)$/

const RULE =
  "must be a duration above 0 in whole microseconds: milliseconds or a string such as '500ms', '10s', '1m', '1h', '1d', '1w'"

/** Bare numbers below this are rejected: `0.5` may be half a second, or a mistake in a calculation. */
const MIN_BARE_MS = 1

export function millisOf(code: TollgateErrorCode, option: string, value: unknown): number {
  const millis = typeof value === 'string' ? millisOfText(value) : value
  if (typeof millis !== 'number' || !(millis > 0) || !Number.isFinite(millis)) {
    throw invalid(code, option, RULE, value, adviceOn(value))
  }
  const micros = microsOf(millis)
  // Decimals have no exact double: 1.1 ms times 1000 is 1100.0000000000002 µs.
  const rounding = 4 * Number.EPSILON * micros
  if (micros < 1 || Math.abs(micros - millis * 1_000) > rounding) {
    throw invalid(code, option, RULE, value)
  }
  return micros / 1_000
}

const SHORT_MS = 1_000

const warnings = new Warnings()

let areWarningsOff = false

/** {@link millisOf} for an option of the user, with {@link checkBareNumber}. */
export function millisOfOption(code: TollgateErrorCode, option: string, value: unknown): number {
  const millis = millisOf(code, option, value)
  checkBareNumber(code, option, value)
  return millis
}

/** Checks a whole number of milliseconds, given as a number or as a duration string. */
export function wholeMillis(option: string, value: unknown, min: number, max: number): number {
  const isBareText = typeof value === 'string' && /^\d+$/.test(value)
  const millis = typeof value === 'string' && !isBareText ? millisOf('INVALID_OPTION', option, value) : value
  if (typeof millis !== 'number' || !Number.isSafeInteger(millis) || millis < min || millis > max) {
    const advice = isBareText ? `write ${value}, or '${value}ms'` : undefined
    throw invalid('INVALID_OPTION', option, `must be a whole number from ${min} to ${max} milliseconds`, value, advice)
  }
  return millis
}

/** Rejects a bare number below a millisecond, and warns once of one that may have been meant as seconds. */
export function checkBareNumber(code: TollgateErrorCode, option: string, value: unknown): void {
  if (areWarningsOff || typeof value !== 'number') {
    return
  }
  if (value < MIN_BARE_MS) {
    const advice = `write '${value}s' if seconds are meant, and '${value}ms' if not`
    throw invalid(code, option, 'must be at least 1 millisecond if it is a bare number', value, advice)
  }
  if (Number.isInteger(value) && value < SHORT_MS) {
    const fix = `write '${value}s' if seconds are meant, and '${value}ms' if not`
    warnings.once('TOLLGATE_SHORT_DURATION', `${option} is ${value} milliseconds: ${fix}`, option)
  }
}

/** {@link checkBareNumber} for all durations in an object of policy numbers, at any depth. */
export function checkBareNumbers(code: TollgateErrorCode, where: string, numbers: object): void {
  for (const [name, value] of Object.entries(numbers)) {
    if (typeof value === 'object' && value !== null) {
      checkBareNumbers(code, `${where}${name}.`, value)
    } else if (DURATION_OPTIONS.includes(name)) {
      checkBareNumber(code, `${where}${name}`, value)
    }
  }
}

/** The policy options that are durations. `precision` is absent, because a short one is usual. */
const DURATION_OPTIONS: readonly string[] = ['period', 'window', 'every']

/** Suppresses {@link checkBareNumber} during `run`, for policies that exist already. */
export function withoutWarnings<T>(run: () => T): T {
  const before = areWarningsOff
  areWarningsOff = true
  try {
    return run()
  } finally {
    areWarningsOff = before
  }
}

const UNIT_PATTERNS: readonly (readonly [word: RegExp, unit: DurationUnit])[] = [
  [/^(?:ms|msecs?|millis|milliseconds?)$/, 'ms'],
  [/^(?:s|secs?|seconds?)$/, 's'],
  [/^(?:m|mins?|minutes?)$/, 'm'],
  [/^(?:h|hrs?|hours?)$/, 'h'],
  [/^(?:d|days?)$/, 'd'],
  [/^(?:w|weeks?)$/, 'w'],
]

function unitOf(word: string): DurationUnit | undefined {
  return UNIT_PATTERNS.find(([pattern]) => pattern.test(word))?.[1]
}

/** The duration string that was probably meant: `'1m'` for `'minute'`, `'10s'` for `'10 S'`. */
function adviceOn(value: unknown): string | undefined {
  const text = typeof value === 'string' ? value.trim().toLowerCase() : ''
  const parts = /^(\d+(?:\.\d+)?)?\s*([a-z]*)$/.exec(text)
  if (parts === null || text === '') {
    return undefined
  }
  const [, number = '', word = ''] = parts
  const unit = word === '' ? 's' : unitOf(word)
  return unit === undefined || (Number(number) === 0 && number !== '')
    ? undefined
    : `did you mean '${number || 1}${unit}'?`
}

export function microsOf(millis: number): number {
  return Math.round(millis * 1_000)
}

/** The milliseconds of a duration such as `'5s'`, also of 0; `undefined` for other texts. */
export function millisOfText(text: string): number | undefined {
  const [, number, word] = TEXT.exec(text) ?? []
  const unit = word === undefined ? undefined : unitOf(word)
  return unit === undefined ? undefined : Number(number) * MILLIS[unit]
}
