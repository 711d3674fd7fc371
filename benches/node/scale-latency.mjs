/** Over a Redis at growing distance: round trips of 0 to 50 ms. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { end, failureOf, minded } from './children.mjs'
import { load, steady, visitAll } from './load.mjs'
import { CONTENDERS, GCRA, LIMIT, PEER } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { median } from './report.mjs'
import { numbered, printSweeps, sweep } from './sweep.mjs'

export const title = 'Scale: the way to Redis'

export const peers = ['rate-limiter-flexible', 'ioredis']

export const paces = {
  full: { rounds: 5, turnMs: 300, warmUpMs: 200 },
  quick: { rounds: 3, turnMs: 120, warmUpMs: 120 },
}

/** Whole milliseconds added in each direction: timers have no fractions. */
const DELAYS = [
  { x: 0, up: 0, down: 0 },
  { x: 1, up: 1, down: 0 },
  { x: 5, up: 3, down: 2 },
  { x: 10, up: 5, down: 5 },
  { x: 25, up: 13, down: 12 },
  { x: 50, up: 25, down: 25 },
]

const KEYS = numbered(10_000)
const FEW = 64
/** Below the default limit of 10,000 pending calls. */
const MANY = 8_192
const PER_SECOND = 2_000

/** The same three scenes at every distance. */
const SCENES = [
  { axis: `ms, ${FEW} in flight`, turn: (contender, millis) => closed(contender, FEW, millis) },
  { axis: `ms, ${MANY} in flight`, inFlight: MANY, turn: (contender, millis) => closed(contender, MANY, millis) },
  { axis: `ms, ${PER_SECOND} calls a second`, turn: open },
]

async function closed(contender, inFlight, millis) {
  const measures = await load(contender, { keys: KEYS, inFlight, millis, isTimed: true })
  const { callsPerSecond, p50Micros, p99Micros, cpuMicros } = measures
  return { callsPerSecond, p50Ms: p50Micros / 1_000, p99Ms: p99Micros / 1_000, cpuMicros }
}

async function open(contender, millis) {
  const { p50Micros, p99Micros } = await steady(contender, { keys: KEYS, perSecond: PER_SECOND, millis })
  return { p50Ms: p50Micros / 1_000, p99Ms: p99Micros / 1_000 }
}

export const print = printSweeps

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  const network = await startNetwork(redis.port)
  const contenders = []
  try {
    for (const series of [GCRA, PEER]) {
      contenders.push({ series, name: series, ...(await CONTENDERS[series](network.url, 1)) })
    }
    for (const contender of contenders) {
      await visitAll(contender, KEYS, FEW)
    }
    const roundTrips = []
    for (const delay of DELAYS) {
      await network.set(delay)
      roundTrips.push({ x: delay.x, rttMs: await network.roundTripMs() })
    }
    const sweeps = []
    for (const { turn, ...scene } of SCENES) {
      const places = contenders.flatMap((contender) => DELAYS.map((delay) => ({ ...contender, delay, x: delay.x })))
      const series = await sweep(places, pace, async ({ delay, ...contender }, millis) => {
        await network.set(delay)
        // Measured from the first answers on, because a turn's first calls are all sent at once.
        await load(contender, { keys: KEYS, inFlight: FEW, millis: 2 * delay.x + 20 })
        return turn(contender, millis)
      })
      sweeps.push({ ...scene, series })
    }
    const conditions = [
      `redis-server ${await redis.version()} on this machine, behind a proxy in a process of its own, which delays both ways`,
      `10,000 keys; ${LIMIT} units per key and hour: every decision is allowed (this is checked)`,
    ]
    return { conditions, sweeps: [{ axis: 'ms', series: [{ name: 'a lone PING', points: roundTrips }] }, ...sweeps] }
  } finally {
    await network.set({ up: 0, down: 0 })
    await Promise.all(contenders.map(({ close }) => close()))
    await network.stop()
    await redis.stop()
  }
}

/** A slow network in front of a server. */
async function startNetwork(port) {
  const child = minded(fork(fileURLToPath(new URL('slow-network.mjs', import.meta.url)), [`${port}`]))
  const failure = failureOf(child, 'the slow network')
  failure.catch(() => {})
  const [told] = await Promise.race([once(child, 'message'), failure])
  const client = new Redis(told.port, '127.0.0.1')
  return {
    url: `redis://127.0.0.1:${told.port}`,
    async set({ up, down }) {
      const heard = once(child, 'message')
      child.send({ up, down })
      await Promise.race([heard, failure])
    },
    async roundTripMs() {
      const times = []
      for (let turn = 0; turn < 11; turn++) {
        const start = performance.now()
        await client.ping()
        times.push(performance.now() - start)
      }
      return median(times)
    },
    async stop() {
      client.disconnect()
      await end(child)
    },
  }
}
