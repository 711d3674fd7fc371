import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Decision, type RateLimiter, TollgateError } from '../../ts/index.js'
import { until } from '../servers/until.js'

/**
 * How far behind its deadline a call may settle on a busy machine, in milliseconds. The simulations check deadlines
 * exactly, and `npm run chaos` measures them.
 */
export const LATE_MS = 5_000

/** The deadline of calls that must be decided, however busy the machine is, in milliseconds. */
export const PATIENT_MS = 30_000

/** The outcome of a call, and its time in milliseconds from the call's start. */
export interface Outcome {
  readonly decision: Decision | undefined
  readonly error: TollgateError | undefined
  readonly ms: number
}

/** Waits until a call resolves or rejects. */
export async function outcome(call: Promise<Decision>): Promise<Outcome> {
  const start = performance.now()
  try {
    const decision = await call
    return { decision, error: undefined, ms: performance.now() - start }
  } catch (error) {
    if (!TollgateError.is(error)) {
      throw error
    }
    return { decision: undefined, error, ms: performance.now() - start }
  }
}

/** Waits until a call succeeds. The simulations check the time that this takes, and `npm run chaos` measures it. */
export async function recovery(limiter: RateLimiter, key: string): Promise<void> {
  await until('a call succeeds', async () => (await outcome(limiter.take(key))).error === undefined)
}

/**
 * A process that is ready to start, with a shifted clock.
 *
 * @param program - A file in `programs/`, or an absolute path.
 */
export async function skewed(program: string, work: unknown, skewMs: number): Promise<ChildProcess> {
  const child = fork(resolve(__dirname, 'programs', program), [JSON.stringify(work)], {
    execArgv: ['--import', pathToFileURL(join(__dirname, 'programs', 'skew.mjs')).href],
    env: { ...process.env, SKEW_MS: `${skewMs}` },
  })
  await message(child)
  return child
}

/**
 * All processes, once each is ready to start. If one fails, the others are killed: they would wait
 * for a message, and the tests for their exit.
 */
export async function allReady(begun: readonly Promise<ChildProcess>[]): Promise<ChildProcess[]> {
  try {
    return await Promise.all(begun)
  } catch (error) {
    await killAll(begun)
    throw error
  }
}

/** Kills the processes that have started and not exited. */
export async function killAll(begun: readonly Promise<ChildProcess>[]): Promise<void> {
  for (const child of await Promise.allSettled(begun)) {
    if (child.status === 'fulfilled' && child.value.exitCode === null) {
      child.value.kill('SIGKILL')
    }
  }
}

/** Starts a process, and waits for its report and its exit. */
export async function reportOf<T>(child: ChildProcess): Promise<T> {
  child.send({ now: Date.now() })
  const report = (await message(child)) as T
  if (child.exitCode === null) {
    await once(child, 'exit')
  }
  expect(child.exitCode).toBe(0)
  return report
}

async function message(child: ChildProcess): Promise<unknown> {
  const ended = once(child, 'exit').then(async ([code]) => {
    // The report may be in transit: a long message is read in many parts.
    if (child.connected) {
      await once(child, 'disconnect')
    }
    throw new Error(`the process ended with ${code} before it reported`)
  })
  ended.catch(() => {})
  return Promise.race([once(child, 'message').then(([report]) => report), ended])
}
