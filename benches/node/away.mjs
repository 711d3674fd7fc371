/** Redis away: the fallback of a limiter, compared with the embedded store. */
import { gcra, RateLimiter, RedisStore } from 'tollgate'
import { timeLaps } from './laps.mjs'
import { printTable, printTargets, summaryOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'Redis away: onStoreFailure, while the store is known to be down'

/** The packages in the comparison, whose versions are reported. */
export const peers = []

export const paces = {
  full: { rounds: 11, turnMs: 200, warmUpMs: 1_000 },
  quick: { rounds: 3, turnMs: 50, warmUpMs: 200 },
}

const KEYS = Array.from({ length: 10_000 }, (_, number) => `user:${number}`)

/**
 * As in the part `embedded`: no key becomes fresh during other turns, and none runs out of units.
 */
const POLICY = gcra({ limit: 1_000_000, period: '1w' })

const CONDITIONS = [
  '10,000 keys (user:0 to user:9999), visited round robin, one call at a time',
  'no Redis at all, and the store has found out',
]

const EMBEDDED = 'embedded store'
const SHARE = '{ embedded: { share: 0.25 } }'
const ALLOW = "'allow'"

/** The others are compared with the first. */
const CONTENDERS = {
  [EMBEDDED]: () => awaited(new RateLimiter(POLICY)),
  [SHARE]: () => away({ embedded: { share: 0.25 } }, 'share'),
  [ALLOW]: () => away('allow', 'allow'),
}

/** The fallback must be nearly as fast as the embedded store. */
const TARGETS = [SHARE, ALLOW].map((of) => ({ of, to: EMBEDDED, atMost: 2 }))

/** Holds the last result, so that the compiler cannot optimise it away. */
const sink = { last: undefined }

async function away(onStoreFailure, prefix) {
  // The discard port, where no server listens.
  const store = new RedisStore({ host: '127.0.0.1', port: 9, commandTimeout: 100 })
  await new Promise((resolve) => store.on('down', resolve))
  const contender = awaited(new RateLimiter(POLICY, { store, prefix, onStoreFailure }))
  return { ...contender, close: () => store.close() }
}

function awaited(limiter) {
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
}

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const making = Object.entries(CONTENDERS).map(async ([name, make]) => {
    return { name, awaited: true, calls: KEYS.length, ...(await make()) }
  })
  const contenders = await Promise.all(making)
  try {
    const times = await interleave(contenders, pace, timeLaps)
    const results = summaryOf(Object.keys(CONTENDERS), times)
    return { conditions: CONDITIONS, results, targets: targetsOf(TARGETS, times) }
  } finally {
    await Promise.all(contenders.map(({ close }) => close()))
  }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, results, targets }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  printTable('while Redis is away', results)
  printTargets(targets)
}
