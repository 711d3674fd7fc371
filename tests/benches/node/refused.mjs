/** A flood on a key that is refused for an hour: cached refusals, and asking Redis for each call. */
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { fixedWindow, RateLimiter, RedisStore } from 'tollgate'
import { ioredis } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, ratioOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'A refused key: one process, one server'

export const peers = ['rate-limiter-flexible', 'ioredis']

export const paces = {
  full: { rounds: 7, turnMs: 500, warmUpMs: 500 },
  quick: { rounds: 3, turnMs: 150, warmUpMs: 150 },
}

const IN_FLIGHT = [1, 64, 512]

const KEY = 'user:42'

const ASKING = 'tollgate'
const CACHED = "tollgate, local: { refusals: '1s' }"
const PEER = 'rate-limiter-flexible + ioredis'
const PEER_CACHED = 'rate-limiter-flexible, inMemoryBlockOnConsumed'

const CONTENDERS = {
  [CACHED]: (url) => tollgate(url, 'cached', { local: { refusals: '1s' } }),
  [ASKING]: (url) => tollgate(url, 'asking', {}),
  [PEER]: (url) => flexible(url, 'plain', {}),
  [PEER_CACHED]: (url) => flexible(url, 'block', { inMemoryBlockOnConsumed: 1 }),
}

const TARGETS = [
  { of: CACHED, to: ASKING, atLeast: 15 },
  { of: CACHED, to: PEER_CACHED, atLeast: 1 },
]

async function tollgate(url, prefix, options) {
  const store = new RedisStore(url)
  const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1h' }), { store, prefix, ...options })
  return {
    isRefused: async () => !(await limiter.take(KEY)).allowed,
    async close() {
      await limiter.close()
      await store.close()
    },
  }
}

function flexible(url, prefix, options) {
  const { storeClient, close } = ioredis(url)
  const limiter = new RateLimiterRedis({ storeClient, points: 1, duration: 3_600, keyPrefix: prefix, ...options })
  // A refusal is a rejection.
  const isRefused = async () => {
    try {
      await limiter.consume(KEY)
      return false
    } catch (refusal) {
      if (refusal instanceof Error) throw refusal
      return true
    }
  }
  return { isRefused, close }
}

/** The calls per second of `inFlight` callers. */
async function flood({ name, isRefused }, inFlight, millis) {
  const start = performance.now()
  const end = start + millis
  let calls = 0
  async function caller() {
    // Reading the clock for every call would cost more than some of the calls.
    while (performance.now() < end) {
      for (let call = 0; call < 16; call++) {
        if (!(await isRefused())) throw new Error(`${name}: a call was not refused`)
        calls++
      }
      // Answers from memory would not let the event loop run.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  await Promise.all(Array.from({ length: inFlight }, caller))
  return calls / ((performance.now() - start) / 1_000)
}

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const server = await startRedis()
  const contenders = []
  try {
    for (const [name, open] of Object.entries(CONTENDERS)) {
      contenders.push({ name, ...(await open(server.url)) })
    }
    for (const { isRefused } of contenders) {
      await isRefused()
    }
    const groups = []
    for (const inFlight of IN_FLIGHT) {
      const speeds = await interleave(contenders, pace, (contender, millis) => flood(contender, inFlight, millis))
      const base = speeds.get(CACHED)
      const results = Object.keys(CONTENDERS).map((name) => {
        const rounds = speeds.get(name)
        return { name, callsPerSecond: median(rounds), ratio: ratioOf(rounds, base), rounds }
      })
      groups.push({ inFlight, results, targets: targetsOf(TARGETS, speeds) })
    }
    return { groups }
  } finally {
    await Promise.all(contenders.map(({ close }) => close()))
    await server.stop()
  }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ groups }) {
  for (const { inFlight, results, targets } of groups) {
    const rows = results.map(({ name, callsPerSecond, ratio }) => [
      name,
      Math.round(callsPerSecond).toLocaleString('en'),
      ratio.toFixed(2),
    ])
    printColumns([`${inFlight} in flight`, 'calls/s', 'x cached'], rows)
    printTargets(targets)
  }
}
