/** Over a Redis at growing distance: round trips of 0.5 to 50 ms. */
import { load, steady, visitAll } from './load.mjs'
import { startNetwork } from './network.mjs'
import { CONTENDERS, FIXED_WINDOW, GCRA, LIMIT, PEER } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { printTargets } from './report.mjs'
import { numbered, printSweeps, sweep } from './sweep.mjs'

export const title = 'Distance: the round trip to Redis'

export const peers = ['rate-limiter-flexible', 'ioredis', 'redis']

export const paces = {
  full: { rounds: 5, turnMs: 600, warmUpMs: 200 },
  quick: { rounds: 3, turnMs: 250, warmUpMs: 100 },
}

/** The round trips that the network adds, in milliseconds. */
const ROUND_TRIPS = [0.5, 1, 2, 5, 20, 50]
const RATES = [200, 2_000, 10_000]
const IN_FLIGHT = [1, 8, 64, 512]

const SERIES = [GCRA, FIXED_WINDOW, PEER, 'rate-limiter-flexible + node-redis']
const KEYS = numbered(10_000)
const VISITORS = 64
const LEAD_IN_MS = 20

/**
 * A load is a constant rate, or a constant number of calls in flight. At 200 calls a second a turn
 * is longer, so that a 99th percentile is not the slowest call.
 */
const LOADS = [
  ...RATES.map((perSecond) => ({
    axis: `ms, ${perSecond} calls a second`,
    turn: (contender, millis) => atRate(contender, perSecond, perSecond < 1_000 ? 2 * millis : millis),
  })),
  ...IN_FLIGHT.map((inFlight) => ({
    axis: `ms, ${inFlight} in flight`,
    inFlight,
    turn: (contender, millis) => withInFlight(contender, inFlight, millis),
  })),
]

async function withInFlight(contender, inFlight, millis) {
  const measures = await load(contender, { keys: KEYS, inFlight, millis, isTimed: true })
  const { callsPerSecond, p50Micros, p99Micros } = measures
  return { callsPerSecond, p50Ms: p50Micros / 1_000, p99Ms: p99Micros / 1_000 }
}

async function atRate(contender, perSecond, millis) {
  const { p50Micros, p99Micros } = await steady(contender, { keys: KEYS, perSecond, millis })
  return { p50Ms: p50Micros / 1_000, p99Ms: p99Micros / 1_000 }
}

/** The bounds at every distance, on the ratio to the best peer's figure. */
const BOUNDS = [
  { figure: 'p50Ms', atMost: 1.03 },
  { figure: 'p99Ms', atMost: 1.1 },
]

/** The worst ratios of a sweep, for each of our series and each bound. */
function targetsIn({ axis, series }) {
  const at = ({ points }, x, figure) => points.find((point) => point.x === x)[figure]
  const isOurs = ({ name }) => name === GCRA || name === FIXED_WINDOW
  const theirs = series.filter((one) => !isOurs(one))
  return series.filter(isOurs).flatMap((own) =>
    BOUNDS.map(({ figure, atMost }) => {
      const ratios = ROUND_TRIPS.map((x) => {
        return at(own, x, figure) / Math.min(...theirs.map((other) => at(other, x, figure)))
      })
      const ratio = Math.max(...ratios)
      const where = `${axis.slice('ms, '.length)}, round trip of ${ROUND_TRIPS[ratios.indexOf(ratio)]} ms`
      return {
        of: own.name,
        to: 'the best peer',
        figure: `${figure === 'p50Ms' ? 'p50' : 'p99'}, ${where}`,
        atMost,
        ratio,
        met: ratio <= atMost,
      }
    }),
  )
}

export function print(result) {
  printSweeps(result)
  printTargets(result.targets)
}

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  const network = await startNetwork(redis.port)
  const contenders = []
  try {
    for (const series of SERIES) {
      contenders.push({ series, name: series, ...(await CONTENDERS[series](network.url, 1)) })
    }
    for (const contender of contenders) {
      await visitAll(contender, KEYS, VISITORS)
    }
    const roundTrips = []
    for (const x of ROUND_TRIPS) {
      await network.set(x)
      roundTrips.push({ x, rttMs: await network.roundTripMs() })
    }
    const sweeps = []
    for (const { turn, ...axis } of LOADS) {
      const places = ROUND_TRIPS.flatMap((x) => contenders.map((contender) => ({ ...contender, x })))
      const series = await sweep(places, pace, async ({ x, ...contender }, millis) => {
        await network.set(x)
        // Measured from the first answers on, because a turn's first calls are all sent at once.
        await load(contender, { keys: KEYS, inFlight: VISITORS, millis: 2 * x + LEAD_IN_MS })
        return turn(contender, millis)
      })
      sweeps.push({ ...axis, series })
    }
    const conditions = [
      `redis-server ${await redis.version()} on this machine, behind a proxy in a separate process, which adds half of the round trip in each direction`,
      `10,000 keys; the limit is ${LIMIT} units per key and hour, and the benchmark checks that every decision is allowed`,
    ]
    return {
      conditions,
      sweeps: [{ axis: 'ms', series: [{ name: 'a lone PING', points: roundTrips }] }, ...sweeps],
      targets: sweeps.flatMap(targetsIn),
    }
  } finally {
    await network.set(0)
    await Promise.all(contenders.map(({ close }) => close()))
    await network.stop()
    await redis.stop()
  }
}
