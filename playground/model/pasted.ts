/** Traffic from a text: a line for each call. */
import { type Call, inOrder, MOST_CALLS, START_MS, type Traffic, TrafficError } from './trace.js'
import { refused } from './typed.js'

/** Numbers from here on are Unix time in seconds: the year 1973. Smaller ones are seconds from the beginning. */
const EPOCH_SECONDS = 1e8

/** Numbers from here on are Unix time in milliseconds. */
const EPOCH_MILLIS = 1e11

/** The time of a line: by the clock, or from the beginning. */
interface Moment {
  readonly millis: number
  readonly isAbsolute: boolean
}

interface Line extends Moment {
  readonly key: string
  readonly cost: number
}

/**
 * Reads lines such as `0.25`, `1767571200 ann`, `2026-01-05T00:00:00Z bob 5`.
 *
 * They may be in any order. Empty lines, and those that begin with `#`, are passed over.
 */
export function callsFromText(text: string): Traffic {
  const texts = text.split(/\r?\n/)
  const lines = texts.flatMap((line, index) => (/^\s*(#|$)/.test(line) ? [] : [lineOf(line.trim(), index + 1)]))
  if (lines.length === 0) {
    throw new TrafficError('times must have a line for each call, got none')
  }
  if (lines.length > MOST_CALLS) {
    const [most, got] = [MOST_CALLS, lines.length].map((count) => count.toLocaleString('en'))
    throw new TrafficError(`times must be at most ${most}, got ${got}`)
  }
  const isAbsolute = (lines[0] as Line).isAbsolute
  const other = lines.findIndex((line) => line.isAbsolute !== isAbsolute)
  if (other >= 0) {
    throw new TrafficError('times must all be by the clock, or all be seconds from the beginning')
  }
  const startMs = isAbsolute ? Math.floor(lines.reduce((least, { millis }) => Math.min(least, millis), Infinity)) : 0
  const calls = lines.map(({ millis, key, cost }): Call => ({ at: Math.round((millis - startMs) * 1_000), key, cost }))
  const ordered = inOrder(calls)
  const last = ordered.at(-1)?.at ?? 0
  // What becomes of the level after the last call is of interest, too.
  return { calls: ordered, startMs: isAbsolute ? startMs : START_MS, lengthUs: Math.max(1e6, Math.ceil(last * 1.1)) }
}

function lineOf(line: string, number: number): Line {
  const [time = '', key = 'client-1', cost = '1', ...rest] = line.split(/[\s,;]+/)
  const where = `times: line ${number}`
  if (rest.length > 0) {
    throw refused(where, 'must be a time, a key and a cost', line)
  }
  if (!/^\d{1,9}$/.test(cost) || Number(cost) < 1) {
    throw refused(where, 'must have a cost from 1, a whole number', cost)
  }
  return { ...momentOf(time, where), key, cost: Number(cost) }
}

function momentOf(time: string, where: string): Moment {
  if (/^\d{1,16}(\.\d+)?$/.test(time)) {
    const number = Number(time)
    const isAbsolute = number >= EPOCH_SECONDS
    const millis = number >= EPOCH_MILLIS ? number : number * 1_000
    return within(millis, isAbsolute, time, where)
  }
  // Without a zone it would be that of whoever opens the link.
  const hasZone = /(Z|[+-]\d\d:?\d\d)$/i.test(time)
  const isDate = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?/.test(time)
  const millis = isDate ? Date.parse(hasZone || !time.includes('T') ? time : `${time}Z`) : Number.NaN
  return within(millis, true, time, where)
}

function within(millis: number, isAbsolute: boolean, time: string, where: string): Moment {
  // The engine's clock begins in 1970, and its years have four digits.
  if (millis >= 0 && millis < Date.UTC(10_000, 0)) {
    return { millis, isAbsolute }
  }
  throw refused(where, 'must begin with seconds, Unix time or a time as ISO 8601 has it', time)
}
