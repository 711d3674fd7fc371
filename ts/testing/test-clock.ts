import { type Duration, millisOf } from '../input/duration.js'
import { checkCount, invalid, optionsOf } from '../input/options.js'
import type { TimerClock } from '../platform/timer-clock.js'
import { timers } from '../platform/timers.js'

/** The options of {@link TestClock.advanceUntil}. */
export interface AdvanceUntilOptions {
  /** The longest time to advance. Default: a day. */
  readonly within?: Duration
}

interface WaitingTimer {
  readonly run: () => void
  dueAt: number
  readonly everyMs: number | undefined
}

/** A date, or a date and a time with its zone: without one, it would be that of the machine. */
const DATE_TEXT = /^\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d))?$/

/** The first and the last time of a `Date`. */
const MAX_EPOCH_MS = 8.64e15

/**
 * A clock for tests that stands still until it is advanced. A `MemoryStore` with this clock decides by it, and `wait`,
 * permits, reservations and blocks follow it; so does an `OutgoingClient`. Timers of the platform do not.
 *
 * @example
 * const clock = new TestClock()
 * const limiter = new RateLimiter(policy, { store: new MemoryStore({ clock }) })
 * await clock.advance('1m')
 */
export class TestClock implements TimerClock {
  #now: number
  /** In the order in which they were set, or ran last. */
  readonly #timers = new Set<WaitingTimer>()

  /**
   * @param start - A `Date`, epoch milliseconds, or a text such as `'2026-03-29'` (midnight in UTC) or
   * `'2026-03-29T02:00+01:00'`; from 1970 on. Default: `'2026-01-01'`.
   * @throws {TollgateError} `INVALID_OPTION`
   */
  constructor(start: Date | number | string = '2026-01-01') {
    checkCount(arguments.length, 1, 'TestClock takes its first time')
    this.#now = epochMsOf('start', start)
  }

  /** The time in epoch milliseconds. */
  now(): number {
    checkCount(arguments.length, 0, 'now takes no arguments')
    return this.#now
  }

  /** The number of timers that wait: 0 when nothing is left to happen. */
  get timerCount(): number {
    return this.#timers.size
  }

  /**
   * Advances the clock. Timers that come due run in their order, each at its time. After each of them the promises that
   * it settled have run, as far as they await nothing but promises and `setImmediate`.
   *
   * @param duration - A text such as `'1m'`, or milliseconds from 0 on, for instance a decision's `retryAfterMs`.
   * @throws {TollgateError} `INVALID_OPTION`
   */
  async advance(duration: Duration): Promise<void> {
    checkCount(arguments.length, 1, 'advance takes a duration')
    const millis = duration === 0 ? 0 : millisOf('INVALID_OPTION', 'advance: duration', duration)
    await this.#runTo(this.#now + millis)
  }

  /**
   * {@link advance} to a time, which is not earlier than {@link now}.
   *
   * @param time - As for the constructor.
   * @throws {TollgateError} `INVALID_OPTION`
   */
  async advanceTo(time: Date | number | string): Promise<void> {
    checkCount(arguments.length, 1, 'advanceTo takes a time')
    const end = epochMsOf('advanceTo: time', time)
    if (end < this.#now) {
      const now = new Date(this.#now).toISOString()
      throw invalid('INVALID_OPTION', 'advanceTo: time', `must not be earlier than the clock, which shows ${now}`, time)
    }
    await this.#runTo(end)
  }

  /**
   * Advances from timer to timer until a promise is settled, and resolves or rejects as it does. The clock stands still
   * while no timer is left.
   *
   * @throws {TollgateError} `INVALID_OPTION`, also if the promise is not settled within the time.
   *
   * @example
   * const decision = await clock.advanceUntil(limiter.wait('a'))
   */
  async advanceUntil<R>(promise: PromiseLike<R>, options: AdvanceUntilOptions = {}): Promise<R> {
    checkCount(arguments.length, 2, 'advanceUntil takes a promise and options')
    if (typeof (promise as { readonly then?: unknown } | undefined)?.then !== 'function') {
      throw invalid('INVALID_OPTION', 'advanceUntil: promise', 'must be a promise', promise)
    }
    const { within = '1d' } = optionsOf('INVALID_OPTION', 'advanceUntil', options, ['within'])
    const end = this.#now + millisOf('INVALID_OPTION', 'advanceUntil: within', within)
    let isSettled = false
    const onSettled = () => {
      isSettled = true
    }
    promise.then(onSettled, onSettled)
    await settlePromises()
    while (!isSettled) {
      const next = this.#nextTimer()
      if (next === undefined) {
        break
      }
      if (next.dueAt > end) {
        const rule = 'must be at least the time that the promise takes'
        throw invalid('INVALID_OPTION', 'advanceUntil: within', rule, within)
      }
      await this.#runTimer(next)
    }
    return promise
  }

  /**
   * Resolves when the clock has advanced by a duration.
   *
   * @throws {TollgateError} `INVALID_OPTION`
   */
  async sleep(duration: Duration): Promise<void> {
    checkCount(arguments.length, 1, 'sleep takes a duration')
    const millis = millisOf('INVALID_OPTION', 'sleep: duration', duration)
    await new Promise<void>((resolve) => this.setTimeout(resolve, millis))
  }

  /** Calls a function once, when the clock has advanced by a number of milliseconds, at least 1. */
  setTimeout(run: () => void, millis: number): object {
    checkCount(arguments.length, 2, 'setTimeout takes a function and milliseconds')
    return this.#add(run, millis, undefined)
  }

  /** Removes a timer. */
  clearTimeout(timer: unknown): void {
    checkCount(arguments.length, 1, 'clearTimeout takes a timer')
    this.#timers.delete(timer as WaitingTimer)
  }

  /** Calls a function each time the clock has advanced by a number of milliseconds, at least 1. */
  setInterval(run: () => void, millis: number): object {
    checkCount(arguments.length, 2, 'setInterval takes a function and milliseconds')
    return this.#add(run, millis, Math.max(1, millis))
  }

  /** Removes a timer. */
  clearInterval(timer: unknown): void {
    checkCount(arguments.length, 1, 'clearInterval takes a timer')
    this.clearTimeout(timer)
  }

  #add(run: () => void, millis: number, everyMs: number | undefined): object {
    // As on the platform: a timer of 0 ms that sets itself again would never let the clock advance.
    const timer = { run, dueAt: this.#now + Math.max(1, millis), everyMs }
    this.#timers.add(timer)
    return timer
  }

  async #runTo(end: number): Promise<void> {
    await settlePromises()
    for (let next = this.#nextTimer(); next !== undefined && next.dueAt <= end; next = this.#nextTimer()) {
      await this.#runTimer(next)
    }
    // Another call may have advanced the clock further.
    this.#now = Math.max(this.#now, end)
    await settlePromises()
  }

  /** The timer that is due first; of several, the one that was set first. */
  #nextTimer(): WaitingTimer | undefined {
    let first: WaitingTimer | undefined
    for (const timer of this.#timers) {
      if (first === undefined || timer.dueAt < first.dueAt) {
        first = timer
      }
    }
    return first
  }

  async #runTimer(timer: WaitingTimer): Promise<void> {
    this.#now = Math.max(this.#now, timer.dueAt)
    this.#timers.delete(timer)
    if (timer.everyMs !== undefined) {
      timer.dueAt += timer.everyMs
      this.#timers.add(timer)
    }
    timer.run()
    await settlePromises()
  }
}

/** Lets the reactions to settled promises run, with those that wait for a turn of the event loop. */
async function settlePromises(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) {
    await new Promise<void>((resolve) => timers.setImmediate(resolve))
  }
}

function epochMsOf(option: string, value: Date | number | string): number {
  const isDate = value instanceof Date || (typeof value === 'string' && DATE_TEXT.test(value))
  const millis = isDate ? new Date(value).getTime() : value
  if (typeof millis !== 'number' || !(millis >= 0 && millis <= MAX_EPOCH_MS)) {
    const rule = "must be a Date, epoch milliseconds, or a text such as '2026-03-29T02:00Z', from 1970 on"
    throw invalid('INVALID_OPTION', option, rule, value)
  }
  return millis
}
