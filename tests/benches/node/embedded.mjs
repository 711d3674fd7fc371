/** Embedded: one process, no server, allowed decisions. */
import { MemoryStore as ExpressMemoryStore } from 'express-rate-limit'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { fixedWindow, gcra, RateLimiter } from 'tollgate'
import { timeLaps } from './laps.mjs'
import { MapGcra } from './map-gcra.mjs'
import { printTable, printTargets, summaryOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'Embedded: one process, no server'

/** The packages in the comparison, whose versions are reported. */
export const peers = ['rate-limiter-flexible', 'express-rate-limit']

export const paces = {
  full: { rounds: 11, turnMs: 200, warmUpMs: 1_000 },
  quick: { rounds: 3, turnMs: 50, warmUpMs: 200 },
}

const KEYS = Array.from({ length: 10_000 }, (_, number) => `user:${number}`)

/**
 * A unit drains in 0.6 s, so no key becomes fresh (and is deleted) during the turns of the other
 * contenders. A key's million units would last for hours.
 */
const LIMIT = 1_000_000
const PERIOD_MS = 604_800_000

const CONDITIONS = [
  '10,000 keys (user:0 to user:9999), visited round robin, one call at a time',
  'the limit is 1,000,000 units per key and week, and the benchmark checks that every decision is allowed',
]

/** Holds the last result, so that the compiler cannot optimise it away. */
const sink = { last: undefined }

/**
 * The contenders by name. The others of a group are compared with its first.
 *
 * Each kind has its own loop. In a shared loop V8 would see calls of several functions from one
 * place and inline none, unlike in a user's program.
 */
const SYNC = {
  'tollgate takeSync, gcra': () => takeSync(gcra({ limit: LIMIT, period: PERIOD_MS })),

  'tollgate takeSync, fixedWindow': () => takeSync(fixedWindow({ limit: LIMIT, window: PERIOD_MS })),

  'Map GCRA by hand'() {
    const limiter = new MapGcra(LIMIT, PERIOD_MS)
    const lap = () => {
      let allowed = 0
      for (const key of KEYS) {
        const decision = limiter.take(key)
        if (decision.allowed) allowed++
        sink.last = decision
      }
      return allowed
    }
    return { lap }
  },
}

function takeSync(policy) {
  const limiter = new RateLimiter(policy)
  const lap = () => {
    let allowed = 0
    for (const key of KEYS) {
      const decision = limiter.takeSync(key)
      if (decision.allowed) allowed++
      sink.last = decision
    }
    return allowed
  }
  return { lap, close: () => limiter.close() }
}

const AWAITED = {
  'tollgate await take, gcra'() {
    const limiter = new RateLimiter(gcra({ limit: LIMIT, period: PERIOD_MS }))
    const lap = async () => {
      let allowed = 0
      for (const key of KEYS) {
        const decision = await limiter.take(key)
        if (decision.allowed) allowed++
        sink.last = decision
      }
      return allowed
    }
    return { lap, close: () => limiter.close() }
  },

  'Map GCRA by hand, async method'() {
    const inner = new MapGcra(LIMIT, PERIOD_MS)
    const limiter = {
      async take(key) {
        return inner.take(key)
      },
    }
    const lap = async () => {
      let allowed = 0
      for (const key of KEYS) {
        const decision = await limiter.take(key)
        if (decision.allowed) allowed++
        sink.last = decision
      }
      return allowed
    }
    return { lap }
  },

  'rate-limiter-flexible memory'() {
    const limiter = new RateLimiterMemory({ points: LIMIT, duration: PERIOD_MS / 1_000 })
    const lap = async () => {
      let allowed = 0
      for (const key of KEYS) {
        // A refusal would be a rejection.
        const result = await limiter.consume(key)
        if (result.remainingPoints >= 0) allowed++
        sink.last = result
      }
      return allowed
    }
    return { lap }
  },

  'express-rate-limit MemoryStore'() {
    const store = new ExpressMemoryStore()
    // Its middleware does the same. It starts a timer, which `shutdown` stops.
    store.init({ windowMs: PERIOD_MS })
    const lap = async () => {
      let allowed = 0
      for (const key of KEYS) {
        // It only counts; the middleware compares.
        const client = await store.increment(key)
        if (client.totalHits <= LIMIT) allowed++
        sink.last = client
      }
      return allowed
    }
    return { lap, close: () => store.shutdown() }
  },
}

/** @type {import('./report.mjs').Target[]} */
const TARGETS = [
  { of: 'tollgate takeSync, gcra', to: 'Map GCRA by hand', atMost: 1.5 },
  { of: 'rate-limiter-flexible memory', to: 'tollgate await take, gcra', atLeast: 1.6 },
]

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const contenders = [...made(SYNC, false), ...made(AWAITED, true)]
  try {
    const times = await interleave(contenders, pace, timeLaps)
    return {
      conditions: CONDITIONS,
      groups: {
        sync: summaryOf(Object.keys(SYNC), times),
        awaited: summaryOf(Object.keys(AWAITED), times),
      },
      targets: targetsOf(TARGETS, times),
    }
  } finally {
    await Promise.all(contenders.map(({ close }) => close?.()))
  }
}

function made(group, awaited) {
  return Object.entries(group).map(([name, make]) => ({ name, awaited, calls: KEYS.length, ...make() }))
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, groups, targets }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  for (const [name, results] of Object.entries(groups)) {
    printTable(name, results)
  }
  printTargets(targets)
}
