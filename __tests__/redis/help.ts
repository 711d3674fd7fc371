import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { type Decision, type Policy, type RateLimiter, TollgateError } from '../../ts/index.js'

/** What became of a call, and when, in milliseconds from its start. */
export interface Outcome {
  readonly decision: Decision | undefined
  readonly error: TollgateError | undefined
  readonly ms: number
}

/** Waits for a call, whichever way it ends. */
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

/** Milliseconds until a call succeeds. */
export async function recovery(limiter: RateLimiter, key: string): Promise<number> {
  const start = performance.now()
  while ((await outcome(limiter.take(key))).error !== undefined) {
    await sleep(5)
  }
  return performance.now() - start
}

/** What `hammer.mjs` is to do. */
export interface Work {
  readonly url: string
  readonly policy: Policy
  readonly prefix: string
  readonly keys: readonly string[]
  readonly inFlight: number
  readonly ms: number
  readonly commandTimeoutMs?: number
}

/** What it tells in the end. Times are in milliseconds. */
export interface Told {
  /** By key: the microseconds at which units were admitted, by the deciding clock. */
  readonly admitted: Readonly<Record<string, readonly number[]>>
  readonly calls: number
  readonly failures: readonly { code: string; charged: false | 'unknown'; ms: number; at: number }[]
  /** What the process takes the time to be, less what it was when the test began. */
  readonly skew: number
}

/** A process that hammers, and is ready to begin; its clock is shifted. */
export function hammer(work: Work, skewMs = 0): Promise<ChildProcess> {
  return skewed('hammer.mjs', work, skewMs)
}

/** A process of a program beside this file that is ready to begin; its clock is shifted. */
export async function skewed(program: string, work: unknown, skewMs: number): Promise<ChildProcess> {
  const child = fork(join(__dirname, 'programs', program), [JSON.stringify(work)], {
    execArgv: ['--import', pathToFileURL(join(__dirname, 'programs', 'skew.mjs')).href],
    env: { ...process.env, SKEW_MS: `${skewMs}` },
  })
  await message(child)
  return child
}

/**
 * All processes, once each is ready to begin. If one fails to be, the others end: they would wait for a word, and the
 * tests for their end.
 */
export async function allReady(begun: readonly Promise<ChildProcess>[]): Promise<ChildProcess[]> {
  try {
    return await Promise.all(begun)
  } catch (error) {
    await killAll(begun)
    throw error
  }
}

/** Ends those processes that have begun, and not ended. */
export async function killAll(begun: readonly Promise<ChildProcess>[]): Promise<void> {
  for (const child of await Promise.allSettled(begun)) {
    if (child.status === 'fulfilled' && child.value.exitCode === null) {
      child.value.kill('SIGKILL')
    }
  }
}

/** Begins, and waits for what the process tells and for its end. */
export async function told<T = Told>(child: ChildProcess): Promise<T> {
  child.send({ now: Date.now() })
  const answer = (await message(child)) as T
  if (child.exitCode === null) {
    await once(child, 'exit')
  }
  expect(child.exitCode).toBe(0)
  return answer
}

async function message(child: ChildProcess): Promise<unknown> {
  const ended = once(child, 'exit').then(async ([code]) => {
    // What it has told may still be on its way: a long message is read in many parts.
    if (child.connected) {
      await once(child, 'disconnect')
    }
    throw new Error(`the process ended with ${code} before it told anything`)
  })
  ended.catch(() => {})
  return Promise.race([once(child, 'message').then(([told]) => told), ended])
}
