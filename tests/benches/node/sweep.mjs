/** Sweeps: the same contenders at several values of one quantity, the axis. */
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
 * @property {readonly string[]} keys In the order of the calls.
 * @property {readonly string[]} [visits] The keys to visit before the first round. Default: `keys`.
 * @property {number} inFlight
 *
 * @typedef {object} Point The measurement at a point: medians of the rounds, and the range of the
 *   first figure.
 * @property {number} x
 * @property {number} low
 * @property {number} high
 *
 * @typedef {object} Sweep
 * @property {string} axis The growing quantity.
 * @property {{ name: string, points: Point[] }[]} series
 */

/** Calls in flight during the unmeasured visit of the keys before the first round. */
const VISITORS = 512

/**
 * The unmeasured start of a turn: other contenders have used the processor's caches, and the
 * garbage collection has dropped some of V8's compiled code.
 */
const LEAD_IN_MS = 100

/** The pause after that visit. */
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

/** Joins the points of several sweeps by series. */
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

/** Names and formats of the figures of sweeps. */
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

/**
 * Prints a table for each figure, with a row for each point and a column for each series.
 *
 * @param {Sweep} sweep
 */
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

/** The keys of all parts. */
export function numbered(count) {
  return Array.from({ length: count }, (_, number) => `user:${number}`)
}
