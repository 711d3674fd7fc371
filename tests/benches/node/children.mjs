/** Child processes that do not outlive the benchmark. */
import { once } from 'node:events'
import { constants } from 'node:os'

const running = new Set()

/**
 * Ends a child together with this process, also on Ctrl-C.
 *
 * @template {import('node:child_process').ChildProcess} C
 * @param {C} child
 * @returns {C}
 */
export function minded(child) {
  running.add(child)
  child.once('exit', () => running.delete(child))
  return child
}

/** Stops a child, and waits for its exit. */
export async function end(child) {
  if (running.has(child) && child.pid !== undefined) {
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
}

/** Rejects if a child cannot be started, or exits. Race it against the child's task. */
export async function failureOf(child, what) {
  const cause = await new Promise((resolve) => {
    child.once('error', resolve)
    child.once('exit', (code, signal) => resolve(new Error(`exit ${code ?? signal}`)))
  })
  throw new Error(`${what}: ${cause.message}`, { cause })
}

process.once('exit', () => {
  for (const child of running) {
    child.kill('SIGKILL')
  }
})

// By default a signal ends the process without the event 'exit'.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]))
}
