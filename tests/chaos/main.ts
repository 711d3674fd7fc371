/**
 * `npm run chaos`: tests the effect of Redis failures on callers of the built package. See
 * README.md.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import type { Fault, Pace, Row } from './fault.js'
import { FAULTS } from './faults/all.js'
import type { Task } from './one-row.js'
import { HEADER, LEGEND, listed, type Result, told } from './report.js'

const USAGE = `Usage: npm run chaos -- [options]

Options:
  --only NAME    only this fault; repeatable
  --short        the most important faults, with short durations
  --untimed      late calls and a late recovery break no promise: for a busy machine
  --cycles N     each fault N times in one process, which must not leak (default: 1)
  --list         prints the faults' names
  --json FILE    also writes the results to a file
  --help         prints this`

const OPTIONS = {
  only: { type: 'string', multiple: true, default: [] as string[] },
  short: { type: 'boolean', default: false },
  untimed: { type: 'boolean', default: false },
  cycles: { type: 'string', default: '1' },
  list: { type: 'boolean', default: false },
  json: { type: 'string' },
  help: { type: 'boolean', default: false },
} as const

const PACES: Readonly<Record<'full' | 'short', Omit<Pace, 'isTimed'>>> = {
  full: { isShort: false, calmMs: 1_000, faultMs: 3_000 },
  short: { isShort: true, calmMs: 200, faultMs: 800 },
}

/** A row that takes longer than this hangs. */
const PATIENCE_MS = 120_000

/** Parses the command line. Throws an error for invalid options. */
function requestOf(args: string[]) {
  const { values } = parseArgs({ args, options: OPTIONS })
  const unknown = values.only.filter((name) => FAULTS.every((fault) => fault.name !== name))
  if (unknown.length > 0) {
    throw new Error(`No such fault: ${unknown.join(', ')}. --list prints them.`)
  }
  const cycles = Number(values.cycles)
  if (!Number.isSafeInteger(cycles) || cycles < 1) {
    throw new Error(`--cycles must be a whole number from 1, got ${JSON.stringify(values.cycles)}.`)
  }
  const isAsked = ({ name, isLong = false }: Fault) =>
    values.only.length > 0 ? values.only.includes(name) : !(values.short && isLong)
  const pace = { ...PACES[values.short ? 'short' : 'full'], isTimed: !values.untimed }
  return { ...values, cycles, pace, faults: FAULTS.filter(isAsked) }
}

/** Runs a fault in its own process. */
async function resultOf({ name, title }: Fault, pace: Pace, cycles: number): Promise<Result> {
  const task: Task = { name, pace, cycles }
  const start = performance.now()
  const child = fork(join(__dirname, 'one-row.js'), [JSON.stringify(task)], {
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  })
  const errors = text(child.stderr as NodeJS.ReadableStream)
  let row: Row | undefined
  child.on('message', (message) => {
    row = message as Row
  })
  const halt = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS * cycles)
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
  clearTimeout(halt)
  const said = (await errors).trim()
  const ended = code === 0 ? [] : [`the process ended with ${code ?? signal}`]
  const result = row ?? NOTHING
  const broken = [...result.broken, ...ended, ...(said === '' ? [] : [`it said: ${said}`])]
  return { ...result, name, title, broken, seconds: (performance.now() - start) / 1_000 }
}

/** The row of a process that has not reported a row. */
const NOTHING: Row = {
  calls: 0,
  longestMs: 0,
  longestRawMs: 0,
  loopDelayMs: 0,
  errors: {},
  normalMs: undefined,
  admitted: [],
  notes: [],
  broken: ['the row was never told'],
}

async function main(): Promise<void> {
  const { help, list, faults, pace, cycles, json } = requestOf(process.argv.slice(2))
  if (help || list) {
    console.log(help ? USAGE : listed(faults))
    return
  }
  console.log(`${LEGEND}\n\n${HEADER}`)
  const results: Result[] = []
  for (const fault of faults) {
    const result = await resultOf(fault, pace, cycles)
    results.push(result)
    console.log(told(result))
  }
  const failed = results.filter(({ broken }) => broken.length > 0)
  console.log(`\n${results.length - failed.length} passed, ${failed.length} failed`)
  if (json !== undefined) {
    writeFileSync(json, `${JSON.stringify({ node: process.version, pace, cycles, results }, null, 2)}\n`)
  }
  process.exitCode = failed.length > 0 ? 1 : 0
}

main().catch((error: Error) => {
  console.error(`${error.message}\n\n${USAGE}`)
  process.exitCode = 1
})
