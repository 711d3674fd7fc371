import type { TimerClock } from './timer-clock.js'
import { timers } from './timers.js'

/** The time by which calls wait in this process. */
export interface WaitingTime {
  readonly setTimeout: typeof globalThis.setTimeout
  readonly clearTimeout: typeof globalThis.clearTimeout
  readonly setInterval: typeof globalThis.setInterval
  readonly clearInterval: typeof globalThis.clearInterval
  /** Milliseconds of a clock that never goes back. */
  now(): number
  /** Milliseconds of a clock that counts the suspension of the machine. */
  elapsedMs(): number
  /** The time of the day, in epoch milliseconds. */
  epochMs(): number
}

/** The real time, also in a test that fakes timers. */
export function realTime(elapsedMs: () => number): WaitingTime {
  return Object.create(timers, { elapsedMs: { value: elapsedMs }, epochMs: { value: Date.now } })
}

/** The time by a clock with timers. */
export function timeOf(clock: TimerClock): WaitingTime {
  const now = () => clock.now()
  return {
    setTimeout: ((run: () => void, millis: number) => clock.setTimeout(run, millis)) as typeof globalThis.setTimeout,
    clearTimeout: (timer) => clock.clearTimeout(timer),
    setInterval: ((run: () => void, millis: number) => clock.setInterval(run, millis)) as typeof globalThis.setInterval,
    clearInterval: (timer) => clock.clearInterval(timer),
    now,
    elapsedMs: now,
    epochMs: now,
  }
}

/**
 * The platform's timers and `Date` as they are at the time of a call, so that a test can fake them.
 * All tools that fake timers fake these.
 *
 * @param now - Milliseconds of a clock that never goes back.
 */
export function fakeableTime(now: () => number = () => Date.now()): WaitingTime {
  return {
    setTimeout: ((run: () => void, millis: number) =>
      globalThis.setTimeout(run, millis)) as typeof globalThis.setTimeout,
    clearTimeout: (timer) => globalThis.clearTimeout(timer),
    setInterval: ((run: () => void, millis: number) =>
      globalThis.setInterval(run, millis)) as typeof globalThis.setInterval,
    clearInterval: (timer) => globalThis.clearInterval(timer),
    now,
    elapsedMs: now,
    epochMs: () => Date.now(),
  }
}
