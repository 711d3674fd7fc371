/**
 * Prints common mistakes of users with the messages that they get:
 * `npm run build && node scripts/mistakes.mjs`. Exits with 1 if a mistake causes neither an error
 * nor a warning, or if its message does not name the fix.
 */
import * as tollgate from 'tollgate'
import { rateLimit } from 'tollgate/express'
import table from './mistakes/table.cjs'

const { mistakes, close } = table.mistakesOf(tollgate, rateLimit)

for (const { call, run, hint, isWarning } of mistakes) {
  const message = await (isWarning ? warningOf : messageOf)(run)
  const names = message !== undefined && hint.test(message)
  process.exitCode ||= names ? 0 : 1
  console.log(
    `${call}\n    ${(message ?? 'causes neither an error nor a warning').replaceAll('\n', '\n    ')}${names ? '' : `\n    !! does not name ${hint}`}\n`,
  )
}
await close()

/** @param {() => unknown} run */
async function messageOf(run) {
  try {
    await run()
  } catch (error) {
    return `${error.code ?? error.name}: ${error.message}`
  }
}

/** @param {() => unknown} run */
async function warningOf(run) {
  const { emitWarning } = process
  const warnings = []
  process.emitWarning = (message, { type, code }) => warnings.push(`[${code}] ${type}: ${message}`)
  try {
    await run()
  } finally {
    process.emitWarning = emitWarning
  }
  return warnings[0]
}
