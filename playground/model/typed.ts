/** Numbers that shape traffic, read from what was typed. The messages are in the words of the engine's own. */
import type { Values } from './fields.js'
import { TrafficError } from './trace.js'

const UNITS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 }

const LONGEST_DAYS = 400

/** The error for what breaks a rule; it begins with the name of its field. */
export function refused(path: string, rule: string, text: string): TrafficError {
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text
  return new TrafficError(`${path} ${rule}, got ${JSON.stringify(shown)}`)
}

/** A number, above `least` or equal to it if that is 0 and given. */
export function positive(path: string, values: Values, least?: 0): number {
  const text = values[path] ?? ''
  const number = asNumber(text)
  if (number !== undefined && (number > 0 || number === least)) {
    return number
  }
  throw refused(path, least === 0 ? 'must be a number from 0' : 'must be a number above 0', text)
}

/** A whole number. */
export function wholeFrom(path: string, values: Values, least = 1, most = 1_000_000): number {
  const text = values[path] ?? ''
  const number = asNumber(text)
  if (number !== undefined && Number.isSafeInteger(number) && number >= least && number <= most) {
    return number
  }
  throw refused(path, `must be a whole number from ${least} to ${most.toLocaleString('en')}`, text)
}

/** A length of time, as policies take it, in whole microseconds; a number alone is milliseconds there and here. */
export function microsOf(path: string, values: Values): number {
  const text = values[path] ?? ''
  const [, number, unit = 'ms'] = /^\s*(\d+(?:\.\d+)?)(ms|s|m|h|d|w)?\s*$/.exec(text) ?? []
  const seconds = Number(number) * (UNITS[unit] as number)
  if (number !== undefined && seconds >= 0.001 && seconds <= LONGEST_DAYS * 86_400) {
    return Math.round(seconds * 1e6)
  }
  throw refused(path, `must be a length of time from '1ms' to '${LONGEST_DAYS}d'`, text)
}

function asNumber(text: string): number | undefined {
  return /^\s*\d{1,12}(\.\d{1,9})?\s*$/.test(text) ? Number(text) : undefined
}
