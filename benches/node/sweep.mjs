/** Sweeps: the same contenders while one thing grows, which is the axis. */
import { setTimeout as sleep } from 'node:timers/promises'
import { load, visitAll } from './load.mjs'
import { median, printColumns } from './report.mjs'
import { interleave } from './rounds.mjs'

/**
 * @typedef {object} Place One contender at one point of the axis.
 * @property {string} series
 * @property {number} x
 *
 * @typedef {object} RedisPlace
 * @property {string} series
 * @property {number} x
 * @property {import('./redis-contenders.mjs').Opened} opened
 * @property {readonly string[]} keys In the order in which calls name them.
 * @property {readonly string[]} [visits] The keys that are visited before: by default these.
 * @property {number} inFlight
 *
 * @typedef {object} Point What was measured at a point: medians of the rounds, and the range of the first of them.
 * @property {number} x
 * @property {number} low
 * @property {number} high
 *
 * @typedef {object} Sweep
 * @property {string} axis What grows.
 * @property {{ name: string, points: Point[] }[]} series
 */

/** So many calls are under way while keys are visited, unmeasured, before the first round. */
const VISITORS = 512

/**
 * The unmeasured start of a turn: the others have used the processor's caches since the last, and a collection of
 * garbage has made V8 forget some of what it had compiled.
 */
const LEAD_IN_MS = 100

/** After that, so long nothing happens. */
const REST_MS = 100

/**
 * Measures places in interleaved rounds.
 *
 * @template {Place} P
 * @param {readonly P[]} places
 * @param {import('./rounds.mjs').Pace} pace
 * @param {(place: P, millis: number) => Promise<Record<string, number>>} turn
 * @returns {Promise<Sweep['series']>}
 */
export async function sweep(places, pace, turn) {
  const named = places.map((place) => ({ ...place, name: `${place.series} at ${place.x}` }))
  const measured = await interleave(named, pace, turn)
  return joined([...new Set(places.map(({ series }) => series))].map((name) => ({ name, points: pointsOf(name) })))

  function pointsOf(series) {
    return named.filter((place) => place.series === series).map(({ name, x }) => pointOf(x, measured.get(name)))
  }
}

/** Puts the points of several sweeps together, by series. */
export function joined(series) {
  const names = [...new Set(series.map(({ name }) => name))]
  return names.map((name) => ({
    name,
    points: series.filter((one) => one.name === name).flatMap(({ points }) => points),
  }))
}

function pointOf(x, rounds) {
  const figures = Object.keys(rounds[0])
  const first = rounds.map((round) => round[figures[0]])
  const medians = figures.map((figure) => [figure, median(rounds.map((round) => round[figure]))])
  return { x, ...Object.fromEntries(medians), low: Math.min(...first), high: Math.max(...first) }
}

/**
 * Measures contenders over Redis. Keys are visited once, before the first round.
 *
 * @param {readonly RedisPlace[]} places
 * @param {import('./rounds.mjs').Pace} pace
 * @param {{ usage: () => Promise<{ cpuMicros: number, scripts: number }> }} redis
 */
export async function sweepRedis(places, pace, redis) {
  for (const { opened, keys, visits = keys } of places) {
    await visitAll(opened, visits, VISITORS)
  }
  await sleep(REST_MS)
  return sweep(places, pace, async ({ name, opened, keys, inFlight }, millis) => {
    const contender = { name, ...opened }
    await load(contender, { keys, inFlight, millis: LEAD_IN_MS })
    const before = await redis.usage()
    const { calls, callsPerSecond, cpuMicros } = await load(contender, { keys, inFlight, millis })
    const after = await redis.usage()
    return {
      callsPerSecond,
      cpuMicros,
      redisMicros: (after.cpuMicros - before.cpuMicros) / calls,
      callsPerScript: calls / (after.scripts - before.scripts),
    }
  })
}

/** How the figures of sweeps are called, and printed. */
const FIGURES = {
  callsPerSecond: ['calls/s', (value) => `${(value / 1_000).toFixed(1)}k`],
  nsPerCall: ['ns per call', (value) => value.toFixed(0)],
  cpuMicros: ['CPU us per call', (value) => value.toFixed(2)],
  redisMicros: ["Redis's CPU us per call", (value) => value.toFixed(2)],
  callsPerScript: ['calls per script', (value) => value.toFixed(1)],
  p50Ms: ['p50 ms', (value) => value.toFixed(2)],
  p99Ms: ['p99 ms', (value) => value.toFixed(2)],
  rttMs: ['PING ms', (value) => value.toFixed(2)],
}

/** Prints a table for each figure: a line for each point, a column for each series. @param {Sweep} sweep */
export function printSweep({ axis, series }) {
  const xs = [...new Set(series.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b)
  const figures = Object.keys(series[0].points[0]).filter((figure) => figure in FIGURES)
  for (const figure of figures) {
    const [title, text] = FIGURES[figure]
    const cell = (points, x) => {
      const value = points.find((point) => point.x === x)?.[figure]
      return value === undefined ? '' : text(value)
    }
    const rows = xs.map((x) => [String(x), ...series.map(({ points }) => cell(points, x))])
    printColumns([`${axis}: ${title}`, ...series.map(({ name }) => name)], rows)
  }
}

/** @param {{ conditions: string[], sweeps: Sweep[] }} result */
export function printSweeps({ conditions, sweeps }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  for (const each of sweeps) {
    printSweep(each)
  }
}

/** Keys as all parts have them. */
export function numbered(count) {
  return Array.from({ length: count }, (_, number) => `user:${number}`)
}
