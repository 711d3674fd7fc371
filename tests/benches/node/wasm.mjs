/**
 * WebAssembly: compares the engine with the addon and with a hand-written limiter; download sizes.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import * as native from 'tollgate'
import * as wasm from 'tollgate/wasm'
import { timeLaps } from './laps.mjs'
import { MapGcra } from './map-gcra.mjs'
import { printTable, summaryOf } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'WebAssembly: one process, no server'

/** Only the package itself. */
export const peers = []

export const paces = {
  full: { rounds: 11, turnMs: 200, warmUpMs: 1_000 },
  quick: { rounds: 3, turnMs: 50, warmUpMs: 200 },
}

const ROOT = join(fileURLToPath(import.meta.url), '..', '..', '..', '..')

/** As in the part `embedded`. */
const LIMIT = 1_000_000
const PERIOD_MS = 604_800_000

const KEYS = Array.from({ length: 10_000 }, (_, number) => `user:${number}`)

/** Keys for the text encoder: non-ASCII, or too long to be written character by character. */
const LONG_KEYS = KEYS.map((key) => `${key}/${'0123456789'.repeat(6)}`)
const WIDE_KEYS = KEYS.map((key) => `пользователь:${key}`)

const CONDITIONS = [
  'three sets of 10,000 keys: of 6 to 9 bytes, of about 70 bytes, and of about 30 bytes with non-ASCII characters; visited round robin, one call at a time',
  'the limit is 1,000,000 units per key and week, and the benchmark checks that every decision is allowed',
]

const sink = { last: undefined }

/** Each contender has its own loop: see the part `embedded`. */
function lapOf(limiter, keys) {
  const run = new Function(
    'limiter',
    'keys',
    'sink',
    `let allowed = 0
    for (const key of keys) {
      const decision = limiter.takeSync(key)
      if (decision.allowed) allowed++
      sink.last = decision
    }
    return allowed`,
  )
  return () => run(limiter, keys, sink)
}

function takeSync({ gcra, RateLimiter }, keys = KEYS) {
  const limiter = new RateLimiter(gcra({ limit: LIMIT, period: PERIOD_MS }))
  return { lap: lapOf(limiter, keys), close: () => limiter.close() }
}

function byHand() {
  const inner = new MapGcra(LIMIT, PERIOD_MS)
  return { lap: lapOf({ takeSync: (key) => inner.take(key) }, KEYS) }
}

const GROUPS = {
  'short keys': {
    'tollgate/wasm takeSync, gcra': () => takeSync(wasm),
    'tollgate takeSync, gcra': () => takeSync(native),
    'Map GCRA by hand': byHand,
  },
  'long keys': {
    'tollgate/wasm takeSync': () => takeSync(wasm, LONG_KEYS),
    'tollgate takeSync': () => takeSync(native, LONG_KEYS),
  },
  'keys that are not ASCII': {
    'tollgate/wasm takeSync ': () => takeSync(wasm, WIDE_KEYS),
    'tollgate takeSync ': () => takeSync(native, WIDE_KEYS),
  },
}

/** @param {import('./rounds.mjs').Pace} pace */
export async function run(pace) {
  const made = Object.values(GROUPS)
    .flatMap(Object.entries)
    .map(([name, make]) => ({ name, awaited: false, calls: KEYS.length, ...make() }))
  try {
    const times = await interleave(made, pace, timeLaps)
    const groups = Object.entries(GROUPS).map(([name, group]) => [name, summaryOf(Object.keys(group), times)])
    return { conditions: CONDITIONS, sizes: sizes(), groups: Object.fromEntries(groups) }
  } finally {
    await Promise.all(made.map(({ close }) => close?.()))
  }
}

/** Sizes in bytes, plain and gzipped. */
function sizes() {
  const files = {
    'the engine, for workerd': 'generated/wasm/tollgate.wasm',
    'the engine as text, for the web': 'generated/wasm/inlined.js',
    'the code around it, for both': 'dist/wasm/web.mjs',
  }
  return Object.entries(files).map(([name, file]) => {
    const bytes = readFileSync(join(ROOT, file))
    return { name, file, bytes: bytes.length, gzipped: gzipSync(bytes, { level: 9 }).length }
  })
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, sizes, groups }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  console.log()
  for (const { name, file, bytes, gzipped } of sizes) {
    console.log(`  ${name} (${file}): ${(bytes / 1_000).toFixed(1)} kB, gzipped ${(gzipped / 1_000).toFixed(1)} kB`)
  }
  for (const [name, results] of Object.entries(groups)) {
    printTable(name, results)
  }
}
