/** A load: so many calls in flight, for so long. */

/**
 * @typedef {object} Load What was measured in one turn.
 * @property {number} calls
 * @property {number} callsPerSecond
 * @property {number} cpuMicros This process's CPU per call, all of its threads: user and system.
 * @property {number} [p50Micros] The latency, with one call in flight.
 * @property {number} [p99Micros]
 */

/**
 * Keeps `inFlight` calls under way for a while, and checks that every one is allowed.
 *
 * @param {{ name: string } & import('./redis-contenders.mjs').Opened} contender
 * @param {{ keys: readonly string[], inFlight: number, millis: number }} options
 * @returns {Promise<Load>}
 */
export async function load(contender, { keys, inFlight, millis }) {
  const { name, calls, isAllowed } = contender
  const latencies = inFlight === 1 ? [] : undefined
  let made = 0
  let allowed = 0
  let isOver = false

  async function caller() {
    while (!isOver) {
      const number = made++
      // Read around a call only where reading costs nothing beside it.
      const start = latencies === undefined ? 0 : performance.now()
      const result = await calls[number % calls.length](keys[number % keys.length])
      latencies?.push(performance.now() - start)
      if (isAllowed(result)) allowed++
    }
  }

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
  }
  const seconds = (performance.now() - start) / 1_000
  const { user, system } = process.cpuUsage(cpu)
  if (allowed !== made) throw new Error(`${name}: ${made - allowed} of ${made} calls were not allowed`)
  return { calls: made, callsPerSecond: made / seconds, cpuMicros: (user + system) / made, ...percentiles(latencies) }
}

/** Makes a call for each key, unmeasured: every key is known to Redis then. */
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
  latencies.sort((a, b) => a - b)
  const at = (part) => latencies[Math.floor(latencies.length * part)] * 1_000
  return { p50Micros: at(0.5), p99Micros: at(0.99) }
}
