/** A load: a number of calls in flight for a time. */

/**
 * @typedef {object} Load The measurement of one turn.
 * @property {number} calls
 * @property {number} callsPerSecond
 * @property {number} cpuMicros This process's CPU per call, all of its threads: user and system.
 * @property {number} [p50Micros] The latency, with one call in flight or with `isTimed`.
 * @property {number} [p99Micros]
 * @property {number} [timerP99Ms] The delay of an unrelated timer, with `watchesTimer`.
 */

/**
 * Keeps `inFlight` calls in flight for a while, and checks that every call is allowed.
 *
 * @param {{ name: string } & import('./redis-contenders.mjs').Opened} contender
 * @param {object} options
 * @param {readonly string[]} options.keys
 * @param {number} options.inFlight
 * @param {number} options.millis
 * @param {boolean} [options.isTimed] Whether to measure each call's latency. Default: with one call
 *   in flight.
 * @param {boolean} [options.watchesTimer] Whether to measure the delay of a timer of a millisecond.
 * @returns {Promise<Load>}
 */
export async function load(contender, { keys, inFlight, millis, isTimed = inFlight === 1, watchesTimer = false }) {
  const { name, calls, isAllowed } = contender
  const latencies = isTimed ? [] : undefined
  let made = 0
  let allowed = 0
  let isOver = false

  async function caller() {
    while (!isOver) {
      const number = made++
      // Read the clock around a call only if that costs little compared with the call.
      const start = latencies === undefined ? 0 : performance.now()
      const result = await calls[number % calls.length](keys[number % keys.length])
      latencies?.push(performance.now() - start)
      if (isAllowed(result)) allowed++
    }
  }

  const watch = watchesTimer ? watchTimer() : undefined
  const cpu = process.cpuUsage()
  const start = performance.now()
  const timer = setTimeout(() => {
    isOver = true
  }, millis)
  try {
    await Promise.all(Array.from({ length: inFlight }, caller))
  } catch (cause) {
    throw new Error(`${name}: a call failed or was refused`, { cause })
  } finally {
    isOver = true
    clearTimeout(timer)
    watch?.stop()
  }
  const seconds = (performance.now() - start) / 1_000
  const { user, system } = process.cpuUsage(cpu)
  if (allowed !== made) throw new Error(`${name}: ${made - allowed} of ${made} calls were not allowed`)
  const cpuMicros = (user + system) / made
  const late = watch === undefined ? {} : { timerP99Ms: percentile(watch.late, 0.99) }
  return { calls: made, callsPerSecond: made / seconds, cpuMicros, ...percentiles(latencies), ...late }
}

/**
 * Makes calls at a constant rate for a while, with any number in flight, and measures their
 * latencies.
 *
 * @param {{ name: string } & import('./redis-contenders.mjs').Opened} contender
 * @param {{ keys: readonly string[], perSecond: number, millis: number }} options
 */
export async function steady({ name, calls, isAllowed }, { keys, perSecond, millis }) {
  const latencies = []
  const pending = []
  const start = performance.now()
  await new Promise((resolve) => {
    const timer = setInterval(() => {
      const elapsed = Math.min(performance.now() - start, millis)
      while (pending.length < (elapsed * perSecond) / 1_000) pending.push(call(pending.length))
      if (elapsed === millis) {
        clearInterval(timer)
        resolve()
      }
    }, 1)
  })
  await Promise.all(pending)
  return { calls: latencies.length, ...percentiles(latencies) }

  async function call(number) {
    const made = performance.now()
    const result = await calls[number % calls.length](keys[number % keys.length])
    latencies.push(performance.now() - made)
    if (!isAllowed(result)) throw new Error(`${name}: a call was not allowed`)
  }
}

/** Measures the delays of a chain of timers of a millisecond each, in milliseconds. */
function watchTimer() {
  const late = []
  let asked = performance.now()
  let timer = setTimeout(next, 1)
  function next() {
    late.push(performance.now() - asked - 1)
    asked = performance.now()
    timer = setTimeout(next, 1)
  }
  return {
    late,
    stop() {
      // A timer that has not run yet is late by at least this much.
      late.push(Math.max(0, performance.now() - asked - 1))
      clearTimeout(timer)
    },
  }
}

/** Makes an unmeasured call for each key, so that all keys exist in Redis. */
export async function visitAll({ calls }, keys, inFlight) {
  let next = 0
  async function caller() {
    while (next < keys.length) {
      const number = next++
      await calls[number % calls.length](keys[number])
    }
  }
  await Promise.all(Array.from({ length: inFlight }, caller))
}

function percentiles(latencies) {
  if (latencies === undefined) return {}
  return { p50Micros: percentile(latencies, 0.5) * 1_000, p99Micros: percentile(latencies, 0.99) * 1_000 }
}

function percentile(numbers, part) {
  numbers.sort((a, b) => a - b)
  return numbers[Math.floor(numbers.length * part)]
}
