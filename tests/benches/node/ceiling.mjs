/** Compares tollgate with the maximum of the server for the same script and batch. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fixedWindow, gcra } from 'tollgate'
import { failureOf, minded } from './children.mjs'
import { load, visitAll } from './load.mjs'
import { tollgate } from './redis-contenders.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, ratioOf, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'
import { numbered } from './sweep.mjs'
import { scriptFor } from './tap.mjs'

export const title = 'Ceiling: tollgate beside redis-benchmark with its scripts'

export const peers = []

export const paces = {
  full: { rounds: 7, turnMs: 400, warmUpMs: 400 },
  quick: { rounds: 3, turnMs: 150, warmUpMs: 150 },
}

/** Key names with twelve digits, because redis-benchmark writes twelve for each `__rand_int__`. */
const KEYS = numbered(10_000).map((key) => key.replace(/\d+$/, (digits) => digits.padStart(12, '0')))
const LEAD_IN_MS = 100

/** This number of decisions on random keys visits nearly all keys. */
const VISITS = 10 * KEYS.length

/** Connections, and scripts in flight on each. The fastest pair in a trial is measured. */
const WAYS = [
  [1, 2],
  [1, 4],
  [2, 2],
  [2, 4],
  [4, 4],
]

/** The units of a key: a turn takes up to 32,000 from each of sixteen keys, and no call may be refused. */
const LIMIT = 40_000

/** The most scripts that the units of a key allow, after the visits. */
const MOST_SCRIPTS = LIMIT - 8_000

const SCENES = [
  { kind: 'gcra', policy: gcra({ limit: LIMIT, period: '1h' }), inFlight: 512, atLeast: 0.85 },
  { kind: 'gcra', policy: gcra({ limit: LIMIT, period: '1h' }), inFlight: 64 },
  { kind: 'fixedWindow', policy: fixedWindow({ limit: LIMIT, window: '1h' }), inFlight: 512 },
]

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const redis = await startRedis()
  try {
    const scenes = []
    for (const scene of SCENES) {
      scenes.push(await play(scene, pace, redis))
    }
    const conditions = [
      `redis-server ${await redis.version()} on this machine, without persistence`,
      "redis-benchmark repeats one of tollgate's EVALSHA commands, with the command's own keys or with keys that it draws at random from 10,000",
      'tollgate visits either the keys of this command or 10,000 keys, round robin; the benchmark checks that every decision is allowed',
    ]
    return { conditions, scenes }
  } finally {
    await redis.stop()
  }
}

async function play({ kind, policy, inFlight, atLeast }, pace, redis) {
  const caught = await scriptFor(policy, `caught-${kind}-${inFlight}`, { keys: KEYS, inFlight }, redis)
  const batch = caught.keys.length
  const command = await textual(caught, redis)
  const few = KEYS.slice(0, batch)
  const opened = await tollgate(policy, `own-${kind}-${inFlight}`, redis.url, 1)
  const bare = await benchmarked("the script's keys", command, batch, redis)
  const spread = await benchmarked('10,000 keys', drawn(command), batch, redis)
  const [same, many] = [`tollgate ${kind}, the script's keys`, `tollgate ${kind}, 10,000 keys`]
  const contenders = [
    bare,
    { name: same, beside: bare.name, turn: (millis) => measured(same, few, millis) },
    spread,
    { name: many, beside: spread.name, turn: (millis) => measured(many, KEYS, millis) },
  ]

  async function measured(name, keys, millis) {
    const contender = { name, ...opened }
    await visitAll(contender, keys, inFlight)
    await load(contender, { keys, inFlight, millis: LEAD_IN_MS })
    const before = await redis.usage()
    const { calls, callsPerSecond } = await load(contender, { keys, inFlight, millis })
    const after = await redis.usage()
    return {
      callsPerSecond,
      redisMicros: (after.cpuMicros - before.cpuMicros) / calls,
      callsPerScript: calls / (after.scripts - before.scripts),
    }
  }

  try {
    const rounds = await interleave(contenders, pace, async ({ turn }, millis) => {
      await redis.flush()
      await sleep(20)
      return turn(millis)
    })
    const speeds = new Map([...rounds].map(([name, each]) => [name, each.map((round) => round.callsPerSecond)]))
    const beside = new Map(contenders.map((one) => [one.name, one.beside ?? one.name]))
    const results = [...rounds].map(([name, each]) => ({
      name,
      ...Object.fromEntries(Object.keys(each[0]).map((figure) => [figure, median(each.map((one) => one[figure]))])),
      ratio: ratioOf(speeds.get(name), speeds.get(beside.get(name))),
      rounds: each,
    }))
    const title = `${kind}, ${inFlight} in flight, scripts of ${batch}`
    const targets =
      atLeast === undefined ? [] : [{ of: many, to: spread.name, figure: `decisions/s, ${title}`, atLeast }]
    return { title, results, targets: targetsOf(targets, speeds) }
  } finally {
    await opened.close()
  }
}

/**
 * The command for redis-benchmark, whose arguments end at a zero byte. So the script contains its
 * only argument, which is binary.
 *
 * @param {import('./tap.mjs').Caught} caught
 */
async function textual({ body, keys, request }, redis) {
  const escaped = [...request].map((byte) => `\\${String(byte).padStart(3, '0')}`).join('')
  const hash = await redis.command('SCRIPT', 'LOAD', `ARGV[1] = "${escaped}"\n${body}`)
  return ['EVALSHA', hash, `${keys.length}`, ...keys]
}

/** The same with other keys in each request. */
function drawn(command) {
  return command.map((word) => word.replace(/\d{12}(?=\}$)/, '__rand_int__'))
}

/** The approximate number of scripts in a turn. */
function scriptsIn(millis, batch) {
  return Math.min(MOST_SCRIPTS, Math.ceil((millis * 1_000) / batch))
}

/** redis-benchmark with a command, and the fastest settings of a trial. */
async function benchmarked(keys, command, batch, redis) {
  const visited = async (way, millis) => {
    await benchmark(command, batch, way, Math.ceil(VISITS / batch), redis)
    return benchmark(command, batch, way, scriptsIn(millis, batch), redis)
  }
  const speeds = []
  for (const way of WAYS) {
    await redis.flush()
    speeds.push((await visited(way, 300)).callsPerSecond)
  }
  const way = WAYS[speeds.indexOf(Math.max(...speeds))]
  const name = `redis-benchmark, ${keys}, ${way[0]} connections, ${way[1]} scripts on each`
  return { name, turn: (millis) => visited(way, millis) }
}

/** Sends a command with redis-benchmark, and counts the decisions in it. */
async function benchmark(command, batch, [clients, pipeline], atLeast, redis) {
  // It sends pipelines, and may report a pipeline that is not full as the loss of its clients.
  const scripts = Math.ceil(atLeast / pipeline) * pipeline
  const under = ['-c', `${clients}`, '-P', `${pipeline}`, '-n', `${scripts}`, '-r', `${KEYS.length}`]
  const words = ['-p', `${redis.port}`, ...under, '--csv']
  const before = await redis.usage()
  const child = minded(spawn('redis-benchmark', [...words, ...command], { stdio: ['ignore', 'pipe', 'pipe'] }))
  const failure = failureOf(child, 'redis-benchmark must be installed (Debian: apt-get install redis-tools)')
  failure.catch(() => {})
  const output = Promise.all([text(child.stdout), text(child.stderr)])
  const ended = once(child, 'close')
  const [code] = await Promise.race([ended, failure.catch(() => ended)])
  const [said, complained] = await output
  const after = await redis.usage()
  const lines = said.trim().split('\n')
  const requestsPerSecond = Number(lines.at(-1).split('","').at(1)?.replaceAll('"', ''))
  const ran = after.scripts - before.scripts
  if (code !== 0 || !(requestsPerSecond > 0) || ran < scripts) {
    throw new Error(`redis-benchmark ran ${ran} of ${scripts} scripts: ${complained}${said}`)
  }
  return {
    callsPerSecond: requestsPerSecond * batch,
    redisMicros: (after.cpuMicros - before.cpuMicros) / (ran * batch),
    callsPerScript: batch,
  }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, scenes }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  for (const { title, results } of scenes) {
    const rows = results.map(({ name, callsPerSecond, ratio, redisMicros, callsPerScript }) => [
      name,
      `${(callsPerSecond / 1_000).toFixed(1)}k`,
      ratio.toFixed(2),
      redisMicros.toFixed(2),
      callsPerScript.toFixed(1),
    ])
    printColumns([title, 'decisions/s', 'x redis-benchmark', 'Redis us', 'calls/script'], rows)
  }
  printTargets(scenes.flatMap(({ targets }) => targets))
}
