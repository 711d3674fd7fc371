/**
 * Interleaved rounds: every contender takes a short turn in each round, in a rotated order. A
 * machine that slows down for a second slows all of them, and the median forgets that round.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Bench } from 'tinybench'

/**
 * @typedef {object} Contender
 * @property {string} name
 * @property {() => number | Promise<number>} lap Makes `calls` calls; answers how many were allowed.
 * @property {number} calls
 * @property {boolean} awaited Whether `lap` is an async function.
 * @property {() => unknown} [close]
 */

/**
 * @typedef {object} Pace
 * @property {number} rounds
 * @property {number} turnMs How long a contender is measured in each round.
 * @property {number} warmUpMs How long each contender runs before the first round.
 */

/** The unmeasured start of a turn: the others have used the processor's caches since the last. */
const LEAD_IN_MS = 10

/**
 * Nanoseconds per call, by contender and round.
 *
 * @param {Contender[]} contenders
 * @param {Pace} pace
 * @returns {Promise<Map<string, number[]>>}
 */
export async function interleave(contenders, { rounds, turnMs, warmUpMs }) {
  const times = new Map(contenders.map(({ name }) => [name, []]))
  for (const contender of contenders) {
    await turn(contender, warmUpMs)
  }
  for (let round = 0; round < rounds; round++) {
    for (const contender of rotated(contenders, round)) {
      times.get(contender.name).push(await turn(contender, turnMs))
    }
  }
  return times
}

/** One contender's turn: nanoseconds per call. */
async function turn({ name, lap, calls, awaited }, millis) {
  // Nobody pays for the garbage of the contender before.
  collectGarbage()
  const bench = new Bench({ time: millis, iterations: 3, warmupTime: LEAD_IN_MS, warmupIterations: 1, throws: true })
  const check = (allowed) => {
    if (allowed !== calls) throw new Error(`${name}: ${calls - allowed} of ${calls} calls were not allowed`)
  }
  // A whole lap is one sample: reading the time around single calls would cost as much as they do.
  bench.add(name, awaited ? async () => check(await lap()) : () => check(lap()), { async: awaited })
  const [task] = await bench.run()
  // The mean, not the median: collecting its garbage is part of what a contender costs.
  return (task.result.latency.mean / calls) * 1e6
}

function rotated(list, by) {
  const start = by % list.length
  return [...list.slice(start), ...list.slice(0, start)]
}

/** A full collection, without asking the user for a flag on the command line. */
const collectGarbage = (() => {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
})()
