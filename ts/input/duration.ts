import type { TollgateErrorCode } from '../api/error.js'
import { Warnings } from '../platform/warning.js'
import { invalid } from './options.js'

/**
 * A length of time: milliseconds as a number (fractions down to a microsecond), or a number with
 * its unit: `'500ms'`, `'10s'`, `'1.5m'`, `'1h'`, `'1d'`, `'1w'`. A day is 24 hours.
 *
 * A bare whole number below 1,000 may have been meant as seconds: the process warns of it once for each option, with the
 * code `TOLLGATE_SHORT_DURATION`. With its unit, `'60ms'`, it is not warned of.
 */
export type Duration = number | `${number}${DurationUnit}`

/** The units of a {@link Duration}. */
export type DurationUnit = 'ms' | 's' | 'm' | 'h' | 'd' | 'w'

const MILLIS: Readonly<Record<DurationUnit, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

const TEXT = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/

const RULE =
  "must be a length of time above 0 in whole microseconds: milliseconds or a text like '500ms', '10s', '1m', '1h', '1d', '1w'"

/** A length of time as milliseconds, exact to the microsecond. */
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

/** A whole number below this may have been meant as seconds. */
const SHORT_MS = 1_000

/** Those so far of this process. */
const warnings = new Warnings()

let isQuiet = false

/** {@link millisOf} for a length of time that a user says: warns once of an option whose bare number is so short. */
export function spanOf(code: TollgateErrorCode, option: string, value: unknown): number {
  const millis = millisOf(code, option, value)
  warnOfShort(option, value)
  return millis
}

/**
 * Warns of a bare whole number of milliseconds that may have been meant as seconds, once for each option of each function.
 *
 * @param option - With its function: `gcra: period`.
 */
export function warnOfShort(option: string, value: unknown): void {
  if (!isQuiet && typeof value === 'number' && Number.isInteger(value) && value < SHORT_MS) {
    const fix = `write '${value}s' if seconds are meant, and '${value}ms' if not`
    warnings.once('TOLLGATE_SHORT_DURATION', `${option} is ${value} milliseconds: ${fix}`, option)
  }
}

/** {@link warnOfShort} for the numbers of a policy that a user gives in an object, whatever it is in. */
export function warnOfShorts(where: string, numbers: object): void {
  for (const [name, value] of Object.entries(numbers)) {
    if (typeof value === 'object' && value !== null) {
      warnOfShorts(`${where}${name}.`, value)
    } else if (SPANS.includes(name)) {
      warnOfShort(`${where}${name}`, value)
    }
  }
}

/** The numbers of policies that are lengths of time; a `precision` is short by nature. */
const SPANS: readonly string[] = ['period', 'window', 'every']

/** Warns of nothing meanwhile: what is read is a policy that has been made, whose times are milliseconds. */
export function quietly<T>(run: () => T): T {
  const before = isQuiet
  isQuiet = true
  try {
    return run()
  } finally {
    isQuiet = before
  }
}

/** A length of time as people write it, and the unit that they mean. */
const WORDS: readonly (readonly [word: RegExp, unit: DurationUnit])[] = [
  [/^(?:ms|msecs?|millis|milliseconds?)$/, 'ms'],
  [/^(?:|s|secs?|seconds?)$/, 's'],
  [/^(?:m|mins?|minutes?)$/, 'm'],
  [/^(?:h|hrs?|hours?)$/, 'h'],
  [/^(?:d|days?)$/, 'd'],
  [/^(?:w|weeks?)$/, 'w'],
]

/** The text that was probably meant by another one: `'10s'` by `'10 seconds'`. */
function adviceOn(value: unknown): string | undefined {
  const [, number = '', word] = typeof value === 'string' ? (/^(\d+(?:\.\d+)?)? ?([a-z]*)$/.exec(value) ?? []) : []
  const unit = word === undefined ? undefined : WORDS.find(([pattern]) => pattern.test(word))?.[1]
  return unit === undefined || value === '' || (Number(number) === 0 && number !== '')
    ? undefined
    : `did you mean '${number || 1}${unit}'?`
}

/** Whole microseconds. */
export function microsOf(millis: number): number {
  return Math.round(millis * 1_000)
}

function millisOfText(text: string): number | undefined {
  const [, number, unit] = TEXT.exec(text) ?? []
  return unit === undefined ? undefined : Number(number) * MILLIS[unit as DurationUnit]
}
