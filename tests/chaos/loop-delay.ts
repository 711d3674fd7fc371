/** The interval of the checks of the event loop, in milliseconds. */
const TICK_MS = 2

/**
 * A timer that is later than this shows a stall; timers are never quite on time. In milliseconds.
 */
const LATE_MS = 1

/** The clock and the timers of an event loop. */
export interface LoopClock {
  /** The time in milliseconds. */
  now(): number
  /** Runs a function after some milliseconds, or later. Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void
}

/** This process's event loop. The timers keep no process alive. */
const THIS_LOOP: LoopClock = {
  now: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms).unref()
    return () => clearTimeout(timer)
  },
}

/** A time in which no timer could run, by the clock. */
interface Stall {
  readonly from: number
  readonly to: number
}

/**
 * Records stalls of this process's event loop. A call that waits during a stall does not wait for
 * the limiter.
 */
export class LoopDelay {
  readonly #keepMs: number
  #stalls: Stall[] = []
  readonly #clock: LoopClock
  #longestMs = 0
  #cancel = () => {}

  /**
   * @param keepMs - Older stalls are forgotten. Default: none are.
   * @param clock - Default: this process's `performance.now()` and timers.
   */
  constructor(keepMs = Number.POSITIVE_INFINITY, clock: LoopClock = THIS_LOOP) {
    this.#keepMs = keepMs
    this.#clock = clock
  }

  /** The time of the clock, in milliseconds. */
  get now(): number {
    return this.#clock.now()
  }

  start(): void {
    this.#next()
  }

  stop(): void {
    this.#cancel()
  }

  /** The longest stall, in milliseconds. */
  get longestMs(): number {
    return this.#longestMs
  }

  /** The length of a span in milliseconds, without the stalls in it. */
  ofWhich(from: number, to: number): number {
    return to - from - [...this.#overlaps(from, to)].reduce((sum, ms) => sum + ms, 0)
  }

  /**
   * The time for which a call was pending, in milliseconds, without stalls at its start and after
   * its deadline. Call this a tick after the call has settled.
   *
   * @param timeoutMs - The deadline of the call, from its start.
   */
  net(start: number, settled: number, timeoutMs: number): number {
    const deadline = start + timeoutMs
    if (settled <= deadline) {
      return settled - start
    }
    // The deadline counts from the end of the event loop's turn that made the call.
    const waits = [...this.#overlaps(start, start), ...this.#overlaps(deadline, settled)]
    const stood = waits.reduce((sum, ms) => sum + ms, 0)
    return timeoutMs + Math.max(0, settled - deadline - stood)
  }

  /** The overlap of each stall with a span. For a moment, the part of the stall after it. */
  *#overlaps(from: number, to: number): Iterable<number> {
    // Search from the end: most spans are recent.
    for (let index = this.#stalls.length - 1; index >= 0; index--) {
      const stall = this.#stalls[index] as Stall
      if (stall.to < from) {
        return
      }
      if (stall.from <= to) {
        yield (from === to ? stall.to : Math.min(stall.to, to)) - Math.max(stall.from, from)
      }
    }
  }

  #next(): void {
    const from = this.now
    this.#cancel = this.#clock.after(TICK_MS, () => {
      const to = this.now
      this.#longestMs = Math.max(this.#longestMs, to - from - TICK_MS)
      if (to > from + TICK_MS + LATE_MS) {
        this.#stalls.push({ from, to })
        // Half of them at a time, so that the cost of each is small.
        if ((this.#stalls[0] as Stall).to < to - 2 * this.#keepMs) {
          this.#stalls = this.#stalls.filter((stall) => stall.to >= to - this.#keepMs)
        }
      }
      this.#next()
    })
  }
}
