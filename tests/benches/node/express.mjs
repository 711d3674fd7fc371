/** Express 5 in its own process, under 64 connections from this process. Each request has a key. */
import { connectionsTo } from './http-load.mjs'
import { load } from './load.mjs'
import { FIXED_WINDOW, GCRA, LIMIT, PEER } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, ratioOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'
import { startServer } from './serving.mjs'

export const title = 'Express: one server process, 64 connections'

/** The packages in the comparison, whose versions are reported. */
export const peers = ['express', 'rate-limiter-flexible', 'ioredis', 'express-rate-limit']

export const paces = {
  full: { rounds: 7, turnMs: 1_000, warmUpMs: 2_000 },
  quick: { rounds: 3, turnMs: 300, warmUpMs: 1_000 },
}

const CONNECTIONS = 64

const PATHS = Array.from({ length: 10_000 }, (_, number) => `/user-${number}`)

const SERVERS = ['no limiter', GCRA, FIXED_WINDOW, PEER, 'express-rate-limit, memory']

/** @type {import('./report.mjs').Target[]} */
const TARGETS = [{ of: GCRA, to: PEER, figure: 'requests/s', atLeast: 1.15 }]

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  const servers = []
  try {
    for (const name of SERVERS) {
      servers.push(await connectedServer(name, redis.url))
    }
    const measured = await interleave(servers, pace, (server, millis) => turn(server, millis, redis))
    const speeds = new Map([...measured].map(([name, rounds]) => [name, rounds.map((round) => round.callsPerSecond)]))
    return {
      conditions: [
        `redis-server ${await redis.version()} and the client's process are on this machine, too`,
        '10,000 keys, visited round robin; each request is one call of the limiter',
        `the limit is ${LIMIT} units per key and hour, and the benchmark checks that every request is answered with 200`,
      ],
      results: [...measured].map(([name, rounds]) => resultOf(name, rounds, speeds)),
      targets: targetsOf(TARGETS, speeds),
    }
  } finally {
    await Promise.all(servers.map(({ close }) => close()))
    await redis.stop()
  }
}

async function connectedServer(name, redisUrl) {
  const server = await startServer('express-server.mjs', [name, redisUrl])
  const { ask, close } = await connectionsTo(server.port, CONNECTIONS)
  return {
    ...server,
    name,
    calls: [ask],
    isAllowed: (status) => status === 200,
    async close() {
      close()
      await server.close()
    },
  }
}

async function turn(server, millis, redis) {
  const scriptsBefore = (await redis.usage()).scripts
  const cpuBefore = await server.cpuMicros()
  const { cpuMicros, ...measures } = await load(server, { keys: PATHS, inFlight: CONNECTIONS, millis })
  const serverCpu = (await server.cpuMicros()) - cpuBefore
  const scripts = (await redis.usage()).scripts - scriptsBefore
  return {
    ...measures,
    clientMicros: cpuMicros,
    serverMicros: serverCpu / measures.calls,
    // Without Redis there are no figures for it.
    callsPerScript: scripts === 0 ? 0 : measures.calls / scripts,
  }
}

function resultOf(name, rounds, speeds) {
  const medians = Object.keys(rounds[0]).map((figure) => [figure, median(rounds.map((round) => round[figure]))])
  return {
    name,
    ...Object.fromEntries(medians),
    ratioToPeer: ratioOf(speeds.get(name), speeds.get(PEER)),
    ratioToNone: ratioOf(speeds.get(name), speeds.get(SERVERS[0])),
    rounds,
  }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, results, targets }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  const head = [
    'server',
    'requests/s',
    'range',
    'x rlf+ioredis',
    'x none',
    'server CPU us',
    'client CPU us',
    'mean batch',
  ]
  printColumns(head, results.map(rowOf))
  printTargets(targets)
}

function rowOf(result) {
  const speeds = result.rounds.map(({ callsPerSecond }) => callsPerSecond)
  return [
    result.name,
    result.callsPerSecond.toFixed(0),
    `${Math.min(...speeds).toFixed(0)}-${Math.max(...speeds).toFixed(0)}`,
    result.ratioToPeer.toFixed(2),
    result.ratioToNone.toFixed(2),
    result.serverMicros.toFixed(1),
    result.clientMicros.toFixed(1),
    result.callsPerScript === 0 ? '-' : result.callsPerScript.toFixed(1),
  ]
}
