import type { TollgateErrorCode } from '../api/error.js'
import { Warnings } from '../platform/warning.js'
import { invalid } from './options.js'

/**
 * A duration: a number of milliseconds (fractions down to a microsecond), or a string with a unit:
 * `'500ms'`, `'10s'`, `'1.5m'`, `'1h'`, `'1d'`, `'1w'`. A day is 24 hours.
 *
 * A bare whole number below 1,000 may have been meant as seconds. The process emits the warning
 * `TOLLGATE_SHORT_DURATION` for it, once for each option. With a unit, as in `'60ms'`, there is no
 * warning.
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
  "must be a duration above 0 in whole microseconds: milliseconds or a string such as '500ms', '10s', '1m', '1h', '1d', '1w'"

/** Converts a duration to milliseconds, exact to the microsecond. */
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

/** A bare whole number below this may have been meant as seconds. */
const SHORT_MS = 1_000

/** The warnings of this process. */
const warnings = new Warnings()

let areWarningsOff = false

/** {@link millisOf} for an option of the user: warns once if a bare number is short. */
export function millisOfOption(code: TollgateErrorCode, option: string, value: unknown): number {
  const millis = millisOf(code, option, value)
  warnIfShort(option, value)
  return millis
}

/**
 * Warns of a bare whole number of milliseconds that may have been meant as seconds. Each option of
 * each function warns once.
 *
 * @param option - The option with its function: `gcra: period`.
 */
export function warnIfShort(option: string, value: unknown): void {
  if (!areWarningsOff && typeof value === 'number' && Number.isInteger(value) && value < SHORT_MS) {
    const fix = `write '${value}s' if seconds are meant, and '${value}ms' if not`
    warnings.once('TOLLGATE_SHORT_DURATION', `${option} is ${value} milliseconds: ${fix}`, option)
  }
}

/** {@link warnIfShort} for all durations in an object of policy numbers, at any depth. */
export function warnIfAnyShort(where: string, numbers: object): void {
  for (const [name, value] of Object.entries(numbers)) {
    if (typeof value === 'object' && value !== null) {
      warnIfAnyShort(`${where}${name}.`, value)
    } else if (DURATION_OPTIONS.includes(name)) {
      warnIfShort(`${where}${name}`, value)
    }
  }
}

/** The policy options that are durations. `precision` is absent, because a short one is usual. */
const DURATION_OPTIONS: readonly string[] = ['period', 'window', 'every']

/**
 * Suppresses warnings during `run`, for policies that exist already: their durations are in
 * milliseconds.
 */
export function withoutWarnings<T>(run: () => T): T {
  const before = areWarningsOff
  areWarningsOff = true
  try {
    return run()
  } finally {
    areWarningsOff = before
  }
}

/** Spellings of the units, for advice. */
const UNIT_PATTERNS: readonly (readonly [word: RegExp, unit: DurationUnit])[] = [
  [/^(?:ms|msecs?|millis|milliseconds?)$/, 'ms'],
  [/^(?:|s|secs?|seconds?)$/, 's'],
  [/^(?:m|mins?|minutes?)$/, 'm'],
  [/^(?:h|hrs?|hours?)$/, 'h'],
  [/^(?:d|days?)$/, 'd'],
  [/^(?:w|weeks?)$/, 'w'],
]

/** The duration string that was probably meant: `'10s'` for `'10 seconds'`. */
function adviceOn(value: unknown): string | undefined {
  const [, number = '', word] = typeof value === 'string' ? (/^(\d+(?:\.\d+)?)? ?([a-z]*)$/.exec(value) ?? []) : []
  const unit = word === undefined ? undefined : UNIT_PATTERNS.find(([pattern]) => pattern.test(word))?.[1]
  return unit === undefined || value === '' || (Number(number) === 0 && number !== '')
    ? undefined
    : `did you mean '${number || 1}${unit}'?`
}

/** Converts milliseconds to whole microseconds. */
export function microsOf(millis: number): number {
  return Math.round(millis * 1_000)
}

function millisOfText(text: string): number | undefined {
  const [, number, unit] = TEXT.exec(text) ?? []
  return unit === undefined ? undefined : Number(number) * MILLIS[unit as DurationUnit]
}
