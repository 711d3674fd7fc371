/** The record of what was measured: `docs/performance.json`, from which page and plots are made. */
import { readFileSync } from 'node:fs'

/**
 * A part as it was measured last: what the part itself answered, and when and where that was.
 *
 * @typedef {Record<string, unknown> & {
 *   measured: string, speed: 'full' | 'quick',
 *   machine: { cpu: string, cores: number, memoryGiB: number, system: string, load: number },
 *   versions: Record<string, string>
 * }} Part
 *
 * @typedef {{ parts: Record<string, Part> }} Record_
 */

/** The parts that the page is about, in its order: `npm run bench:report` measures them. */
export const PARTS = [
  'embedded',
  'workers',
  'memory',
  'wasm',
  'redis',
  'ceiling',
  'algorithms',
  'scale-keys',
  'scale-in-flight',
  'scale-policies',
  'scale-limiters',
  'scale-latency',
  'scale-cluster',
  'middleware',
  'simulate',
]

/** Reads a record, or what `npm run bench -- --json FILE` has written. @returns {Record_} */
export function read(file) {
  const { parts, ...shared } = JSON.parse(readFileSync(file, 'utf8'))
  const known = Object.entries(parts).filter(([name]) => PARTS.includes(name))
  return { parts: Object.fromEntries(known.map(([name, part]) => [name, slim({ ...shared, ...part })])) }
}

/** Puts records together: of a part, the last one counts. @param {readonly Record_[]} records @returns {Record_} */
export function merged(records) {
  const parts = Object.assign({}, ...records.map((record) => record.parts))
  return { parts: Object.fromEntries(PARTS.filter((name) => name in parts).map((name) => [name, parts[name]])) }
}

/** A record as a file: one line for each thing that was measured, so that changes can be read. */
export function text(record) {
  return `${lines(record, 0)}\n`
}

/** What a round's speed is called. A round that is a number is a time. */
const SPEEDS = ['callsPerSecond', 'requestsPerSecond']

/** Leaves the rounds' own figures out, but for the range of the speed. */
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
