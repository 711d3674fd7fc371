/** With 1 to 5 policies of a limiter: over Redis, and embedded. */
import { RateLimiterMemory, RateLimiterUnion } from 'rate-limiter-flexible'
import { fixedWindow, gcra, RateLimiter } from 'tollgate'
import { lapsOf } from './embedded-laps.mjs'
import { timeLaps } from './laps.mjs'
import { LIMIT, tollgate, union } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { numbered, printSweeps, sweep, sweepRedis } from './sweep.mjs'

export const title = 'Scale: policies of a limiter'

export const peers = ['rate-limiter-flexible', 'ioredis']

export const paces = {
  full: { rounds: 5, turnMs: 250, warmUpMs: 200 },
  quick: { rounds: 3, turnMs: 80, warmUpMs: 80 },
}

const COUNTS = [1, 2, 3, 4, 5]
const KEYS = numbered(10_000)
const IN_FLIGHT = 512

/** A different window for each policy. */
const HOURS = [1, 2, 4, 8, 24]

const KINDS = {
  gcra: (limit, hours) => gcra({ limit, period: `${hours}h` }),
  fixedWindow: (limit, hours) => fixedWindow({ limit, window: `${hours}h` }),
}

const UNION = 'RateLimiterUnion of as many'

/** @param {number} count */
function policiesOf(kind, limit, count) {
  return Object.fromEntries(HOURS.slice(0, count).map((hours) => [`hours-${hours}`, KINDS[kind](limit, hours)]))
}

export const print = printSweeps

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  try {
    const conditions = [
      `redis-server ${await redis.version()} on this machine, without persistence; ${IN_FLIGHT} calls in flight`,
      '10,000 keys, visited round robin; all policies are charged by each call; the benchmark checks that every decision is allowed',
    ]
    const sweeps = [
      { axis: 'policies over Redis', series: await overRedis(pace, redis) },
      { axis: 'policies, embedded', series: await embedded(pace) },
    ]
    return { conditions, sweeps }
  } finally {
    await redis.stop()
  }
}

async function overRedis(pace, redis) {
  const places = []
  try {
    for (const x of COUNTS) {
      const place = { x, keys: KEYS, inFlight: IN_FLIGHT }
      for (const kind of Object.keys(KINDS)) {
        const opened = await tollgate(policiesOf(kind, LIMIT, x), `${kind}-${x}`, redis.url, 1)
        places.push({ ...place, series: `tollgate ${kind}`, opened })
      }
      const durations = HOURS.slice(0, x).map((hours) => hours * 3_600)
      places.push({ ...place, series: `${UNION} + ioredis`, opened: union(durations, `union-${x}`, redis.url) })
    }
    return await sweepRedis(places, pace, redis)
  } finally {
    await Promise.all(places.map(({ opened }) => opened.close()))
  }
}

/** The units outlast the rounds, and drain so slowly that no key becomes fresh and is deleted. */
const MANY = 30_000

async function embedded(pace) {
  const places = COUNTS.flatMap((x) => [
    ...Object.keys(KINDS).map((kind) => {
      const limiter = new RateLimiter(policiesOf(kind, MANY, x))
      return { series: `tollgate takeSync, ${kind}`, x, ...lapsOf('takeSync', limiter, KEYS) }
    }),
    { series: `${UNION} in memory`, x, ...lapsOf('union', memoryUnion(x), KEYS) },
  ])
  try {
    return await sweep(places, pace, async (place, millis) => ({ nsPerCall: await timeLaps(place, millis) }))
  } finally {
    await Promise.all(places.map(({ close }) => close?.()))
  }
}

function memoryUnion(count) {
  const limiters = HOURS.slice(0, count).map((hours, number) => {
    return new RateLimiterMemory({ points: MANY, duration: hours * 3_600, keyPrefix: `union-${number}` })
  })
  return new RateLimiterUnion(...limiters)
}
