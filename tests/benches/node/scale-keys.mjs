/** With 10 to 1,000,000 keys: over Redis, and embedded. */
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { fixedWindow, gcra, RateLimiter } from 'tollgate'
import { lapsOf } from './embedded-laps.mjs'
import { timeLaps } from './laps.mjs'
import { MapGcra } from './map-gcra.mjs'
import { FIXED_WINDOW, flexible, GCRA, ioredis, LIMIT, PEER, tollgate } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { joined, numbered, printSweeps, sweep, sweepRedis } from './sweep.mjs'

export const title = 'Scale: keys'

export const peers = ['rate-limiter-flexible', 'ioredis']

export const paces = {
  full: { rounds: 5, turnMs: 250, warmUpMs: 200, mostKeys: 1_000_000 },
  quick: { rounds: 3, turnMs: 80, warmUpMs: 80, mostKeys: 100_000 },
}

const COUNTS = [10, 100, 1_000, 10_000, 100_000, 1_000_000]
const IN_FLIGHT = 512

export const print = printSweeps

/** @param {import('./rounds.mjs').Pace & { mostKeys: number }} pace */
export async function run(pace) {
  const counts = COUNTS.filter((count) => count <= pace.mostKeys)
  const keys = numbered(pace.mostKeys)
  const redis = await startRedis()
  try {
    const conditions = [
      `redis-server ${await redis.version()} on this machine, without persistence; ${IN_FLIGHT} calls in flight`,
      'each number of keys is measured separately; keys are visited round robin, or drawn at random with equal probability; the benchmark checks that every decision is allowed',
    ]
    const overRedis = []
    const embedded = []
    for (const count of counts) {
      await redis.flush()
      overRedis.push(...(await overRedisWith(keys.slice(0, count), pace, redis)))
    }
    for (const count of counts) {
      embedded.push(...(await embeddedWith(keys.slice(0, count), pace)))
    }
    const sweeps = [
      { axis: 'keys over Redis', series: joined(overRedis) },
      { axis: 'keys, embedded', series: joined(embedded) },
    ]
    return { conditions, sweeps }
  } finally {
    await redis.stop()
  }
}

/** The length of the random sequence of keys, which is used repeatedly. */
const DRAWN = 1_000_000

/**
 * A uniform random sequence of keys, so that some keys occur twice in a batch. The generator
 * (Numerical Recipes) has a fixed seed: every run has the same sequence.
 */
function drawnFrom(keys) {
  let state = 1
  return Array.from({ length: DRAWN }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return keys[Math.floor((state / 2 ** 32) * keys.length)]
  })
}

/** With few keys, calls use up 8,000 units of a key within a turn, so the units refill faster. */
function periodOf(keys) {
  return keys.length <= 100 ? '50ms' : '1h'
}

async function overRedisWith(keys, pace, redis) {
  const place = { x: keys.length, keys, inFlight: IN_FLIGHT }
  const period = periodOf(keys)
  const places = []
  try {
    const opened = {
      [GCRA]: await tollgate(gcra({ limit: LIMIT, period }), 'gcra', redis.url, 1),
      [FIXED_WINDOW]: await tollgate(fixedWindow({ limit: LIMIT, window: period }), 'fixed', redis.url, 1),
      [PEER]: flexible('plain', ioredis(redis.url), 1, 1_000_000_000),
    }
    const names = Object.keys(opened)
    places.push(...names.map((series) => ({ ...place, series, opened: opened[series] })))
    const atRandom = { ...place, keys: drawnFrom(keys), visits: [] }
    places.push(...names.map((name) => ({ ...atRandom, series: `${name}, at random`, opened: opened[name] })))
    return await sweepRedis(places, pace, redis)
  } finally {
    await Promise.all([...new Set(places.map(({ opened }) => opened))].map((each) => each.close()))
  }
}

const WEEK_SECONDS = 604_800

async function embeddedWith(keys, pace) {
  // With fewer keys, each has more units: no key runs out in a turn, or becomes fresh between
  // turns.
  const limit = 1e10 / keys.length
  // A lap is long enough for precise timing, and visits every key.
  const lap = Array.from({ length: Math.max(keys.length, 10_000) }, (_, call) => keys[call % keys.length])
  const period = `${WEEK_SECONDS}s`
  const at = { x: keys.length }
  const places = [
    { series: 'tollgate takeSync, gcra', ...lapsOf('takeSync', new RateLimiter(gcra({ limit, period })), lap) },
    {
      series: 'tollgate takeSync, fixedWindow',
      ...lapsOf('takeSync', new RateLimiter(fixedWindow({ limit, window: period })), lap),
    },
    { series: 'tollgate await take, gcra', ...lapsOf('take', new RateLimiter(gcra({ limit, period })), lap) },
    { series: 'Map GCRA by hand', ...lapsOf('map take', new MapGcra(limit, WEEK_SECONDS * 1_000), lap) },
    {
      series: 'rate-limiter-flexible memory',
      ...lapsOf('consume', new RateLimiterMemory({ points: limit, duration: WEEK_SECONDS }), lap),
    },
  ].map((place) => ({ ...at, ...place }))
  try {
    return await sweep(places, pace, async (place, millis) => ({ nsPerCall: await timeLaps(place, millis) }))
  } finally {
    await Promise.all(places.map(({ close }) => close()))
  }
}
