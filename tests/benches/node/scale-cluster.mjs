/**
 * Compares Redis Cluster with one server: the benefit of batches, and the remaining benefit when
 * keys are in many slots.
 */
import { Cluster, Redis } from 'ioredis'
import { gcra } from 'tollgate'
import { load, visitAll } from './load.mjs'
import { startCluster } from './redis-cluster.mjs'
import { flexible, ioredis, LIMIT, tollgate } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, ratioOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'
import { numbered } from './sweep.mjs'
import { scriptFor } from './tap.mjs'

export const title = 'Scale: Redis Cluster beside one server'

export const peers = ['rate-limiter-flexible', 'ioredis']

export const paces = {
  full: { rounds: 7, turnMs: 400, warmUpMs: 400 },
  quick: { rounds: 3, turnMs: 150, warmUpMs: 150 },
}

const KEYS = numbered(10_000)
const IN_FLIGHT = 512
const LEAD_IN_MS = 100
const POLICY = gcra({ limit: LIMIT, period: '1h' })

const SINGLE = 'one EVALSHA per key, pipelined by ioredis'

const APART = 'tollgate gcra, cluster'

/** Half of the CPU that a decision took when each key had a script of its own. */
const TARGETS = [{ of: APART, figure: 'redisMicros', atMost: 6.2 }]

/** Contenders by name: their servers, and the functions that open them. */
const CONTENDERS = {
  [APART]: ['cluster', ({ nodes }) => tollgate(POLICY, 'apart', { cluster: { nodes } }, 1)],
  'tollgate gcra, cluster, 256 tags': ['cluster', ({ nodes }) => tagged(nodes, 256)],
  'tollgate gcra, cluster, 32 tags': ['cluster', ({ nodes }) => tagged(nodes, 32)],
  'rate-limiter-flexible + ioredis, cluster': ['cluster', flexibleCluster],
  [SINGLE]: ['server', singleKeys],
  'tollgate gcra': ['server', ({ url }) => tollgate(POLICY, 'gcra', url, 1)],
  'rate-limiter-flexible + ioredis': ['server', ({ url }) => flexible('plain', ioredis(url), 1)],
}

function tagged(nodes, tags) {
  return tollgate(POLICY, `tags-${tags}`, { cluster: { nodes, tags } }, 1)
}

async function flexibleCluster({ nodes }) {
  const client = new Cluster(nodes)
  return flexible('cluster', { storeClient: client, close: () => client.quit() }, 1)
}

/**
 * tollgate's own script with one key per call, as in a cluster without tags. The client sends all
 * calls at once.
 */
async function singleKeys(redis) {
  const { hash, keys, request } = await scriptFor(POLICY, 'single', { keys: ['KEY'], inFlight: 1 }, redis)
  const client = new Redis(redis.url, { enableAutoPipelining: true })
  const named = new Map(KEYS.map((key) => [key, keys[0].replace('KEY', key)]))
  return {
    calls: [(key) => client.evalshaBuffer(hash, 1, named.get(key), request)],
    isAllowed: (reply) => reply.length > 0,
    close: () => client.quit(),
  }
}

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const places = { server: await startRedis(), cluster: await startCluster() }
  const contenders = []
  try {
    for (const [name, [place, open]] of Object.entries(CONTENDERS)) {
      contenders.push({ name, place: places[place], ...(await open(places[place])) })
    }
    for (const contender of contenders) {
      await visitAll(contender, KEYS, IN_FLIGHT)
    }
    const measured = await interleave(contenders, pace, async (contender, millis) => {
      const options = { keys: KEYS, inFlight: IN_FLIGHT }
      await load(contender, { ...options, millis: LEAD_IN_MS })
      const before = await contender.place.usage()
      const { calls, callsPerSecond, cpuMicros } = await load(contender, { ...options, millis })
      const after = await contender.place.usage()
      return {
        callsPerSecond,
        cpuMicros,
        redisMicros: (after.cpuMicros - before.cpuMicros) / calls,
        callsPerScript: calls / (after.scripts - before.scripts),
      }
    })
    const conditions = [
      `redis-server ${await places.server.version()}: one server, and a cluster of three masters, all on this machine`,
      `10,000 keys, visited round robin, ${IN_FLIGHT} calls in flight; the benchmark checks that every decision is allowed`,
      'Redis µs, all servers: the CPU time per call of all servers that receive calls',
    ]
    const redisMicros = new Map([...measured].map(([name, rounds]) => [name, rounds.map((round) => round.redisMicros)]))
    return { conditions, results: resultsOf(measured), targets: targetsOf(TARGETS, redisMicros) }
  } finally {
    await Promise.all(contenders.map(({ close }) => close()))
    await Promise.all(Object.values(places).map((place) => place.stop()))
  }
}

function resultsOf(measured) {
  const figures = (name, figure) => measured.get(name).map((round) => round[figure])
  return [...measured].map(([name, rounds]) => ({
    name,
    ...Object.fromEntries(Object.keys(rounds[0]).map((figure) => [figure, median(figures(name, figure))])),
    redisToSingle: ratioOf(figures(name, 'redisMicros'), figures(SINGLE, 'redisMicros')),
    rounds,
  }))
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, results, targets }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  const rows = results.map(({ name, callsPerSecond, cpuMicros, redisMicros, redisToSingle, callsPerScript }) => [
    name,
    `${(callsPerSecond / 1_000).toFixed(1)}k`,
    cpuMicros.toFixed(2),
    redisMicros.toFixed(2),
    redisToSingle.toFixed(2),
    callsPerScript.toFixed(1),
  ])
  printColumns([`${IN_FLIGHT} in flight`, 'calls/s', 'CPU us', 'Redis us', 'x one per key', 'calls/script'], rows)
  printTargets(targets)
}
