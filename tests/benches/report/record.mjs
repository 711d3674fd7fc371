/** The record of what was measured: `docs/performance.json`, from which page and plots are made. */
import { readFileSync } from 'node:fs'

/**
 * The last measurement of a part: its results, with the time and the machine.
 *
 * @typedef {Record<string, unknown> & {
 *   measured: string, speed: 'full' | 'quick',
 *   machine: { cpu: string, cores: number, memoryGiB: number, system: string, load: number },
 *   versions: Record<string, string>
 * }} Part
 *
 * @typedef {{ parts: Record<string, Part> }} Record_
 */

/** The parts of the page, in its order. `npm run bench:report` measures them. */
export const PARTS = [
  'embedded',
  'workers',
  'memory',
  'wasm',
  'startup',
  'redis',
  'ceiling',
  'algorithms',
  'scale-keys',
  'scale-in-flight',
  'scale-policies',
  'scale-limiters',
  'distance',
  'scale-cluster',
  'middleware',
  'simulate',
]

/** Reads a record, or a file written by `npm run bench -- --json FILE`. @returns {Record_} */
export function read(file) {
  const { parts, ...shared } = JSON.parse(readFileSync(file, 'utf8'))
  const known = Object.entries(parts).filter(([name]) => PARTS.includes(name))
  return { parts: Object.fromEntries(known.map(([name, part]) => [name, slim({ ...shared, ...part })])) }
}

/**
 * Merges records. If several contain a part, the last one wins.
 *
 * @param {readonly Record_[]} records
 * @returns {Record_}
 */
export function merged(records) {
  const parts = Object.assign({}, ...records.map((record) => record.parts))
  return { parts: Object.fromEntries(PARTS.filter((name) => name in parts).map((name) => [name, parts[name]])) }
}

/** The text of a record's file: one line per measurement, for readable diffs. */
export function text(record) {
  return `${lines(record, 0)}\n`
}

/** The names of a round's speed. A round that is a number is a time. */
const SPEEDS = ['callsPerSecond', 'requestsPerSecond']

/** Replaces the rounds' own figures by the range of their speed. */
function slim(value) {
  if (Array.isArray(value)) return value.map(slim)
  if (value === null || typeof value !== 'object') return value
  const { rounds, ...rest } = value
  const others = Object.fromEntries(Object.entries(rest).map(([name, each]) => [name, slim(each)]))
  if (!Array.isArray(rounds)) return rounds === undefined ? others : { rounds, ...others }
  const speeds = rounds.map((round) =>
    typeof round === 'number' ? round : round[SPEEDS.find((name) => name in round)],
  )
  return { ...others, low: Math.min(...speeds), high: Math.max(...speeds) }
}

function lines(value, depth) {
  const isNested = value !== null && typeof value === 'object' && Object.values(value).some(isObject)
  if (!isNested) return JSON.stringify(value)
  const [margin, end] = ['  '.repeat(depth + 1), '  '.repeat(depth)]
  const entries = Object.entries(value).map(([name, each]) => {
    return `${margin}${Array.isArray(value) ? '' : `${JSON.stringify(name)}: `}${lines(each, depth + 1)}`
  })
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  return `${open}\n${entries.join(',\n')}\n${end}${close}`
}

function isObject(value) {
  return value !== null && typeof value === 'object'
}
