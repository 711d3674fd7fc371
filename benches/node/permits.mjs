/** Permits over Redis: acquire and release, without and with callers that have to wait. */
import Bottleneck from 'bottleneck'
import { Semaphore } from 'redis-semaphore'
import { concurrency, RateLimiter, RedisStore } from 'tollgate'
import { ioredis } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, ratioOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'Permits: acquire and release, one process, one server'

export const peers = ['redis-semaphore', 'bottleneck', 'ioredis']

export const paces = {
  full: { rounds: 7, turnMs: 700, warmUpMs: 500 },
  quick: { rounds: 3, turnMs: 300, warmUpMs: 200 },
}

/** The callers, and the most that hold a permit at a time. */
const CASES = [
  { inFlight: 1, limit: 1_000 },
  { inFlight: 64, limit: 1_000 },
  { inFlight: 64, limit: 16 },
]

const OURS = 'tollgate'
const SEMAPHORE = 'redis-semaphore + ioredis'
const BOTTLENECK = 'bottleneck, clustered with ioredis'

const CONTENDERS = { [OURS]: tollgate, [SEMAPHORE]: semaphore, [BOTTLENECK]: bottleneck }

/** A life of permits that no turn reaches. */
const LIFE_MS = 30_000

function tollgate(url, limit) {
  const store = new RedisStore(url)
  const limiter = new RateLimiter(concurrency({ limit, ttl: LIFE_MS }), { store, prefix: `permits-${limit}` })
  return {
    async hold() {
      const permit = await limiter.acquire('key', { maxWait: 10_000 })
      if (!permit.allowed) throw new Error('no permit within ten seconds')
      await permit.release()
    },
    async close() {
      await limiter.close()
      await store.close()
    },
  }
}

function semaphore(url, limit) {
  const { storeClient, close } = ioredis(url)
  const options = { lockTimeout: LIFE_MS, acquireTimeout: 10_000 }
  return {
    async hold() {
      const own = new Semaphore(storeClient, `semaphore-${limit}`, limit, options)
      await own.acquire()
      await own.release()
    },
    close,
  }
}

function bottleneck(url, limit) {
  const { hostname: host, port } = new URL(url)
  const limiter = new Bottleneck({
    id: `bottleneck-${limit}`,
    datastore: 'ioredis',
    clientOptions: { host, port: Number(port) },
    maxConcurrent: limit,
  })
  return {
    hold: () => limiter.schedule(async () => {}),
    close: () => limiter.disconnect(),
  }
}

/** The permits per second of `inFlight` callers. */
async function holdAll({ hold }, inFlight, millis) {
  const start = performance.now()
  const end = start + millis
  let held = 0
  async function caller() {
    while (performance.now() < end) {
      await hold()
      held++
    }
  }
  await Promise.all(Array.from({ length: inFlight }, caller))
  return held / ((performance.now() - start) / 1_000)
}

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const server = await startRedis()
  try {
    const groups = []
    for (const { inFlight, limit } of CASES) {
      const contenders = Object.entries(CONTENDERS).map(([name, open]) => ({ name, ...open(server.url, limit) }))
      try {
        const speeds = await interleave(contenders, pace, (contender, millis) => holdAll(contender, inFlight, millis))
        const base = speeds.get(SEMAPHORE)
        const results = contenders.map(({ name }) => {
          const rounds = speeds.get(name)
          return { name, permitsPerSecond: median(rounds), ratio: ratioOf(rounds, base), rounds }
        })
        const targets = inFlight === 1 ? [] : [{ of: OURS, to: SEMAPHORE, atLeast: 3 }]
        groups.push({ inFlight, limit, results, targets: targetsOf(targets, speeds) })
      } finally {
        await Promise.all(contenders.map(({ close }) => close()))
      }
    }
    return { groups }
  } finally {
    await server.stop()
  }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ groups }) {
  for (const { inFlight, limit, results, targets } of groups) {
    const rows = results.map(({ name, permitsPerSecond, ratio }) => [
      name,
      Math.round(permitsPerSecond).toLocaleString('en'),
      ratio.toFixed(2),
    ])
    printColumns([`${inFlight} callers, ${limit} permits`, 'permits/s', 'x redis-semaphore'], rows)
    printTargets(targets)
  }
}
