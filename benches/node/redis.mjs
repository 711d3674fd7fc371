/** Over Redis: one process, one server on the same machine, allowed decisions. */
import { setTimeout as sleep } from 'node:timers/promises'
import { load, visitAll } from './load.mjs'
import { CONTENDERS, FIXED_WINDOW, GCRA, LIMIT, OF_THREE, PEER, THREE, UNION } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, ratioOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'Redis: one process, one server'

/** The packages compared: their versions are reported. */
export const peers = ['rate-limiter-flexible', 'ioredis', 'redis']

export const paces = {
  full: { rounds: 7, turnMs: 400, warmUpMs: 400 },
  quick: { rounds: 3, turnMs: 150, warmUpMs: 150 },
}

const KEYS = Array.from({ length: 10_000 }, (_, number) => `user:${number}`)

/**
 * @typedef {object} Scene
 * @property {string} title
 * @property {number} inFlight
 * @property {number} limiters
 * @property {import('./report.mjs').Target[]} targets
 * @property {typeof CONTENDERS} contenders
 * @property {string} peer - The contender that the others are compared to.
 */

/** @type {Scene[]} */
const SCENES = [
  scene(1, 1, [{ of: GCRA, to: PEER, atLeast: 0.7 }]),
  scene(64, 1, [
    { of: GCRA, to: PEER, atLeast: 1.7 },
    { of: FIXED_WINDOW, to: PEER, atLeast: 2.3 },
  ]),
  scene(512, 1, [
    { of: GCRA, to: PEER, atLeast: 3 },
    { of: FIXED_WINDOW, to: PEER, atLeast: 5 },
    { of: GCRA, to: PEER, figure: 'cpuMicros', atMost: 0.2 },
    { of: FIXED_WINDOW, to: PEER, figure: 'cpuMicros', atMost: 0.2 },
  ]),
  scene(64, 16, []),
  {
    ...scene(64, 1, [
      { of: THREE, to: UNION, atLeast: 3 },
      { of: THREE, to: GCRA, figure: 'redisMicros', atMost: 2.5 },
    ]),
    title: '64 in flight, three limits each',
    contenders: OF_THREE,
    peer: UNION,
  },
]

function scene(inFlight, limiters, targets) {
  const of = limiters === 1 ? '' : `, ${limiters} limiters on one connection`
  return { title: `${inFlight} in flight${of}`, inFlight, limiters, targets, contenders: CONTENDERS, peer: PEER }
}

/** So many calls are under way while the keys are visited, unmeasured, before a turn. */
const VISITORS = 512

/** After that, so long nothing happens: a turn is not to pay for what the visits left to be tidied up. */
const REST_MS = 100

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  try {
    const scenes = []
    for (const each of SCENES) {
      scenes.push(await play(each, pace, redis))
    }
    const conditions = [
      `redis-server ${await redis.version()} on this machine, without persistence`,
      '10,000 keys (user:0 to user:9999), visited round robin, all known to Redis before a turn',
      `${LIMIT} units per key and hour: every decision is allowed (this is checked)`,
    ]
    return { conditions, scenes }
  } finally {
    await redis.stop()
  }
}

/** @param {Scene} scene */
async function play({ title, inFlight, limiters, targets, contenders: opened, peer }, pace, redis) {
  const contenders = []
  try {
    for (const [name, open] of Object.entries(opened)) {
      contenders.push({ name, ...(await open(redis.url, limiters)) })
    }
    const measured = await interleave(contenders, pace, async (contender, millis) => {
      // Nobody's keys add up over the rounds, or are in the way of another's.
      await redis.flush()
      await visitAll(contender, KEYS, VISITORS)
      await sleep(REST_MS)
      const before = await redis.usage()
      const measures = await load(contender, { keys: KEYS, inFlight, millis })
      const after = await redis.usage()
      return {
        ...measures,
        redisMicros: (after.cpuMicros - before.cpuMicros) / measures.calls,
        callsPerScript: measures.calls / (after.scripts - before.scripts),
      }
    })
    const results = resultsOf(measured, peer)
    return { title, inFlight, limiters, peer, results, targets: judged(targets, measured, title) }
  } finally {
    await Promise.all(contenders.map(({ close }) => close()))
  }
}

const OURS = [GCRA, FIXED_WINDOW, THREE]

/** The medians of the rounds, and the ratios of their speeds. */
function resultsOf(measured, peer) {
  const speeds = figuresOf(measured, 'callsPerSecond')
  const others = [...speeds.keys()].filter((name) => !OURS.includes(name))
  const best = others.reduce((a, b) => (median(speeds.get(a)) >= median(speeds.get(b)) ? a : b))
  return [...measured].map(([name, rounds]) => {
    const medians = Object.keys(rounds[0]).map((figure) => [figure, median(rounds.map((round) => round[figure]))])
    return {
      name,
      ...Object.fromEntries(medians),
      ratioToPeer: ratioOf(speeds.get(name), speeds.get(peer)),
      ratioToBest: ratioOf(speeds.get(name), speeds.get(best)),
      isBestPeer: name === best,
      rounds,
    }
  })
}

/** One figure, by contender and round. */
function figuresOf(measured, figure) {
  return new Map([...measured].map(([name, rounds]) => [name, rounds.map((round) => round[figure])]))
}

const FIGURES = { callsPerSecond: 'calls/s', cpuMicros: 'CPU per call', redisMicros: "Redis's CPU per call" }

function judged(targets, measured, where) {
  return targets.flatMap(({ figure = 'callsPerSecond', ...target }) => {
    return targetsOf([{ ...target, figure: `${FIGURES[figure]}, ${where}` }], figuresOf(measured, figure))
  })
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, scenes }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  for (const { title, inFlight, peer, results } of scenes) {
    const latency = inFlight === 1 ? ['p50 us', 'p99 us'] : []
    const ratios = [peer === PEER ? 'x rlf+ioredis' : 'x union', 'x best other']
    const head = [title, 'calls/s', 'range', ...ratios, 'CPU us', 'Redis us', 'calls/script', ...latency]
    printColumns(head, results.map(rowOf))
  }
  printTargets(scenes.flatMap(({ targets }) => targets))
}

function rowOf(result) {
  const speeds = result.rounds.map(({ callsPerSecond }) => callsPerSecond)
  const latency = result.p50Micros === undefined ? [] : [result.p50Micros.toFixed(0), result.p99Micros.toFixed(0)]
  return [
    result.name,
    thousands(result.callsPerSecond),
    `${thousands(Math.min(...speeds))}-${thousands(Math.max(...speeds))}`,
    result.ratioToPeer.toFixed(2),
    result.ratioToBest.toFixed(2),
    result.cpuMicros.toFixed(2),
    result.redisMicros.toFixed(2),
    result.callsPerScript.toFixed(1),
    ...latency,
  ]
}

function thousands(count) {
  return `${(count / 1_000).toFixed(1)}k`
}
