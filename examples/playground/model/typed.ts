/** Parses the numbers of traffic. The messages have the form of the engine's own. */
import type { FieldValues } from './fields.js'
import { TrafficError, type UnitsByMeter } from './trace.js'

const UNITS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 }

const MAX_DAYS = 400

/** An error for a broken rule. It starts with the name of the field. */
export function ruleError(path: string, rule: string, text: string): TrafficError {
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text
  return new TrafficError(`${path} ${rule}, got ${JSON.stringify(shown)}`)
}

/** A number above 0; 0 itself is allowed if `least` is 0. */
export function positive(path: string, values: FieldValues, least?: 0): number {
  const text = values[path] ?? ''
  const number = asNumber(text)
  if (number !== undefined && (number > 0 || number === least)) {
    return number
  }
  throw ruleError(path, least === 0 ? 'must be a number from 0' : 'must be a number above 0', text)
}

/** A whole number. */
export function wholeFrom(path: string, values: FieldValues, least = 1, most = 1_000_000): number {
  const text = values[path] ?? ''
  const number = asNumber(text)
  if (number !== undefined && Number.isSafeInteger(number) && number >= least && number <= most) {
    return number
  }
  throw ruleError(path, `must be a whole number from ${least} to ${most.toLocaleString('en')}`, text)
}

/** Units of meters, as in `tokens=500 cents=3`. */
export function unitsFrom(where: string, text: string): UnitsByMeter {
  const words = text.split(/[\s,;]+/).filter((word) => word !== '')
  const entries = words.map((word) => {
    const [, meter, units] = /^([A-Za-z][\w.-]{0,31})=(\d{1,9})$/.exec(word) ?? []
    if (meter === undefined) {
      throw ruleError(where, 'must be meters with whole numbers, such as tokens=500', word)
    }
    return [meter, Number(units)] as const
  })
  return Object.fromEntries(entries)
}

/**
 * A duration in whole microseconds, in the format of policies. A bare number is in milliseconds.
 */
export function microsOf(path: string, values: FieldValues): number {
  const text = values[path] ?? ''
  const [, number, unit = 'ms'] = /^\s*(\d+(?:\.\d+)?)(ms|s|m|h|d|w)?\s*$/.exec(text) ?? []
  const seconds = Number(number) * (UNITS[unit] as number)
  if (number !== undefined && seconds >= 0.001 && seconds <= MAX_DAYS * 86_400) {
    return Math.round(seconds * 1e6)
  }
  throw ruleError(path, `must be a duration from '1ms' to '${MAX_DAYS}d'`, text)
}

function asNumber(text: string): number | undefined {
  return /^\s*\d{1,12}(\.\d{1,9})?\s*$/.test(text) ? Number(text) : undefined
}
