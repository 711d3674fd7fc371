/**
 * Runs steps, each a command, in parallel where their dependencies allow it, and prints the result
 * of each.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { contentOf, hasPassed, note } from './stamps.mjs'

/**
 * @typedef {object} Step
 * @property {string} name The name in the table and in the name of the log.
 * @property {string} command A shell command.
 * @property {Record<string, string>} [env] Added to the environment.
 * @property {readonly string[]} [needs] The names of steps that must succeed first.
 * @property {string} [lock] Steps with the same lock do not run at the same time. Two cargo
 * commands, for example, would only wait for each other.
 * @property {readonly string[] | 'tree'} [reads] The files and folders on which the result depends,
 * or the whole tree. A step that passed can then be left out until they change.
 * @property {boolean} [isRecorded] Whether the repository has the contents with which it passed.
 */

/**
 * @typedef {object} Result
 * @property {Step} step
 * @property {'passed' | 'failed' | 'not run' | 'unchanged'} status
 * @property {number} seconds
 * @property {{ passed: number, failed: number }} tests The numbers of Jest's and cargo's tests.
 */

/** The steps that have passed with the present content of what they read. */
export function unchangedSteps(steps) {
  return steps.filter((step) => hasPassed(step, contentOf(step)))
}

/**
 * Runs steps in their order, at most `jobs` at the same time. If a step fails, the steps that need
 * it are not run; all others are.
 *
 * @param {readonly Step[]} steps
 * @param {{ root: string, jobs: number, verbose: boolean }} options
 * @returns {Promise<Result[]>} In the order of the steps.
 */
export async function runSteps(steps, { root, jobs, verbose }) {
  const logs = join(root, 'target', 'test-logs')
  mkdirSync(logs, { recursive: true })
  const results = new Map()
  const running = new Map()
  const isReady = ({ needs = [], lock }) =>
    needs.every((name) => results.get(name)?.status === 'passed') &&
    ![...running.values()].some((other) => lock !== undefined && other.step.lock === lock)
  for (;;) {
    const waiting = steps.filter(({ name }) => !results.has(name) && !running.has(name))
    const hopeless = waiting.filter(({ needs = [] }) => needs.some((name) => isOver(results.get(name))))
    for (const step of hopeless) {
      results.set(step.name, { step, status: 'not run', seconds: 0, tests: { passed: 0, failed: 0 } })
    }
    if (hopeless.length > 0) {
      continue
    }
    const next = running.size < jobs ? waiting.find(isReady) : undefined
    if (next !== undefined) {
      console.log(`start   ${next.name}`)
      running.set(next.name, { step: next, ended: runStep(next, root, logs, verbose) })
    } else if (running.size > 0) {
      const result = await Promise.race([...running.values()].map(({ ended }) => ended))
      running.delete(result.step.name)
      results.set(result.step.name, result)
    } else {
      return steps.map(({ name }) => results.get(name))
    }
  }
}

function isOver(result) {
  return result !== undefined && result.status !== 'passed'
}

async function runStep(step, root, logs, verbose) {
  const start = performance.now()
  const content = contentOf(step)
  const log = join(logs, `${step.name.replaceAll(/\W+/g, '-')}.log`)
  const file = createWriteStream(log)
  await once(file, 'open')
  const child = spawn(step.command, {
    cwd: root,
    env: { ...process.env, ...step.env },
    shell: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  for (const stream of [child.stdout, child.stderr]) {
    stream.pipe(file, { end: false })
    if (verbose) {
      stream.pipe(process.stdout, { end: false })
    }
  }
  const [code] = await once(child, 'close')
  file.end()
  await once(file, 'close')
  const seconds = (performance.now() - start) / 1000
  const text = readFileSync(log, 'utf8')
  const tests = countTests(text)
  const status = code === 0 ? 'passed' : 'failed'
  note(step, content, code === 0)
  if (status === 'failed' && !verbose) {
    console.log(`${text}\n^ ${step.name}: ${step.command}`)
  }
  const counted = tests.passed + tests.failed > 0 ? `, ${tests.passed} passed, ${tests.failed} failed` : ''
  console.log(`${status}  ${step.name} (${seconds.toFixed(1)} s${counted}; ${relative(root, log)})`)
  return { step, status, seconds, tests }
}

/** The numbers of passed and failed tests, from the runners' output in a log. */
export function countTests(log) {
  const counts = { passed: 0, failed: 0 }
  for (const [, passed, failed] of log.matchAll(/^test result: \w+\. (\d+) passed; (\d+) failed/gm)) {
    counts.passed += Number(passed)
    counts.failed += Number(failed)
  }
  for (const [, line] of log.matchAll(/^Tests: +(.*)$/gm)) {
    counts.passed += Number(/(\d+) passed/.exec(line)?.[1] ?? 0)
    counts.failed += Number(/(\d+) failed/.exec(line)?.[1] ?? 0)
  }
  return counts
}
