/**
 * `npm run soak`: uses all features for hours under changing faults, and records whether the process
 * grows. See README.md.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { growths } from './flatness.js'
import { pointsOf, type SoakRecord } from './record.js'
import { Soak } from './soak.js'

const USAGE = `Usage: npm run soak -- [options]

Options:
  --hours N      the duration in hours (default: 1)
  --minutes N    or in minutes, from 1
  --seed N       the order and the lengths of faults (default: 1)
  --out FOLDER   the folder of soak.json and soak.svg (default: target/soak)
  --leak         the process leaks on purpose, so the command must fail
  --help         prints this`

const OPTIONS = {
  hours: { type: 'string' },
  minutes: { type: 'string' },
  seed: { type: 'string', default: '1' },
  out: { type: 'string' },
  leak: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

/** The repository; this file is compiled to `__tests__/build/chaos/soak/`. */
const ROOT = join(__dirname, '../../../../..')

/** The shortest duration that has enough samples, in minutes. */
const SHORTEST = 1

/** Parses the command line. Throws an error for invalid options. */
function requestOf(args: string[]) {
  const { values } = parseArgs({ args, options: OPTIONS })
  const { hours, minutes, seed, out = join(ROOT, 'target/soak') } = values
  if (hours !== undefined && minutes !== undefined) {
    throw new Error('Either --hours or --minutes.')
  }
  const duration = minutes === undefined ? 60 * Number(hours ?? 1) : Number(minutes)
  if (!(duration >= SHORTEST)) {
    throw new Error(`A soak takes ${SHORTEST} minute or more, got ${hours ?? minutes}.`)
  }
  if (!Number.isSafeInteger(Number(seed))) {
    throw new Error(`--seed must be a whole number, got ${JSON.stringify(seed)}.`)
  }
  return { ...values, out, seed: Number(seed), ms: duration * 60_000 }
}

/** Writes the record and the plot. */
async function write(folder: string, record: SoakRecord): Promise<void> {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'soak.json'), `${JSON.stringify(record)}\n`)
  const module = pathToFileURL(join(ROOT, 'tests/chaos/soak/plot.mjs')).href
  const { plot } = (await import(module)) as {
    plot: (record: SoakRecord, points: ReturnType<typeof pointsOf>) => string
  }
  writeFileSync(join(folder, 'soak.svg'), plot(record, pointsOf(record.samples)))
}

async function main(): Promise<void> {
  const { help, seed, ms, leak, out } = requestOf(process.argv.slice(2))
  if (help) {
    console.log(USAGE)
    return
  }
  // `kill -INT` of this process ends the soak early, with its record. Ctrl-C would also end the servers.
  const interrupt = new AbortController()
  process.once('SIGINT', () => interrupt.abort())
  const onLine = (line: string) => console.log(line)
  const soak = await Soak.start({ seed, leaks: leak, onLine, signal: interrupt.signal })
  const measured = await soak.run(ms)
  const record: SoakRecord = { ...measured, growths: growths(pointsOf(measured.samples)) }
  await write(out, record)
  for (const { name, growth, bound, isFlat } of record.growths) {
    console.log(`${isFlat ? 'flat ' : 'GROWS'} ${name.padEnd(13)} ${growth.toFixed(2)}, at most ${bound}`)
  }
  for (const violation of record.violations) {
    console.log(`! ${violation}`)
  }
  const { calls, units, faults, violations } = record
  console.log(`${calls} calls, ${units} units checked, ${faults.length} faults, ${violations.length} violations`)
  console.log(`${join(out, 'soak.json')} and soak.svg in ${dirname(join(out, 'soak.json'))}`)
  process.exitCode = violations.length > 0 || record.growths.some(({ isFlat }) => !isFlat) ? 1 : 0
}

main().catch((error: Error) => {
  console.error(`${error.stack}\n\n${USAGE}`)
  process.exitCode = 1
})
