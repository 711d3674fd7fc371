/**
 * Plays the calls of TypeScript in virtual time: see tests/simulation/README.md.
 *
 *     --seeds 1000 [--from 0]   plays many seeds, and prints those that fail
 *     --seed 17                 plays one seed, and prints what happens
 *     --first                   ends with the first seed that fails
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import process from 'node:process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

/** The most failing seeds that are listed. */
const MAX_LISTED = 20

/** The seeds that a process plays: the package keeps some memory for each store. */
const SEEDS_OF_PROCESS = 100

const options = {
  seed: { type: 'string' },
  seeds: { type: 'string' },
  from: { type: 'string', default: '0' },
  first: { type: 'boolean', default: false },
}
const { values } = parseArgs({ options })
const one = numberOf('seed')
const [from, count] = one === undefined ? [numberOf('from'), numberOf('seeds') ?? 1_000] : [one, 1]
const started = performance.now()
const sum = { calls: 0, leased: 0, cached: 0 }
const failures = []
let next = from
await Promise.all(Array.from({ length: Math.min(availableParallelism(), count) }, playChunks))
failures.sort((a, b) => a.seed - b.seed)
if (one !== undefined) {
  for (const { violations } of failures) {
    console.log(violations.join('\n'))
  }
}
for (const { seed, violations } of failures.slice(0, MAX_LISTED)) {
  console.log(`seed ${seed}: ${violations.length} violations; the first: ${violations[0]}`)
}
const seconds = ((performance.now() - started) / 1_000).toFixed(1)
const { calls, leased, cached } = sum
console.log(
  `${count} seeds, ${calls} calls, ${leased} by leases, ${cached} by cached refusals, ${seconds} s: ${failures.length} failed`,
)
process.exitCode = failures.length > 0 ? 1 : 0

function numberOf(name) {
  const number = values[name] === undefined ? undefined : Number(values[name])
  if (number !== undefined && !(Number.isSafeInteger(number) && number >= 0)) {
    throw new Error(`--${name} needs a whole number, got ${values[name]}`)
  }
  return number
}

/** Plays chunks of the seeds until there are none left. */
async function playChunks() {
  while (next < from + count && !(values.first && failures.length > 0)) {
    const first = next
    next = Math.min(first + SEEDS_OF_PROCESS, from + count)
    await playChunk(first, next)
  }
}

async function playChunk(first, end) {
  const program = fileURLToPath(new URL('play.mjs', import.meta.url))
  const words = [program, first, end, one === undefined ? '' : 'prints']
  const child = spawn(process.execPath, words.map(String), { stdio: ['ignore', 'pipe', 'inherit', 'pipe'] })
  if (one !== undefined) {
    child.stdout.pipe(process.stdout)
  }
  const ended = once(child, 'close')
  for await (const line of createInterface({ input: child.stdio[3] })) {
    const report = JSON.parse(line)
    for (const name of Object.keys(sum)) {
      sum[name] += report[name]
    }
    if (report.violations.length > 0) {
      failures.push(report)
      if (values.first) {
        child.kill()
        return
      }
    }
  }
  const [code, signal] = await ended
  if (code !== 0) {
    throw new Error(`the seeds from ${first} to ${end - 1} ended with ${signal ?? code}`)
  }
}
