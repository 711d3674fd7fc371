import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'

/** The interval of the checks of the event loop, in milliseconds. */
const TICK_MS = 2

/**
 * A timer that is later than this shows a stall; timers are never quite on time. In milliseconds.
 */
const LATE_MS = 1

/** A time in which no timer could run, by `performance.now()`. */
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
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: TICK_MS })
  #timer: NodeJS.Timeout | undefined

  /** @param keepMs - Older stalls are forgotten. Default: none are. */
  constructor(keepMs = Number.POSITIVE_INFINITY) {
    this.#keepMs = keepMs
  }

  start(): void {
    this.#histogram.enable()
    this.#next()
  }

  stop(): void {
    this.#histogram.disable()
    clearTimeout(this.#timer)
  }

  /** The longest stall, in milliseconds. */
  get longestMs(): number {
    return Math.max(0, this.#histogram.max / 1e6 - TICK_MS)
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
    const from = performance.now()
    this.#timer = setTimeout(() => {
      const to = performance.now()
      if (to > from + TICK_MS + LATE_MS) {
        this.#stalls.push({ from, to })
        // Half of them at a time, so that the cost of each is small.
        if ((this.#stalls[0] as Stall).to < to - 2 * this.#keepMs) {
          this.#stalls = this.#stalls.filter((stall) => stall.to >= to - this.#keepMs)
        }
      }
      this.#next()
    }, TICK_MS).unref()
  }
}
