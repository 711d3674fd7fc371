/** Jobs of BullMQ in 20 groups, of which one has most of the jobs: two processes with workers. */
import { fork } from 'node:child_process'
import { on } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Queue } from 'bullmq'
import { end, failureOf, minded } from './children.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets } from './report.mjs'

export const title = 'Jobs of BullMQ: 20 groups with skewed load, two workers'

export const peers = ['bullmq']

export const paces = { full: { rounds: 3, large: 500, free: 10_000 }, quick: { rounds: 1, large: 200, free: 2_000 } }

const GROUPS = 20
const SMALL = 50

/** Jobs per second of a group. The queue may run as many as all groups together. */
const PER_GROUP = 50

const NAMES = { tollgate: 'tollgate/bullmq', limiter: "BullMQ's limiter", none: 'BullMQ without limits' }

/** Runs all jobs, and returns those that ran: group, milliseconds since the first one, and picks. */
async function runAll(limits, jobs, perGroup) {
  const redis = await startRedis()
  const connection = { url: redis.url, maxRetriesPerRequest: null }
  const queue = new Queue('jobs', { connection })
  await queue.addBulk(jobs.map((group) => ({ name: 'job', data: { group } })))
  const file = fileURLToPath(new URL('bullmq-child.mjs', import.meta.url))
  const args = [limits, redis.url, perGroup, perGroup * GROUPS].map(String)
  const children = [1, 2].map(() => minded(fork(file, args)))
  const ran = []
  const collect = async (child) => {
    for await (const [messages] of on(child, 'message')) {
      ran.push(...messages)
      if (ran.length >= jobs.length) return
    }
  }
  try {
    await Promise.race(children.flatMap((child) => [collect(child), failureOf(child, limits)]))
  } finally {
    await Promise.all(children.map(end))
    await queue.close()
    await redis.stop()
  }
  const first = Math.min(...ran.map(([, at]) => at))
  return ran.map(([group, at, picks]) => ({ group, ms: at - first, picks }))
}

const secondsOf = (ran) => Math.max(...ran.map(({ ms }) => ms)) / 1_000

/** The most jobs within any second. */
function busiestSecond(ran) {
  const times = ran.map(({ ms }) => ms).sort((a, b) => a - b)
  return Math.max(...times.map((time, index) => times.findLastIndex((other) => other < time + 1_000) - index + 1))
}

function figuresOf(ran) {
  const large = ran.filter(({ group }) => group === 'group-0')
  const others = ran.filter(({ group }) => group !== 'group-0')
  const othersSeconds = secondsOf(others)
  const meanwhile = ran.filter(({ ms }) => ms <= othersSeconds * 1_000).length
  return {
    othersSeconds,
    // All jobs of the others have run by then, so their groups have equal shares.
    largeShare: 1 - others.length / meanwhile,
    otherShare: SMALL / meanwhile,
    busiest: busiestSecond(large),
    seconds: secondsOf(ran),
    picks: ran.reduce((sum, { picks }) => sum + picks, 0) / ran.length,
  }
}

/** @param {{ rounds: number, large: number, free: number }} pace */
export async function run({ rounds, large, free }) {
  const skewed = Array.from({ length: GROUPS }, (_, group) => Array(group === 0 ? large : SMALL).fill(`group-${group}`))
  const even = Array.from({ length: free }, (_, job) => `group-${job % GROUPS}`)
  const results = []
  for (const limits of Object.keys(NAMES)) {
    const rows = []
    for (let round = 0; round < rounds; round++) {
      const figures = figuresOf(await runAll(limits, skewed.flat(), PER_GROUP))
      rows.push({ ...figures, perSecond: free / secondsOf(await runAll(limits, even, 1_000_000)) })
    }
    const medians = Object.keys(rows[0]).map((name) => [name, median(rows.map((row) => row[name]))])
    results.push({ name: NAMES[limits], ...Object.fromEntries(medians), rounds: rows })
  }
  return { results, targets: [] }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ results, targets }) {
  const head = [
    'limits',
    'others done, s',
    'share of the large',
    'of each other',
    'busiest second of the large',
    'all done, s',
    'picks',
    'jobs/s unbound',
  ]
  const percent = (share) => `${(share * 100).toFixed(1)}%`
  const rowOf = ({ name, othersSeconds, largeShare, otherShare, busiest, seconds, picks, perSecond }) => [
    name,
    othersSeconds.toFixed(1),
    percent(largeShare),
    percent(otherShare),
    String(busiest),
    seconds.toFixed(1),
    picks.toFixed(1),
    perSecond.toFixed(0),
  ]
  printColumns(head, results.map(rowOf))
  printTargets(targets)
}
