/** Laps: contenders within this process, timed with tinybench. */
import { Bench } from 'tinybench'

/**
 * @typedef {object} LapContender
 * @property {string} name
 * @property {() => number | Promise<number>} lap Makes `calls` calls. Returns the number of allowed
 *   calls.
 * @property {number} calls
 * @property {boolean} awaited Whether `lap` is an async function.
 * @property {() => unknown} [close]
 */

/** The unmeasured start of a turn, because other contenders have used the processor's caches. */
const LEAD_IN_MS = 10

/**
 * The turn of one contender. Returns nanoseconds per call.
 *
 * @param {LapContender} contender
 * @param {number} millis
 */
export async function timeLaps({ name, lap, calls, awaited }, millis) {
  const bench = new Bench({ time: millis, iterations: 3, warmupTime: LEAD_IN_MS, warmupIterations: 1, throws: true })
  const check = (allowed) => {
    if (allowed !== calls) throw new Error(`${name}: ${calls - allowed} of ${calls} calls were not allowed`)
  }
  // A whole lap is one sample, because reading the time around each call would cost as much as the
  // call.
  bench.add(name, awaited ? async () => check(await lap()) : () => check(lap()), { async: awaited })
  const [task] = await bench.run()
  // The mean, not the median: a contender's cost includes its garbage collection.
  return (task.result.latency.mean / calls) * 1e6
}
