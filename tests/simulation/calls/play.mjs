/** Plays the seeds from FIRST to END - 1, and writes a report of each to file 3: see main.mjs. */
import { writeSync } from 'node:fs'
import process from 'node:process'
import { run } from './run.mjs'

const [first, end] = process.argv.slice(2, 4).map(Number)
const prints = process.argv[4] === 'prints'
process.on('uncaughtException', (error) => {
  console.error(error)
  process.exit(1)
})
for (let seed = first; seed < end; seed++) {
  const report = await run(seed, prints)
  // Both runs must be equal.
  if (prints || seed % 50 === 0) {
    const { digest } = await run(seed)
    if (digest !== report.digest) {
      report.violations.push('the same seed gave another run')
    }
  }
  writeSync(3, `${JSON.stringify({ seed, ...report })}\n`)
}
// Timers of the platform that the package set before its timers were replaced do not matter.
process.exit(0)
