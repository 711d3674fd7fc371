import type { TollgateErrorCode } from './error.js'
import { invalid } from './options.js'

/**
 * A length of time: milliseconds as a number (fractions down to a microsecond), or a number with
 * its unit: `'500ms'`, `'10s'`, `'1.5m'`, `'1h'`, `'1d'`, `'1w'`. A day is 24 hours.
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
    throw invalid(code, option, RULE, value)
  }
  const micros = microsOf(millis)
  // Decimals have no exact double: 1.1 ms times 1000 is 1100.0000000000002 µs.
  const rounding = 4 * Number.EPSILON * micros
  if (micros < 1 || Math.abs(micros - millis * 1_000) > rounding) {
    throw invalid(code, option, RULE, value)
  }
  return micros / 1_000
}

/** Whole microseconds. */
export function microsOf(millis: number): number {
  return Math.round(millis * 1_000)
}

function millisOfText(text: string): number | undefined {
  const [, number, unit] = TEXT.exec(text) ?? []
  return unit === undefined ? undefined : Number(number) * MILLIS[unit as DurationUnit]
}
