/** The figures of the README: its claim, and a table of three comparisons. */
import { speed, table } from './text.mjs'

/** The rows over Redis: calls in flight, and the algorithm. */
const OVER_REDIS = [
  [512, 'fixedWindow'],
  [64, 'gcra'],
]

/** The calls in flight of the claim. */
const CLAIMED = 64

/**
 * By the name of their marker.
 *
 * @param {import('./record.mjs').Record_['parts']} parts
 * @returns {Map<string, string | undefined>} `undefined` where a part has not been measured.
 */
export function readmeFigures({ redis, memory }) {
  const isMeasured = [CLAIMED, ...OVER_REDIS.map(([inFlight]) => inFlight)].every((calls) => sceneOf(redis, calls))
  return new Map([
    ['readme-claim', isMeasured ? claim(redis) : undefined],
    ['readme-table', isMeasured && memory ? comparisons(redis, memory) : undefined],
  ])
}

/** How many times as many calls the algorithms make, from the least to the most. */
function claim(part) {
  const scene = sceneOf(part, CLAIMED)
  const ratios = scene.results.filter(({ name }) => name.startsWith('tollgate')).map(({ ratioToPeer }) => ratioToPeer)
  const [least, most] = [Math.min(...ratios), Math.max(...ratios)].map(Math.floor)
  return `[${least === most ? least : `${least} to ${most}`} times as many decisions a second](docs/performance.md)`
}

/** The comparisons, from the greatest ratio to the least. */
function comparisons(redis, memory) {
  const all = [...OVER_REDIS.map(([inFlight, algorithm]) => overRedis(redis, inFlight, algorithm)), perKey(memory)]
  const rows = all.sort((a, b) => b.ratio - a.ratio).map(({ cells, ratio }) => [...cells, ratio.toFixed(1)])
  return table(['case', 'tollgate', 'compared with', 'ratio'], rows)
}

function overRedis(part, inFlight, algorithm) {
  const { peer, results } = sceneOf(part, inFlight)
  const [ours, theirs] = [`tollgate ${algorithm}`, peer].map((name) => named(results, name))
  return {
    cells: [
      `Redis, ${inFlight} calls in flight, \`${algorithm}\``,
      `${speed(ours.callsPerSecond)} calls/s`,
      `${peer}, ${speed(theirs.callsPerSecond)} calls/s`,
    ],
    ratio: ours.ratioToPeer,
  }
}

function perKey({ ofMany }) {
  const [ours, theirs] = ['tollgate, gcra', 'rate-limiter-flexible memory'].map((name) => named(ofMany, name).bytes)
  return {
    cells: [
      'memory for a million keys',
      `${Math.round(ours)} bytes each`,
      `rate-limiter-flexible in memory, ${Math.round(theirs)} bytes each`,
    ],
    ratio: theirs / ours,
  }
}

function sceneOf(part, inFlight) {
  return part?.scenes.find(({ title }) => title === `${inFlight} in flight`)
}

function named(results, name) {
  return results.find((result) => result.name === name)
}
