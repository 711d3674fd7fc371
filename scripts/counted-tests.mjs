/** Runs commands into logs, counts the tests of Jest, and prints tables. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, existsSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const TESTS = join(ROOT, '__tests__')
const JEST = [join(TESTS, 'node_modules', 'jest', 'bin', 'jest.js'), '--config', join(TESTS, 'jest.config.cjs')]

/** Runs a command, and returns its exit code. */
export async function logged(command, args, env, log) {
  const file = createWriteStream(log)
  await once(file, 'open')
  const child = spawn(command, args, { cwd: ROOT, env, stdio: ['ignore', file, file] })
  const [status] = await once(child, 'exit')
  file.end()
  return status
}

/**
 * Runs Jest by a command that starts Node. A run without a passed test is a failure.
 *
 * @param {string} log The path of the log and of the report, without their extensions.
 */
export async function jestTests(args, env, log, [command, ...first] = [process.execPath]) {
  const report = `${log}.json`
  rmSync(report, { force: true })
  const words = [...first, ...JEST, ...args, '--json', '--outputFile', report]
  const status = await logged(command, words, env, `${log}.log`)
  if (!existsSync(report)) {
    return { passed: false, count: 'none' }
  }
  const { numPassedTests, numTotalTests } = JSON.parse(readFileSync(report, 'utf8'))
  return { passed: status === 0 && numPassedTests > 0, count: `${numPassedTests} of ${numTotalTests}` }
}

/** Prints a table. */
export function print(head, rows) {
  const widths = head.map((name, at) => Math.max(name.length, ...rows.map((row) => row[at].length)))
  for (const row of [head, ...rows]) {
    console.log(
      row
        .map((cell, at) => cell.padEnd(widths[at]))
        .join('  ')
        .trimEnd(),
    )
  }
}
