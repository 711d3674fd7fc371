/** Leases: a key with more calls than one server decides, one caller alone, and keys without leases. */
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { gcra, RateLimiter, RedisStore } from 'tollgate'
import { ioredis } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, ratioOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'Leases: one process, one server'

export const peers = ['rate-limiter-flexible', 'ioredis']

export const paces = {
  full: { rounds: 7, turnMs: 1_000, warmUpMs: 500 },
  quick: { rounds: 3, turnMs: 300, warmUpMs: 200 },
}

const LIMIT = 100_000

/** Never used up by the calls of one process. */
const AMPLE = 1_000_000_000

const COLD_KEYS = 10_000

const LOCAL = { lease: '100ms', refusals: '1s' }

const LEASED = "tollgate, local: { lease: '100ms', refusals: '1s' }"
const ASKING = 'tollgate'
const ONLY_LEASED = "tollgate, local: { lease: '100ms' }"
const EMBEDDED = 'tollgate, embedded'
const PEER = 'rate-limiter-flexible + ioredis'

/** Each scene compares its contenders with the first one. */
const SCENES = [
  {
    name: 'a hot key, 512 in flight',
    inFlight: 512,
    keys: 1,
    limit: LIMIT,
    contenders: [LEASED, ASKING, PEER],
    targets: [{ of: LEASED, to: PEER, atLeast: 20 }],
  },
  {
    name: 'a hot key, 64 in flight',
    inFlight: 64,
    keys: 1,
    limit: LIMIT,
    contenders: [LEASED, ASKING, PEER],
    targets: [],
  },
  {
    name: 'one caller, never refused',
    inFlight: 1,
    keys: 1,
    limit: AMPLE,
    contenders: [LEASED, EMBEDDED],
    targets: [{ of: LEASED, to: EMBEDDED, atLeast: 1 / 1.5 }],
  },
  {
    name: `${COLD_KEYS.toLocaleString('en')} cold keys, 64 in flight`,
    inFlight: 64,
    keys: COLD_KEYS,
    limit: LIMIT,
    contenders: [ONLY_LEASED, ASKING],
    targets: [{ of: ONLY_LEASED, to: ASKING, atLeast: 0.95 }],
  },
]

const OPEN = {
  [LEASED]: (url, prefix, limit) => tollgate(url, prefix, limit, { local: LOCAL }),
  [ONLY_LEASED]: (url, prefix, limit) => tollgate(url, prefix, limit, { local: { lease: '100ms' } }),
  [ASKING]: (url, prefix, limit) => tollgate(url, prefix, limit, {}),
  [EMBEDDED](_url, _prefix, limit) {
    const limiter = new RateLimiter(gcra({ limit, period: '1s' }))
    return { call: (key) => limiter.take(key), close: () => limiter.close() }
  },
  [PEER]: (url, prefix, limit) => flexible(url, prefix, limit),
}

function tollgate(url, prefix, limit, options) {
  const store = new RedisStore(url)
  const limiter = new RateLimiter(gcra({ limit, period: '1s' }), { store, prefix, ...options })
  return {
    call: (key) => limiter.take(key),
    async close() {
      await limiter.close()
      await store.close()
    },
  }
}

function flexible(url, keyPrefix, points) {
  const { storeClient, close } = ioredis(url)
  const limiter = new RateLimiterRedis({ storeClient, points, duration: 1, keyPrefix })
  // A refusal is a rejection.
  const call = async (key) => {
    try {
      return await limiter.consume(key)
    } catch (refusal) {
      if (refusal instanceof Error) throw refusal
      return refusal
    }
  }
  return { call, close }
}

/** The calls per second, and the commands that Redis has run for each call. */
async function load({ call }, { inFlight, keys }, millis, server) {
  const before = await commands(server)
  const start = performance.now()
  const end = start + millis
  let [calls, next] = [0, 0]
  async function caller() {
    while (performance.now() < end) {
      for (let time = 0; time < 16; time++) {
        calls++
        next = (next + 1) % keys
        await call(`user:${next}`)
      }
      // Answers from memory would not let the event loop run.
      if (calls % 1_024 < 16) await new Promise((resolve) => setImmediate(resolve))
    }
  }
  await Promise.all(Array.from({ length: inFlight }, caller))
  const perSecond = calls / ((performance.now() - start) / 1_000)
  return { perSecond, commandsPerCall: ((await commands(server)) - before) / calls }
}

/** The scripts that the server has run. */
async function commands({ command }) {
  const stats = await command('INFO', 'commandstats')
  const counts = [...stats.matchAll(/cmdstat_(?:evalsha|eval):calls=(\d+)/g)].map(([, count]) => Number(count))
  return counts.reduce((sum, count) => sum + count, 0)
}

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const server = await startRedis()
  const client = ioredis(server.url)
  const asked = { command: (...words) => client.storeClient.call(...words) }
  try {
    const scenes = []
    for (const [index, scene] of SCENES.entries()) {
      const contenders = scene.contenders.map((name, which) => {
        return { name, ...OPEN[name](server.url, `s${index}c${which}`, scene.limit) }
      })
      const rounds = await interleave(contenders, pace, (contender, millis) => load(contender, scene, millis, asked))
      await Promise.all(contenders.map(({ close }) => close()))
      const speeds = new Map([...rounds].map(([name, all]) => [name, all.map(({ perSecond }) => perSecond)]))
      const base = speeds.get(scene.contenders[0])
      const results = contenders.map(({ name }) => ({
        name,
        callsPerSecond: median(speeds.get(name)),
        ratio: ratioOf(speeds.get(name), base),
        commandsPerCall: median(rounds.get(name).map(({ commandsPerCall }) => commandsPerCall)),
        rounds: speeds.get(name),
      }))
      scenes.push({ name: scene.name, results, targets: targetsOf(scene.targets, speeds) })
    }
    return { scenes }
  } finally {
    await client.close()
    await server.stop()
  }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ scenes }) {
  for (const { name, results, targets } of scenes) {
    const rows = results.map((result) => [
      result.name,
      Math.round(result.callsPerSecond).toLocaleString('en'),
      result.ratio.toFixed(2),
      `${(100 * result.commandsPerCall).toFixed(2)}`,
    ])
    printColumns([name, 'calls/s', 'x leased', 'commands per 100 calls'], rows)
    printTargets(targets)
  }
}
