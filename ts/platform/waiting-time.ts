import type { TimerClock } from './timer-clock.js'
import { fakeableTimers, MAX_TIMER_MS, timers } from './timers.js'

/** A timer of any platform. */
export interface PlatformTimer {
  /** Lets the process end while the timer waits. Only some platforms have it. */
  unref?(): unknown
}

/** The time by which calls wait in this process. */
export interface WaitingTime {
  setTimeout(run: () => void, millis: number): PlatformTimer
  clearTimeout(timer: PlatformTimer | undefined): void
  setInterval(run: () => void, millis: number): PlatformTimer
  clearInterval(timer: PlatformTimer | undefined): void
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
    setTimeout: (run, millis) => clock.setTimeout(run, Math.min(millis, MAX_TIMER_MS)) as PlatformTimer,
    clearTimeout: (timer) => clock.clearTimeout(timer),
    setInterval: (run, millis) => clock.setInterval(run, Math.min(millis, MAX_TIMER_MS)) as PlatformTimer,
    clearInterval: (timer) => clock.clearInterval(timer),
    now,
    elapsedMs: now,
    epochMs: now,
  }
}

/** The platform's timers and `Date` as they are at the time of a call, so that a test can fake them. */
export function fakeableTime(now: () => number = () => Date.now()): WaitingTime {
  return {
    ...fakeableTimers,
    now,
    elapsedMs: now,
    epochMs: () => Date.now(),
  }
}

/** The time by a clock of the user; by default the real time. */
export function waitingTimeOf(clock: TimerClock | (() => number) | undefined): WaitingTime {
  if (clock === undefined) {
    return realTime(timers.now)
  }
  return typeof clock === 'function' ? fakeableTime(clock) : timeOf(clock)
}
