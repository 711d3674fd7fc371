/** Over Redis: the server's cost for each algorithm, compared with a plain INCR per key. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { RateLimiter, RedisStore } from 'tollgate'
import { load, visitAll } from './load.mjs'
import { POLICIES } from './policies.mjs'
import { flexible, ioredis, PEER } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, ratioOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'Algorithms over Redis: 512 calls in flight'

/** The packages in the comparison, whose versions are reported. */
export const peers = ['rate-limiter-flexible', 'ioredis']

export const paces = {
  full: { rounds: 7, turnMs: 400, warmUpMs: 400 },
  quick: { rounds: 3, turnMs: 150, warmUpMs: 150 },
}

const IN_FLIGHT = 512
const BATCH = 128
const LIMIT = 8_000

const INCR = 'INCR in scripts of 128'

/** The largest allowed ratio of a constant-time decision to an INCR, in CPU of the server. */
const MOST_TIMES_INCR = 6

/** The largest allowed ratio of a list of 1,000 buckets to a list of 10. */
const MOST_TIMES_SHORT_LIST = 1.5

const [SHORT_LIST, LONG_LIST] = ['slidingWindow, list of 10', 'slidingWindow, list of 1000']

/**
 * @typedef {object} Scene
 * @property {string} title
 * @property {string[]} keys
 * @property {`${number}${'s' | 'h'}`} window
 * @property {number} leadInMs Time of unmeasured calls before a turn.
 * @property {boolean} hasPeer Whether rate-limiter-flexible, which counts in fixed windows, is
 *   compared.
 * @property {import('./policies.mjs').Contender[]} policies
 * @property {import('./report.mjs').Target[]} targets
 */

/** @type {Scene[]} */
const SCENES = [
  {
    title: 'units per hour, 10,000 keys',
    keys: numbered(10_000),
    window: '1h',
    leadInMs: 0,
    policies: POLICIES,
    hasPeer: true,
    targets: POLICIES.filter(({ isConstant }) => isConstant).flatMap(({ name: of }) => [
      { of, to: INCR, atMost: MOST_TIMES_INCR },
      { of, to: PEER, below: 1 },
    ]),
  },
  {
    // A thousand buckets of a millisecond each. Most are in use, and some expire before each call.
    title: 'units per second, 512 keys, long lists',
    keys: numbered(IN_FLIGHT),
    window: '1s',
    leadInMs: 1_200,
    hasPeer: false,
    policies: POLICIES.filter(({ name }) => name === SHORT_LIST || name === LONG_LIST),
    targets: [{ of: LONG_LIST, to: SHORT_LIST, atMost: MOST_TIMES_SHORT_LIST }],
  },
]

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  try {
    const scenes = []
    for (const scene of SCENES.filter(({ policies }) => policies.length > 1)) {
      scenes.push(await play(scene, pace, redis))
    }
    const conditions = [
      `redis-server ${await redis.version()} on this machine, without persistence`,
      `the limit is ${LIMIT} units per key; keys are visited round robin; the benchmark checks that every decision is allowed`,
    ]
    return { conditions, scenes }
  } finally {
    await redis.stop()
  }
}

/** @param {Scene} scene */
async function play({ title, keys, window, leadInMs, hasPeer, policies, targets }, pace, redis) {
  const contenders = [await incr(redis.url)]
  try {
    if (hasPeer) contenders.push(turns(PEER, flexible('plain', ioredis(redis.url), 1)))
    for (const { name, make } of policies) {
      contenders.push(await limiter(name, make(LIMIT, window), redis.url))
    }
    const measured = await interleave(contenders, pace, async (contender, millis) => {
      await redis.flush()
      await contender.visit(keys)
      if (leadInMs > 0) await contender.load(keys, leadInMs)
      // A turn must not pay for earlier work.
      await sleep(100)
      const before = await redis.usage()
      const { calls, callsPerSecond, cpuMicros } = await contender.load(keys, millis)
      const after = await redis.usage()
      return {
        callsPerSecond,
        cpuMicros,
        redisMicros: (after.cpuMicros - before.cpuMicros) / calls,
        callsPerScript: calls / (after.scripts - before.scripts),
      }
    })
    const figures = new Map([...measured].map(([name, rounds]) => [name, rounds.map(({ redisMicros }) => redisMicros)]))
    const results = [...measured].map(([name, rounds]) => ({
      name,
      ...medians(rounds),
      ratioToIncr: ratioOf(figures.get(name), figures.get(INCR)),
      rounds,
    }))
    const named = targets.map((target) => ({ ...target, figure: `Redis's CPU per decision, ${title}` }))
    return { title, results, targets: targetsOf(named, figures) }
  } finally {
    await Promise.all(contenders.map(({ close }) => close()))
  }
}

function medians(rounds) {
  return Object.fromEntries(Object.keys(rounds[0]).map((figure) => [figure, median(rounds.map((one) => one[figure]))]))
}

async function limiter(name, policy, url) {
  const store = new RedisStore(url)
  const limiter = new RateLimiter(policy, { store, prefix: 'bench' })
  await limiter.ready()
  return turns(name, {
    calls: [(key) => limiter.take(key)],
    isAllowed: ({ allowed }) => allowed,
    async close() {
      await limiter.close()
      await store.close()
    },
  })
}

/** The turn of a contender. */
function turns(name, opened) {
  const contender = { name, ...opened }
  return {
    name,
    visit: (keys) => visitAll(contender, keys, IN_FLIGHT),
    load: (keys, millis) => load(contender, { keys, inFlight: IN_FLIGHT, millis }),
    close: opened.close,
  }
}

/** The cheapest decision in a script: it increments the count, and returns nothing. */
async function incr(url) {
  const client = new Redis(url)
  const script = await client.script('LOAD', "for i = 1, #KEYS do redis.call('INCR', KEYS[i]) end")
  const batch = (names) => client.evalsha(script, names.length, ...names)
  // Key names as long as those of the limiters.
  const nameOf = (key) => `bench:default:incr:{${key}}`

  async function visit(keys) {
    for (let at = 0; at < keys.length; at += BATCH) {
      await batch(keys.slice(at, at + BATCH).map(nameOf))
    }
  }

  async function load(keys, millis) {
    const names = keys.map(nameOf)
    let calls = 0
    const cpu = process.cpuUsage()
    const start = performance.now()
    async function caller() {
      while (performance.now() - start < millis) {
        const at = calls % names.length
        calls += BATCH
        await batch([...names, ...names.slice(0, BATCH)].slice(at, at + BATCH))
      }
    }
    await Promise.all(Array.from({ length: IN_FLIGHT / BATCH }, caller))
    const { user, system } = process.cpuUsage(cpu)
    const seconds = (performance.now() - start) / 1_000
    return { calls, callsPerSecond: calls / seconds, cpuMicros: (user + system) / calls }
  }

  return { name: INCR, visit, load, close: () => client.quit() }
}

function numbered(count) {
  return Array.from({ length: count }, (_, number) => `user:${number}`)
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, scenes }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  for (const { title, results } of scenes) {
    printColumns([title, 'decisions/s', 'range', 'Redis us', 'x INCR', 'CPU us', 'calls/script'], results.map(rowOf))
  }
  printTargets(scenes.flatMap(({ targets }) => targets))
}

function rowOf({ name, callsPerSecond, redisMicros, ratioToIncr, cpuMicros, callsPerScript, rounds }) {
  const speeds = rounds.map((round) => round.callsPerSecond)
  return [
    name,
    thousands(callsPerSecond),
    `${thousands(Math.min(...speeds))}-${thousands(Math.max(...speeds))}`,
    redisMicros.toFixed(2),
    ratioToIncr.toFixed(2),
    cpuMicros.toFixed(2),
    callsPerScript.toFixed(1),
  ]
}

function thousands(count) {
  return `${(count / 1_000).toFixed(1)}k`
}
