/** Parses traffic from a text with one line for each call. */
import { inOrder, MAX_CALLS, START_MS, type TraceCall, type Traffic, TrafficError, type UnitsByMeter } from './trace.js'
import { ruleError, unitsFrom } from './typed.js'

/**
 * Larger numbers are Unix time in seconds (from the year 1973). Smaller ones are seconds from the
 * start.
 */
const EPOCH_SECONDS = 1e8

/** Larger numbers are Unix time in milliseconds. */
const EPOCH_MILLIS = 1e11

/** The time of a line: Unix time, or relative to the start. */
interface ParsedTime {
  readonly millis: number
  readonly isAbsolute: boolean
}

interface TrafficLine extends ParsedTime {
  readonly key: string
  readonly cost: number
  readonly units: UnitsByMeter
}

/**
 * Reads lines such as `0.25`, `1767571200 ann`, `2026-01-05T00:00:00Z bob 5 tokens=700`.
 *
 * The lines may be in any order. Empty lines, and lines that start with `#`, are skipped.
 */
export function callsFromText(text: string): Traffic {
  const texts = text.split(/\r?\n/)
  const lines = texts.flatMap((line, index) => (/^\s*(#|$)/.test(line) ? [] : [parseLine(line.trim(), index + 1)]))
  if (lines.length === 0) {
    throw new TrafficError('times must have a line for each call, got none')
  }
  if (lines.length > MAX_CALLS) {
    const [most, got] = [MAX_CALLS, lines.length].map((count) => count.toLocaleString('en'))
    throw new TrafficError(`times must be at most ${most}, got ${got}`)
  }
  const isAbsolute = (lines[0] as TrafficLine).isAbsolute
  const other = lines.findIndex((line) => line.isAbsolute !== isAbsolute)
  if (other >= 0) {
    throw new TrafficError('times must all be absolute, or all be seconds from the start')
  }
  const startMs = isAbsolute ? Math.floor(lines.reduce((least, { millis }) => Math.min(least, millis), Infinity)) : 0
  const calls = lines.map(
    ({ millis, key, cost, units }): TraceCall => ({ at: Math.round((millis - startMs) * 1_000), key, cost, units }),
  )
  const ordered = inOrder(calls)
  const last = ordered.at(-1)?.at ?? 0
  // The plots also show the level after the last call.
  return { calls: ordered, startMs: isAbsolute ? startMs : START_MS, lengthUs: Math.max(1e6, Math.ceil(last * 1.1)) }
}

/** Lines of the common log formats: JSON, or a request in quotes. */
const LOG_LINE = /^\{|\[\d{2}\/[A-Z][a-z]{2}\/\d{4}:|"[A-Z]+ \S+ HTTP\//

function parseLine(line: string, number: number): TrafficLine {
  if (LOG_LINE.test(line)) {
    throw new TrafficError(
      `times: line ${number} is a line of an access log. This page takes times; to replay the whole log, run: npx tollgate-cli simulate access.log --suggest 1%`,
    )
  }
  const words = line.split(/[\s,;]+/)
  const metered = words.filter((word) => word.includes('='))
  const [time = '', key = 'client-1', cost = '1', ...rest] = words.filter((word) => !word.includes('='))
  const where = `times: line ${number}`
  if (rest.length > 0) {
    throw ruleError(where, 'must be a time, a key, a cost and units of meters', line)
  }
  if (!/^\d{1,9}$/.test(cost) || Number(cost) < 1) {
    throw ruleError(where, 'must have a cost from 1, a whole number', cost)
  }
  return { ...parseTime(time, where), key, cost: Number(cost), units: unitsFrom(where, metered.join(' ')) }
}

function parseTime(time: string, where: string): ParsedTime {
  if (/^\d{1,16}(\.\d+)?$/.test(time)) {
    const number = Number(time)
    const isAbsolute = number >= EPOCH_SECONDS
    const millis = number >= EPOCH_MILLIS ? number : number * 1_000
    return checkedTime(millis, isAbsolute, time, where)
  }
  // A time without a zone is UTC, so that a link shows the same in every zone.
  const hasZone = /(Z|[+-]\d\d:?\d\d)$/i.test(time)
  const isDate = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?/.test(time)
  const millis = isDate ? Date.parse(hasZone || !time.includes('T') ? time : `${time}Z`) : Number.NaN
  return checkedTime(millis, true, time, where)
}

function checkedTime(millis: number, isAbsolute: boolean, time: string, where: string): ParsedTime {
  // The engine's clock starts in 1970, and its years have four digits.
  if (millis >= 0 && millis < Date.UTC(10_000, 0)) {
    return { millis, isAbsolute }
  }
  throw ruleError(where, 'must start with seconds, Unix time or an ISO 8601 time', time)
}
