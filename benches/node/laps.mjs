/** Laps: contenders that answer without leaving the process, timed with tinybench. */
import { Bench } from 'tinybench'

/**
 * @typedef {object} LapContender
 * @property {string} name
 * @property {() => number | Promise<number>} lap Makes `calls` calls; answers how many were allowed.
 * @property {number} calls
 * @property {boolean} awaited Whether `lap` is an async function.
 * @property {() => unknown} [close]
 */

/** The unmeasured start of a turn: the others have used the processor's caches since the last. */
const LEAD_IN_MS = 10

/**
 * One contender's turn: nanoseconds per call.
 *
 * @param {LapContender} contender
 * @param {number} millis
 */
export async function timeLaps({ name, lap, calls, awaited }, millis) {
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
