/** Over Redis: one process, one server on the same machine, allowed decisions. */
import { setTimeout as sleep } from 'node:timers/promises'
import { load, visitAll } from './load.mjs'
import {
  CONTENDERS,
  FIXED_WINDOW,
  GCRA,
  LIMIT,
  OF_THOUSANDS,
  OF_THREE,
  PEER,
  THOUSAND,
  THREE,
  UNION,
} from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, ratioOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'Redis: one process, one server'

/** The packages in the comparison, whose versions are reported. */
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
 * @property {string} peer - The others are compared with this contender.
 * @property {boolean} [watchesTimer] - Whether to measure the delay of an unrelated timer.
 */

/** The fastest contender that is not tollgate. It differs between scenes. */
const BEST = 'the best other'

/** Bounds on calls per second, compared with the usual peer and with the best. */
const fasterThan = (of, atLeast) => [PEER, BEST].map((to) => ({ of, to, atLeast }))

/** @type {Scene[]} */
const SCENES = [
  scene(
    1,
    1,
    [GCRA, FIXED_WINDOW].flatMap((of) => [
      ...fasterThan(of, 1),
      { of, to: PEER, figure: 'p50Micros', atMost: 1.03 },
      { of, to: PEER, figure: 'p99Micros', atMost: 1.1 },
    ]),
  ),
  ...[2, 4, 8].map((few) => scene(few, 1, [...fasterThan(FIXED_WINDOW, 1), ...fasterThan(GCRA, 1)])),
  scene(64, 1, [...fasterThan(FIXED_WINDOW, 3), ...fasterThan(GCRA, 2.2)]),
  {
    ...scene(512, 1, [
      ...fasterThan(FIXED_WINDOW, 7),
      ...fasterThan(GCRA, 4),
      { of: GCRA, to: PEER, figure: 'cpuMicros', atMost: 0.125 },
      { of: FIXED_WINDOW, to: PEER, figure: 'cpuMicros', atMost: 0.125 },
      { of: GCRA, figure: 'timerP99Ms', below: 5 },
      { of: FIXED_WINDOW, figure: 'timerP99Ms', below: 5 },
    ]),
    watchesTimer: true,
  },
  { ...scene(512, 1, []), title: `512 in flight, ${THOUSAND.units} units each`, contenders: OF_THOUSANDS },
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

/** Calls in flight during the unmeasured visit of the keys before a turn. */
const VISITORS = 512

/** The pause after that visit, so that a turn does not pay for its clean-up. */
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
      '10,000 keys (user:0 to user:9999), visited round robin, all present in Redis before a turn',
      `the limit is ${LIMIT} units per key and hour, or ${THOUSAND.limit} if calls take ${THOUSAND.units} units; the benchmark checks that every decision is allowed`,
    ]
    return { conditions, scenes }
  } finally {
    await redis.stop()
  }
}

/** @param {Scene} scene */
async function play(scene, pace, redis) {
  const { title, inFlight, limiters, targets, contenders: opened, peer, watchesTimer } = scene
  const contenders = []
  try {
    for (const [name, open] of Object.entries(opened)) {
      contenders.push({ name, ...(await open(redis.url, limiters)) })
    }
    const measured = await interleave(contenders, pace, async (contender, millis) => {
      // Keys must not accumulate over the rounds, or affect another contender.
      await redis.flush()
      await visitAll(contender, KEYS, VISITORS)
      await sleep(REST_MS)
      const before = await redis.usage()
      const measures = await load(contender, { keys: KEYS, inFlight, millis, watchesTimer })
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
  const best = bestOf(speeds)
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

/** The fastest contender that is not tollgate. */
function bestOf(speeds) {
  const others = [...speeds.keys()].filter((name) => !OURS.includes(name))
  return others.reduce((a, b) => (median(speeds.get(a)) >= median(speeds.get(b)) ? a : b))
}

/** One figure, by contender and round. */
function figuresOf(measured, figure) {
  return new Map([...measured].map(([name, rounds]) => [name, rounds.map((round) => round[figure])]))
}

const FIGURES = {
  callsPerSecond: 'calls/s',
  cpuMicros: 'CPU per call',
  redisMicros: "Redis's CPU per call",
  p50Micros: 'p50',
  p99Micros: 'p99',
  timerP99Ms: 'p99 of a timer being late, ms',
}

function judged(targets, measured, where) {
  const best = bestOf(figuresOf(measured, 'callsPerSecond'))
  return targets.flatMap(({ figure = 'callsPerSecond', to, ...target }) => {
    const isToBest = to === BEST
    const what = isToBest ? `${FIGURES[figure]} of the best other` : FIGURES[figure]
    const one = { ...target, to: isToBest ? best : to, figure: `${what}, ${where}` }
    return targetsOf([one], figuresOf(measured, figure))
  })
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, scenes }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  for (const { title, inFlight, peer, results } of scenes) {
    const latency = inFlight === 1 ? ['p50 us', 'p99 us'] : results[0].timerP99Ms === undefined ? [] : ['timer p99 ms']
    const ratios = [peer === PEER ? 'x rlf+ioredis' : 'x union', 'x best other']
    const head = [title, 'calls/s', 'range', ...ratios, 'CPU us', 'Redis us', 'calls/script', ...latency]
    printColumns(head, results.map(rowOf))
  }
  printTargets(scenes.flatMap(({ targets }) => targets))
}

function rowOf(result) {
  const speeds = result.rounds.map(({ callsPerSecond }) => callsPerSecond)
  const { p50Micros, p99Micros, timerP99Ms } = result
  const latency = p50Micros === undefined ? [] : [p50Micros.toFixed(0), p99Micros.toFixed(0)]
  const timer = timerP99Ms === undefined ? [] : [timerP99Ms.toFixed(1)]
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
    ...timer,
  ]
}

function thousands(count) {
  return `${(count / 1_000).toFixed(1)}k`
}
