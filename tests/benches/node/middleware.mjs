/** Express 5 and Fastify 5 in separate processes, under autocannon: the cost of a middleware for all requests. */
import { fire } from './cannon.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, ratioOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'
import { startServer } from './serving.mjs'

export const title = 'Middleware: Express and Fastify, one server process, 64 connections of autocannon'

/** The packages in the comparison, whose versions are reported. */
export const peers = [
  'express',
  'fastify',
  'autocannon',
  'express-rate-limit',
  'rate-limit-redis',
  '@fastify/rate-limit',
  'ioredis',
  'redis',
]

export const paces = {
  full: { rounds: 7, turnMs: 2_000, warmUpMs: 2_000 },
  quick: { rounds: 3, turnMs: 500, warmUpMs: 1_000 },
}

const CONNECTIONS = 64

const KEYS = 10_000

const BY_KEY = Array.from({ length: KEYS }, (_, number) => ({ 'X-API-Key': `user-${number}` }))

const BY_ADDRESS = Array.from({ length: KEYS }, (_, number) => {
  return { 'X-Forwarded-For': `10.1.${number >> 8}.${number & 255}` }
})

/** The names in `middleware-server.mjs`, and those in `fastify-server.mjs`. */
const NONE = 'no limiter'
const EMBEDDED = 'tollgate'
const EMBEDDED_PEER = 'express-rate-limit'
const REDIS = 'tollgate, Redis'
const REDIS_PEERS = ['rate-limit-redis, ioredis', 'rate-limit-redis, node-redis']

const FASTIFY_NONE = 'Fastify, no limiter'
const FASTIFY = 'Fastify, tollgate'
const FASTIFY_PEER = 'Fastify, @fastify/rate-limit'
const FASTIFY_REDIS = 'Fastify, tollgate, Redis'
const FASTIFY_REDIS_PEER = 'Fastify, @fastify/rate-limit, ioredis'

const UNLIMITED = [NONE, 'empty middleware', FASTIFY_NONE]

const SERVERS = [
  ...UNLIMITED,
  EMBEDDED,
  'tollgate, metrics',
  EMBEDDED_PEER,
  REDIS,
  'tollgate, Redis, metrics',
  ...REDIS_PEERS,
  'tollgate, by address',
  'express-rate-limit, by address',
  FASTIFY_NONE,
  FASTIFY,
  FASTIFY_PEER,
  FASTIFY_REDIS,
  FASTIFY_REDIS_PEER,
]

/** @type {import('./report.mjs').Target[]} */
const TARGETS = [
  { of: EMBEDDED, to: EMBEDDED_PEER, figure: 'requests/s', atLeast: 1.2 },
  { of: REDIS, to: REDIS_PEERS[0], figure: 'requests/s', atLeast: 1.3 },
  { of: REDIS, to: REDIS_PEERS[1], figure: 'requests/s', atLeast: 1.2 },
  { of: EMBEDDED, to: NONE, figure: 'requests/s', atLeast: 0.9 },
  { of: REDIS, to: NONE, figure: 'requests/s', atLeast: 0.92 },
  { of: FASTIFY, to: FASTIFY_PEER, figure: 'requests/s', atLeast: 1 },
  { of: FASTIFY_REDIS, to: FASTIFY_REDIS_PEER, figure: 'requests/s', atLeast: 1 },
]

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  const servers = []
  try {
    for (const name of SERVERS) {
      const server = { name, ...(await startServer(fileOf(name), [name, redis.url])) }
      servers.push(server)
      await checkFields(server)
    }
    const measured = await interleave(servers, pace, (server, millis) => {
      return fire(server, { headers: headersFor(server.name), connections: CONNECTIONS, millis })
    })
    const speeds = new Map(
      [...measured].map(([name, rounds]) => [name, rounds.map((round) => round.requestsPerSecond)]),
    )
    return {
      conditions: [
        `redis-server ${await redis.version()} and autocannon's process are on this machine, too`,
        '10,000 keys, from a request header; in lines with "by address", the key is the default one: the client address that a trusted proxy passes on',
        'all middlewares use a fixed window and send the headers of draft 8; every answer has status 200 (both are checked)',
        '@fastify/rate-limit sends the headers of draft 3; the figures of Fastify are divided by those of Fastify without a limiter',
      ],
      results: [...measured].map(([name, rounds]) => resultOf(name, rounds, speeds)),
      targets: targetsOf(TARGETS, speeds),
    }
  } finally {
    await Promise.all(servers.map(({ close }) => close()))
    await redis.stop()
  }
}

const isFastify = (name) => name.startsWith('Fastify')

function fileOf(name) {
  return isFastify(name) ? 'fastify-server.mjs' : 'middleware-server.mjs'
}

function headersFor(name) {
  return name.endsWith('by address') ? BY_ADDRESS : BY_KEY
}

/** The peer of Fastify sends the separate fields of earlier drafts. */
const LIMITED_BY_DRAFT_3 = [FASTIFY_PEER, FASTIFY_REDIS_PEER]

/** Throws unless a server sends the expected headers. */
async function checkFields({ name, port }) {
  const { status, headers } = await fetch(`http://127.0.0.1:${port}/`, { headers: headersFor(name)[0] })
  const isLimited = /^"[^"]+"; ?r=7999; ?t=\d+/.test(headers.get('ratelimit') ?? '')
  const isTold = /^"[^"]+"; ?q=8000; ?w=3600/.test(headers.get('ratelimit-policy') ?? '')
  const hasAny = headers.has('ratelimit') || headers.has('ratelimit-policy')
  if (LIMITED_BY_DRAFT_3.includes(name)) {
    if (status !== 200 || headers.get('ratelimit-remaining') !== '7999') {
      throw new Error(`${name}: status ${status}, with other fields than those of draft 3`)
    }
    return
  }
  if (status !== 200 || (UNLIMITED.includes(name) ? hasAny : !isLimited || !isTold)) {
    throw new Error(`${name}: status ${status}, with other fields than those of draft 8`)
  }
}

function resultOf(name, rounds, speeds) {
  const medians = Object.keys(rounds[0]).map((figure) => [figure, median(rounds.map((round) => round[figure]))])
  const ratioToNone = ratioOf(speeds.get(name), speeds.get(isFastify(name) ? FASTIFY_NONE : NONE))
  return { name, ...Object.fromEntries(medians), ratioToNone, rounds }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, results, targets }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  const head = ['middleware', 'requests/s', 'range', 'x none', 'p50 ms', 'p99 ms', 'server CPU us', 'client CPU us']
  printColumns(head, results.map(rowOf))
  printTargets(targets)
}

function rowOf(result) {
  const speeds = result.rounds.map(({ requestsPerSecond }) => requestsPerSecond)
  return [
    result.name,
    result.requestsPerSecond.toFixed(0),
    `${Math.min(...speeds).toFixed(0)}-${Math.max(...speeds).toFixed(0)}`,
    result.ratioToNone.toFixed(2),
    result.p50Millis.toFixed(2),
    result.p99Millis.toFixed(2),
    result.serverMicros.toFixed(1),
    result.clientMicros.toFixed(1),
  ]
}
