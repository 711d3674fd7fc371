import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'

/** How often it is looked whether the event loop turns, in milliseconds. */
const TICK_MS = 2

/** Later than this is a stall: timers are never quite on time. */
const LATE_MS = 1

/** A while in which no timer could run, by `performance.now()`. */
interface Stall {
  readonly from: number
  readonly to: number
}

/**
 * When the event loop of this process stood still: whatever a call waits then, it does not wait for the limiter.
 */
export class LoopDelay {
  readonly #stalls: Stall[] = []
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: TICK_MS })
  #timer: NodeJS.Timeout | undefined

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

  /** How long a while was, in milliseconds, less what the event loop stood still in it. */
  ofWhich(from: number, to: number): number {
    return to - from - [...this.#overlaps(from, to)].reduce((sum, ms) => sum + ms, 0)
  }

  /**
   * How long a call was pending, in milliseconds, less what the event loop stood still when it was to settle, and
   * when it was made. To be asked a tick after the call has settled.
   *
   * @param timeoutMs - By when it was to settle.
   */
  net(start: number, settled: number, timeoutMs: number): number {
    const deadline = start + timeoutMs
    if (settled <= deadline) {
      return settled - start
    }
    // A deadline counts from the end of the turn in which the call was made.
    const waits = [...this.#overlaps(start, start), ...this.#overlaps(deadline, settled)]
    const stood = waits.reduce((sum, ms) => sum + ms, 0)
    return timeoutMs + Math.max(0, settled - deadline - stood)
  }

  /** What each stall that meets a span has of it; of a moment, what follows it. */
  *#overlaps(from: number, to: number): Iterable<number> {
    // The latest are asked for most.
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
      }
      this.#next()
    }, TICK_MS).unref()
  }
}
