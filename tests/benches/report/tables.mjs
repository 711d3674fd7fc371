/** The tables of docs/performance.md and docs/performance-figures.md, by the name of their marker. */

import { median } from '../node/report.mjs'
import { losses, missedTargets, targets } from './judgement.mjs'
import { PARTS } from './record.mjs'
import { summary } from './summary.mjs'
import { FIGURES, list, number, ratio, speed, table } from './text.mjs'

/** The tables of each part. */
const OF_PARTS = {
  embedded: ({ groups }) => Object.entries(groups).map(([name, results]) => lapTable(name, results)),
  workers: ({ results }) => [workersTable(results)],
  memory: memoryTables,
  wasm: ({ sizes, groups }) => [
    sizesTable(sizes),
    ...Object.entries(groups).map(([name, results]) => lapTable(name, results)),
  ],
  startup: ({ results }) => [startupTable(results)],
  redis: ({ scenes }) => scenes.map(sceneTable),
  ceiling: ({ scenes }) => scenes.map(ceilingTable),
  algorithms: ({ scenes }) => scenes.map(algorithmTable),
  middleware: ({ results }) => [requestTable(results)],
  simulate: ({ scenes }) => [logsTable(scenes)],
  'scale-cluster': ({ results }) => [clusterTable(results)],
}

/**
 * @param {import('./record.mjs').Record_} record
 * @returns {Map<string, string | undefined>} `undefined` where the part has not been measured.
 */
export function tables({ parts }) {
  const made = new Map(PARTS.map((name) => [name, parts[name] && sectionOf(name, parts[name])]))
  const some = Object.keys(parts).length > 0
  made.set('summary', some ? summary(parts) : undefined)
  made.set('machine', some ? machines(parts) : undefined)
  made.set('targets', some ? targets(parts) : undefined)
  made.set('missed-targets', some ? missedTargets(parts) : undefined)
  made.set('losses', some ? losses(parts) : undefined)
  return made
}

function sectionOf(name, part) {
  const said = (OF_PARTS[name] ?? sweeps)(part)
  return [list(part.conditions ?? []), ...said].filter((text) => text !== '').join('\n\n')
}

/** The machines and dates of the parts. A machine that all parts share is listed once. */
function machines(parts) {
  const all = Object.entries(parts)
  const places = [...new Set(all.map(([, { machine }]) => placeOf(machine)))]
  const versions = Object.assign({}, ...all.map(([, part]) => part.versions))
  const days = [...new Set(all.map(([, { measured }]) => measured.slice(0, 10)))].sort()
  const rough = all.filter(([, part]) => part.speed === 'quick').map(([name]) => `\`${name}\``)
  const rows = all.map(([name, { pace, machine, measured }]) => {
    return [
      `\`${name}\``,
      measured.slice(0, 10),
      `${pace.rounds}`,
      pace.turnMs === undefined ? '' : `${pace.turnMs}`,
      machine.load.toFixed(2),
      ...(places.length > 1 ? [machine.cpu] : []),
    ]
  })
  const heads = ['part', 'measured', 'rounds', 'ms per turn', 'system load before']
  return [
    list([
      ...places,
      Object.entries(versions)
        .map(([name, version]) => `${name === 'node' ? 'Node.js' : name} ${version}`)
        .join(', '),
      days.length === 1 ? `measured on ${days[0]}` : `measured from ${days[0]} to ${days.at(-1)}`,
      ...(rough.length > 0 ? [`**rough figures, of short turns (\`--quick\`):** ${rough.join(', ')}`] : []),
    ]),
    table(places.length > 1 ? [...heads, 'machine'] : heads, rows),
  ].join('\n\n')
}

function placeOf({ cpu, cores, memoryGiB, system }) {
  return `${cpu}, ${cores} cores, ${memoryGiB} GiB, ${system}`
}

function range({ low, high }, text) {
  return low === undefined ? '' : `${text(low)} to ${text(high)}`
}

function lapTable(name, results) {
  const rows = results.map((result) => [
    result.name,
    number(result.nsPerCall),
    range(result, number),
    speed(result.callsPerSecond),
    ratio(result.ratio, result.ratio < 1),
  ])
  return table([name, 'ns per call', 'range', 'calls a second', '× the first row'], rows)
}

function workersTable(results) {
  const rows = results.map((result) => [
    result.name,
    speed(result.callsPerSecond),
    range(result, speed),
    ratio(result.callsPerSecond / results[0].callsPerSecond, false),
  ])
  return table(['one named store', 'calls a second', 'range', '× one worker'], rows)
}

function sizesTable(sizes) {
  const kB = (bytes) => (bytes / 1_000).toFixed(1)
  const rows = sizes.map(({ name, file, bytes, gzipped }) => [`${name} (\`${file}\`)`, kB(bytes), kB(gzipped)])
  return table(['download', 'kB', 'gzipped'], rows)
}

function startupTable(results) {
  const rows = results.map((result) => [
    result.name,
    number(result.loadMs),
    range(result, number),
    number(result.processMs),
    `${result.files}`,
    number(result.bytes / 1_000),
  ])
  return table(['packages', 'load ms', 'range', 'process ms', 'files', 'kB'], rows)
}

/** For each log, the medians of the turns. */
function logsTable(scenes) {
  const rows = scenes.map(({ name, lines, turns }) => {
    const [seconds, cpu, memory] = ['seconds', 'cpu', 'memory'].map((figure) =>
      median(turns.map((turn) => turn[figure])),
    )
    return [name, `${(lines / 1e6).toFixed(1)}M`, number(seconds), number(cpu), speed(lines / cpu), number(memory)]
  })
  return table(['log', 'lines', 'seconds', 'CPU seconds', 'lines per CPU second', 'peak memory, MiB'], rows)
}

function sceneTable({ title, peer, results }) {
  const has = (figure) => results.some((result) => result[figure] !== undefined)
  const extras = [
    ['p50Micros', 'p50 µs'],
    ['p99Micros', 'p99 µs'],
    ['timerP99Ms', 'timer delay, p99 ms'],
  ].filter(([figure]) => has(figure))
  const rows = results.map((result) => [
    result.name,
    speed(result.callsPerSecond),
    range(result, speed),
    ratio(result.ratioToPeer, isOurs(result) && result.ratioToPeer < 1),
    ratio(result.ratioToBest, isOurs(result) && result.ratioToBest < 1),
    number(result.cpuMicros),
    number(result.redisMicros),
    number(result.callsPerScript),
    ...extras.map(([figure]) => number(result[figure])),
  ])
  const head = ['calls a second', 'range', `× ${peer}`, '× the best other', 'CPU µs', 'Redis µs', 'calls per script']
  return table([title, ...head, ...extras.map(([, name]) => name)], rows)
}

function isOurs({ name }) {
  return name.startsWith('tollgate')
}

function ceilingTable({ title, results }) {
  const rows = results.map((result) => [
    result.name,
    speed(result.callsPerSecond),
    range(result, speed),
    ratio(result.ratio, false),
    number(result.redisMicros),
    number(result.callsPerScript),
  ])
  return table([title, 'decisions a second', 'range', '× redis-benchmark', 'Redis µs', 'calls per script'], rows)
}

function algorithmTable({ title, results }) {
  const rows = results.map((result) => [
    result.name,
    number(result.redisMicros),
    ratio(result.ratioToIncr, false),
    speed(result.callsPerSecond),
    number(result.cpuMicros),
    number(result.callsPerScript),
  ])
  return table([title, 'Redis µs', '× INCR', 'decisions a second', 'CPU µs', 'calls per script'], rows)
}

function clusterTable(results) {
  const rows = results.map((result) => [
    result.name,
    speed(result.callsPerSecond),
    range(result, speed),
    number(result.cpuMicros),
    number(result.redisMicros),
    ratio(result.redisToSingle, false),
    number(result.callsPerScript),
  ])
  const head = [
    'calls a second',
    'range',
    'CPU µs',
    'Redis µs, all servers',
    '× one EVALSHA per key',
    'calls per script',
  ]
  return table(['512 in flight', ...head], rows)
}

function requestTable(results) {
  const rows = results.map((result) => [
    result.name,
    number(result.requestsPerSecond),
    range(result, number),
    ratio(result.ratioToNone, false),
    number(result.p50Millis),
    number(result.p99Millis),
    number(result.serverMicros),
  ])
  return table(
    ['middleware', 'requests a second', 'range', '× no limiter', 'p50 ms', 'p99 ms', "server's CPU µs"],
    rows,
  )
}

/** A table for each figure of each sweep, with a row for each point. */
function sweeps(part) {
  return part.sweeps.flatMap(({ axis, series }) => {
    const xs = [...new Set(series.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b)
    const figures = Object.keys(series[0].points[0]).filter((figure) => figure in FIGURES)
    return figures.map((figure) => {
      const { name, text } = FIGURES[figure]
      const rows = xs.map((x) => {
        const cells = series.map(({ points }) => points.find((point) => point.x === x)?.[figure])
        return [x.toLocaleString('en'), ...cells.map((value) => (value === undefined ? '' : text(value)))]
      })
      return table([`${axis}: ${name}`, ...series.map((one) => one.name)], rows)
    })
  })
}

function memoryTables({ results, ...others }) {
  const rows = results.map(({ name, inRedis, embedded }) => [name, ...[...inRedis, ...embedded].map(number)])
  const head = ['in Redis, 1 call', '100 calls', 'embedded, 1 call', '100 calls']
  return [table(['bytes per key', ...head], rows), ...generic(others)]
}

/** A table of numbers for each other list of results in a part. */
function generic(part) {
  return Object.entries(part)
    .filter(([name, value]) => name !== 'targets' && Array.isArray(value) && value.every((each) => each?.name))
    .map(([, value]) => value)
    .map((results) => {
      const flat = results.map((result) => new Map(numbersOf(result)))
      const columns = [...new Set(flat.flatMap((each) => [...each.keys()]))]
      const cell = (value) => (value === undefined ? '' : number(value))
      const rows = results.map(({ name }, index) => [name, ...columns.map((column) => cell(flat[index].get(column)))])
      return table(['', ...columns], rows)
    })
}

function numbersOf(result) {
  return Object.entries(result).flatMap(([name, value]) => {
    if (typeof value === 'number') return [[name, value]]
    return Array.isArray(value) ? value.map((each, index) => [`${name} ${index + 1}`, each]) : []
  })
}
