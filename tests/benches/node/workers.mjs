/** Worker threads on one embedded store: the gain of a second thread. */
import { once } from 'node:events'
import { cpus } from 'node:os'
import { Worker } from 'node:worker_threads'
import { median, printColumns, printTargets, targetsOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'Workers: takeSync from several threads on one named store'

export const peers = []

export const paces = {
  full: { rounds: 11, turnMs: 300, warmUpMs: 1_000 },
  quick: { rounds: 3, turnMs: 100, warmUpMs: 300 },
}

const MOST = 2

const CONDITIONS = [
  'gcra, 10,000 keys (user:0 to user:9999) on one `MemoryStore({ name })`; the benchmark checks that every decision is allowed',
  'each worker visits all keys round robin, and begins at a different key',
]

/** @type {import('./report.mjs').Target[]} Calls per second. */
const TARGETS = [{ of: '2 workers', to: '1 worker', atLeast: 1.6 }]

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const workers = await Promise.all(Array.from({ length: MOST }, start))
  const contenders = workers.map((_, index) => {
    const count = index + 1
    return { name: count === 1 ? '1 worker' : `${count} workers`, at: workers.slice(0, count) }
  })
  try {
    const figures = await interleave(contenders, pace, async ({ at }, millis) => {
      const speeds = await Promise.all(at.map((worker) => asked(worker, millis)))
      return speeds.reduce((sum, speed) => sum + speed, 0)
    })
    const results = [...figures].map(([name, rounds]) => ({ name, callsPerSecond: median(rounds), rounds }))
    return { conditions: [...CONDITIONS, `${cpus().length} cores`], results, targets: targetsOf(TARGETS, figures) }
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
}

/** Starts a worker, and waits until it is ready. */
async function start(_, index) {
  const worker = new Worker(new URL('worker-takes.mjs', import.meta.url), { workerData: { part: index / MOST } })
  await heard(worker)
  return worker
}

/** The calls per second of a worker during `millis`. */
function asked(worker, millis) {
  const speed = heard(worker)
  worker.postMessage(millis)
  return speed
}

/** The next message of a worker. Throws its error. */
async function heard(worker) {
  const [said] = await once(worker, 'message')
  return said
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, results, targets }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  const rows = results.map(({ name, callsPerSecond, rounds }) => {
    const [least, most] = [Math.min(...rounds), Math.max(...rounds)].map(inMillions)
    return [name, inMillions(callsPerSecond), `${least}-${most}`]
  })
  printColumns(['takeSync, gcra', 'calls/s', 'range'], rows)
  printTargets(targets)
}

function inMillions(number) {
  return `${(number / 1e6).toFixed(2)}M`
}
