/** Random demand, the same for the same seed. */

/**
 * Random numbers from 0 to below 1, the same for the same seed on every machine: Mulberry32, by
 * Tommy Ettinger (public domain).
 */
function randomFrom(seed) {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The parts of a Zipf distribution: the part of rank r is proportional to 1 / r^exponent. */
function zipf(count, exponent) {
  const weights = Array.from({ length: count }, (_, index) => (index + 1) ** -exponent)
  const sum = weights.reduce((total, weight) => total + weight, 0)
  return weights.map((weight) => weight / sum)
}

/** Draws indexes with the given probabilities. */
function drawer(parts, random) {
  const bounds = []
  let sum = 0
  for (const part of parts) {
    sum += part
    bounds.push(sum)
  }
  return () => {
    const point = random() * sum
    let [low, high] = [0, bounds.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (point < bounds[middle]) {
        high = middle
      } else {
        low = middle + 1
      }
    }
    return low
  }
}

/**
 * Calls at random times (a Poisson process) on keys with skewed demand.
 *
 * @param {{ callsPerSecond: number, seconds: number, keys: number, keySkew: number, seed: number }} options
 */
export function demandOf({ callsPerSecond, seconds, keys, keySkew, seed }) {
  const random = randomFrom(seed)
  const parts = zipf(keys, keySkew)
  const drawKey = drawer(parts, random)
  const calls = []
  for (let at = 0; ; ) {
    at -= (Math.log(1 - random()) / callsPerSecond) * 1e6
    if (at >= seconds * 1e6) {
      return { calls, hottest: parts[0] * callsPerSecond, keys }
    }
    calls.push({ atMicros: Math.floor(at), key: drawKey() })
  }
}

/** The process of each call. Demand is skewed between processes, too. */
export function processesOf(calls, processes, skew, seed) {
  const draw = drawer(zipf(processes, skew), randomFrom(seed + processes))
  return Uint16Array.from(calls, draw)
}
