/** The time to load packages, in a fresh process for each measurement. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { minded } from './children.mjs'
import { median, printColumns } from './report.mjs'
import { interleave } from './rounds.mjs'

export const title = 'Start-up: the time to load packages'

export const peers = ['rate-limiter-flexible', 'express-rate-limit', 'ioredis']

export const paces = {
  full: { rounds: 31 },
  quick: { rounds: 5 },
}

/** What each program loads. The first one loads nothing: its process time is that of Node.js. */
const PROGRAMS = [
  { name: 'nothing', packages: [] },
  { name: 'tollgate', packages: ['tollgate'] },
  { name: 'tollgate and tollgate/express', packages: ['tollgate', 'tollgate/express'] },
  { name: 'tollgate/wasm', packages: ['tollgate/wasm'] },
  { name: 'tollgate/headers', packages: ['tollgate/headers'] },
  { name: 'rate-limiter-flexible', packages: ['rate-limiter-flexible'] },
  { name: 'rate-limiter-flexible and ioredis', packages: ['rate-limiter-flexible', 'ioredis'] },
  { name: 'express-rate-limit', packages: ['express-rate-limit'] },
  { name: 'ioredis', packages: ['ioredis'] },
  { name: 'tollgate and tollgate/express, by import', packages: ['tollgate', 'tollgate/express'], isImport: true },
  { name: 'tollgate/headers, by import', packages: ['tollgate/headers'], isImport: true },
  {
    name: 'rate-limiter-flexible and ioredis, by import',
    packages: ['rate-limiter-flexible', 'ioredis'],
    isImport: true,
  },
  { name: 'express-rate-limit, by import', packages: ['express-rate-limit'], isImport: true },
]

const CHILDREN = Object.fromEntries(
  ['cjs', 'mjs'].map((kind) => [kind, fileURLToPath(new URL(`./startup-child.${kind}`, import.meta.url))]),
)

/** The state of the last build: see scripts/build.mjs. */
const BUILD = new URL('../../../target/build/native.json', import.meta.url)

const execute = promisify(execFile)

/** Loads the packages in a new process. `processMs` is from its start to its end. */
async function measured({ packages, isImport = false }) {
  const start = performance.now()
  const running = execute(process.execPath, [CHILDREN[isImport ? 'mjs' : 'cjs'], ...packages])
  minded(running.child)
  const { stdout } = await running
  return { processMs: performance.now() - start, ...JSON.parse(stdout) }
}

/** @param {{ rounds: number }} pace */
export async function run({ rounds }) {
  const all = await interleave(PROGRAMS, { rounds }, measured)
  const results = PROGRAMS.map(({ name }) => {
    const turns = all.get(name)
    const [loadMs, processMs] = ['loadMs', 'processMs'].map((figure) => median(turns.map((turn) => turn[figure])))
    const { files, bytes } = turns[0]
    return { name, loadMs, processMs, files, bytes, rounds: turns.map((turn) => turn.loadMs) }
  })
  const { profile } = JSON.parse(readFileSync(BUILD, 'utf8'))
  const conditions = [
    `each measurement is a new process; the files are in the system's cache; the addon is built with the profile \`${profile}\``,
    'load: the time of `import` for the lines that name `import`, and the time of `require` for the others',
    'process: the time from the start of the process to its end',
    'files: all files that the program loads, with dependencies and the addon',
  ]
  return { conditions, results }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ conditions, results }) {
  for (const condition of conditions) {
    console.log(`  ${condition}`)
  }
  const rows = results.map(({ name, loadMs, processMs, files, bytes, rounds }) => [
    name,
    loadMs.toFixed(2),
    `${Math.min(...rounds).toFixed(2)}-${Math.max(...rounds).toFixed(2)}`,
    processMs.toFixed(1),
    `${files}`,
    (bytes / 1_000).toFixed(0),
  ])
  printColumns(['program', 'load ms', 'range', 'process ms', 'files', 'kB'], rows)
}
