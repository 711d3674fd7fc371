/** Over Redis, with 1 to 4,096 calls in flight. */
import { CONTENDERS, FIXED_WINDOW, GCRA, LIMIT, PEER } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { numbered, printSweeps, sweepRedis } from './sweep.mjs'

export const title = 'Scale: calls in flight, over Redis'

/** The packages in the comparison, whose versions are reported. */
export const peers = ['rate-limiter-flexible', 'ioredis', 'redis']

export const paces = {
  full: { rounds: 5, turnMs: 200, warmUpMs: 100 },
  quick: { rounds: 3, turnMs: 60, warmUpMs: 60 },
}

const IN_FLIGHT = Array.from({ length: 13 }, (_, power) => 2 ** power)

const SERIES = [GCRA, FIXED_WINDOW, PEER, 'rate-limiter-flexible + node-redis']

export const print = printSweeps

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  const opened = new Map()
  try {
    for (const series of SERIES) {
      opened.set(series, await CONTENDERS[series](redis.url, 1))
    }
    const keys = numbered(10_000)
    const places = SERIES.flatMap((series) => {
      return IN_FLIGHT.map((x) => ({ series, x, opened: opened.get(series), keys, inFlight: x }))
    })
    const conditions = [
      `redis-server ${await redis.version()} on this machine, without persistence`,
      `10,000 keys, visited round robin; the limit is ${LIMIT} units per key and hour, and the benchmark checks that every decision is allowed`,
    ]
    return { conditions, sweeps: [{ axis: 'calls in flight', series: await sweepRedis(places, pace, redis) }] }
  } finally {
    await Promise.all([...opened.values()].map(({ close }) => close()))
    await redis.stop()
  }
}
