/** Over Redis, with 1 to 64 limiters on one store. */
import { CONTENDERS, FIXED_WINDOW, GCRA, PEER } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { numbered, printSweeps, sweepRedis } from './sweep.mjs'

export const title = 'Scale: limiters on one store, over Redis'

export const peers = ['rate-limiter-flexible', 'ioredis']

export const paces = {
  full: { rounds: 5, turnMs: 250, warmUpMs: 200 },
  quick: { rounds: 3, turnMs: 80, warmUpMs: 80 },
}

const LIMITERS = [1, 2, 4, 8, 16, 32, 64]

const SERIES = [GCRA, FIXED_WINDOW, PEER]

/** A multiple of every number of limiters, because each key belongs to one limiter. */
const KEYS = numbered(10_240)

const IN_FLIGHT = 512

export const print = printSweeps

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  const places = []
  try {
    for (const series of SERIES) {
      for (const x of LIMITERS) {
        places.push({ series, x, opened: await CONTENDERS[series](redis.url, x), keys: KEYS, inFlight: IN_FLIGHT })
      }
    }
    const conditions = [
      `redis-server ${await redis.version()} on this machine, without persistence; ${IN_FLIGHT} calls in flight`,
      '10,240 keys, each used by one limiter; calls visit all limiters round robin; the benchmark checks that every decision is allowed',
    ]
    return { conditions, sweeps: [{ axis: 'limiters', series: await sweepRedis(places, pace, redis) }] }
  } finally {
    await Promise.all(places.map(({ opened }) => opened.close()))
    await redis.stop()
  }
}
