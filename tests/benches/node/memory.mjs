/**
 * Memory of a key in Redis and in the embedded store, and of a million keys. Prints tables for
 * docs/algorithms.md.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { gcra, RateLimiter, RedisStore } from 'tollgate'
import { minded } from './children.mjs'
import { POLICIES } from './policies.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns, printTargets, targetsOf } from './report.mjs'

export const title = 'Memory: bytes per key'

export const peers = ['rate-limiter-flexible']

export const paces = {
  full: { rounds: 1, keys: 100_000, many: 1_000_000 },
  quick: { rounds: 1, keys: 20_000, many: 100_000 },
}

/** Calls of one unit on each key. Many calls are spread evenly over half a window. */
const USES = [1, 100]
const LIMIT = 100
const WINDOW = '2s'
const HALF_WINDOW_MS = 1_000

/**
 * V8 without compilers, in one thread and with a small nursery: otherwise its memory hides the
 * keys' memory.
 */
const QUIET_V8 = ['--expose-gc', '--single-threaded', '--max-semi-space-size=1', '--no-opt', '--no-sparkplug']

/** Keys measured one by one in Redis. They differ only by the lengths of numbers. */
const REDIS_KEYS = 20

const KEY_BYTES = 20

/** Contenders with a million keys, and the kind of their calls in the measured process. */
const MANY = {
  'tollgate, gcra': { policy: gcra({ limit: LIMIT, period: '1h' }) },
  'rate-limiter-flexible memory': { peer: 'rate-limiter-flexible', limit: LIMIT, seconds: 3_600 },
}

/** @type {import('./report.mjs').Target[]} */
const TARGETS = [
  { of: 'tollgate, gcra', figure: 'bytes per key beside its own', atMost: 100 },
  { of: 'tollgate, gcra', to: 'rate-limiter-flexible memory', figure: 'bytes per key beside its own', below: 1 },
]

/** @param {{ rounds: number, keys: number, many: number }} pace */
export async function run({ rounds, keys, many }) {
  const redis = await startRedis()
  try {
    const results = []
    for (const { name, make } of POLICIES) {
      const policy = make(LIMIT, WINDOW)
      const inRedis = []
      const embedded = []
      for (const uses of USES) {
        inRedis.push(await bytesInRedis(policy, uses, redis.url))
        const measured = []
        for (let round = 0; round < rounds; round++) {
          const { beside } = await bytesEmbedded({ policy, uses, keys, stepMs: HALF_WINDOW_MS / uses })
          measured.push(beside)
        }
        embedded.push(median(measured))
      }
      results.push({ name, inRedis, embedded })
    }
    const conditions = [
      `redis-server ${await redis.version()}: MEMORY USAGE with SAMPLES 0, the mean of ${REDIS_KEYS} keys of 20 bytes, prefix "api"`,
      `embedded: ${keys} keys of 20 bytes are added in a new process; the growth of its resident memory without V8's heap is divided by ${keys}`,
      `${LIMIT} units per window; each key has had 1 call of one unit, or 100 such calls during half a window`,
    ]
    return { conditions, results, ...(await bytesOfMany(many, rounds)) }
  } finally {
    await redis.stop()
  }
}

/** Resident memory of a key, including V8's heap, minus the key's own bytes. */
async function bytesOfMany(keys, rounds) {
  const figures = new Map()
  for (const [name, contender] of Object.entries(MANY)) {
    const measured = []
    for (let round = 0; round < rounds; round++) {
      const { resident } = await bytesEmbedded({ ...contender, uses: 1, keys, stepMs: 0 })
      measured.push(resident - KEY_BYTES)
    }
    figures.set(name, measured)
  }
  const ofMany = [...figures].map(([name, measured]) => ({ name, keys, bytes: median(measured) }))
  return { ofMany, targets: targetsOf(TARGETS, figures) }
}

async function bytesInRedis(policy, uses, url) {
  const admin = new Redis(url)
  await admin.flushall()
  const store = new RedisStore(url)
  const limiter = new RateLimiter(policy, { store, prefix: 'api' })
  try {
    const keys = Array.from({ length: REDIS_KEYS }, (_, number) => keyOf(number))
    const start = performance.now()
    for (let use = 0; use < uses; use++) {
      const wait = start + (use * HALF_WINDOW_MS) / uses - performance.now()
      if (wait > 0) await sleep(wait)
      await Promise.all(keys.map((key) => limiter.take(key)))
    }
    const names = await admin.keys('*')
    const sizes = await Promise.all(names.map((name) => admin.call('MEMORY', 'USAGE', name, 'SAMPLES', '0')))
    return sizes.reduce((sum, size) => sum + size, 0) / REDIS_KEYS
  } finally {
    await limiter.close()
    await store.close()
    await admin.quit()
  }
}

/** Memory of a key outside of V8's heap (`beside`), and of all `resident` memory. */
async function bytesEmbedded(work) {
  const program = fileURLToPath(new URL('memory-child.mjs', import.meta.url))
  const child = minded(fork(program, [JSON.stringify(work)], { execArgv: QUIET_V8 }))
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the process ended with ${code} before it told anything`)
  })
  ended.catch(() => {})
  const [told] = await Promise.race([once(child, 'message'), ended])
  return told
}

/** A key of 20 bytes. */
export function keyOf(number) {
  return `user:${String(number).padStart(15, '0')}`
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, results, ofMany, targets }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  console.log('\n| algorithm | in Redis, 1 call | 100 calls | embedded, 1 call | 100 calls |')
  console.log('|---|---:|---:|---:|---:|')
  for (const { name, inRedis, embedded } of results) {
    const cells = [...inRedis, ...embedded].map((bytes) => bytes.toFixed(0))
    console.log(`| ${name} | ${cells.join(' | ')} |`)
  }
  printColumns(
    [`keys of ${KEY_BYTES} bytes, resident`, 'keys', 'bytes per key beside its own'],
    ofMany.map(({ name, keys, bytes }) => [name, keys.toLocaleString('en'), bytes.toFixed(0)]),
  )
  printTargets(targets)
}
