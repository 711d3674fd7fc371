/** A call with three meters under four policies, beside a call with one cost under four policies. */
import { fixedWindow, gcra, RateLimiter } from 'tollgate'
import { timeLaps } from './laps.mjs'
import { tollgate } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { numbered, printSweeps, sweep, sweepRedis } from './sweep.mjs'

export const title = 'Scale: meters of a call'

export const peers = []

export const paces = {
  full: { rounds: 9, turnMs: 250, warmUpMs: 200 },
  quick: { rounds: 3, turnMs: 80, warmUpMs: 80 },
}

const KEYS = numbered(10_000)

/** The units outlast the rounds. */
const MANY = 1_000_000_000

/** The policies, as most gateways have them: requests and tokens by minute and month, and money. */
const policiesOf = (meter) => ({
  requests: gcra({ limit: MANY, period: '1h' }),
  tokens: gcra({ limit: MANY, period: '1h', ...meter('tokens') }),
  monthly: fixedWindow({ limit: MANY, window: '30d', ...meter('tokens') }),
  spend: fixedWindow({ limit: MANY, window: '30d', ...meter('cents') }),
})

const WAYS = {
  'one cost': { policies: policiesOf(() => ({})), cost: 5 },
  'three meters': { policies: policiesOf((meter) => ({ meter })), cost: { cost: { tokens: 2_500, cents: 3 } } },
}

export const print = printSweeps

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  const places = []
  try {
    for (const [series, { policies, cost }] of Object.entries(WAYS)) {
      for (const inFlight of [1, 64, 512]) {
        const opened = await tollgate(policies, `${series.replace(' ', '-')}-${inFlight}`, redis.url, 1, cost)
        places.push({ series, x: inFlight, keys: KEYS, inFlight, opened })
      }
    }
    const conditions = [
      `redis-server ${await redis.version()} on this machine, without persistence`,
      '10,000 keys, visited round robin; four policies are charged by each call; the benchmark checks that every decision is allowed',
    ]
    const sweeps = [
      { axis: 'calls in flight over Redis', series: await sweepRedis(places, pace, redis) },
      { axis: 'policies, embedded', series: await embedded(pace) },
    ]
    return { conditions, sweeps }
  } finally {
    await Promise.all(places.map(({ opened }) => opened.close()))
    await redis.stop()
  }
}

function embedded(pace) {
  const places = Object.entries(WAYS).map(([series, { policies, cost }]) => {
    const limiter = new RateLimiter(policies)
    const lap = () => KEYS.reduce((allowed, key) => allowed + (limiter.takeSync(key, cost).allowed ? 1 : 0), 0)
    return { series, x: 4, calls: KEYS.length, awaited: false, lap, close: () => limiter.close() }
  })
  return sweep(places, pace, async (place, millis) => ({ nsPerCall: await timeLaps(place, millis) }))
}
