import { timers } from '../../ts/platform/timers.js'
import { FakeClock } from '../clock.js'

/** A clock with events, and the timers of the package if they are replaced. */
export class VirtualTime {
  readonly clock = new FakeClock()
  /** In order of their times. */
  readonly #events: { readonly at: number; readonly run: () => void }[] = []
  #afterTick: (() => void)[] = []

  get now(): number {
    return this.clock.read()
  }

  /** Runs a function at a time, after all earlier events of that time. */
  schedule(at: number, run: () => void): void {
    const after = this.#events.findIndex((other) => other.at > at)
    this.#events.splice(after < 0 ? this.#events.length : after, 0, { at, run })
  }

  /** Advances the clock, and runs the events on the way. */
  async advance(millis: number): Promise<void> {
    const end = this.now + millis
    await this.settled()
    for (let next = this.#events[0]; next !== undefined && next.at <= end; next = this.#events[0]) {
      this.#events.shift()
      this.clock.advance(next.at - this.now)
      next.run()
      await this.settled()
    }
    this.clock.advance(end - this.now)
  }

  /** Ends the tick: lets promises settle, and runs what waits for the end of the tick. */
  async settled(): Promise<void> {
    do {
      const due = this.#afterTick
      this.#afterTick = []
      for (const run of due) {
        run()
      }
      for (let turn = 0; turn < 20; turn++) {
        await Promise.resolve()
      }
    } while (this.#afterTick.length > 0)
  }

  /** Replaces the timers of the package. Returns a function that restores them. */
  replaceTimers(): () => void {
    const { setTimeout, clearTimeout, setImmediate } = timers
    const cancelled = new Set<object>()
    Object.assign(timers, {
      setTimeout: (run: () => void, millis: number) => {
        const timer = {}
        this.schedule(this.now + millis, () => cancelled.delete(timer) || run())
        return timer
      },
      clearTimeout: (timer: object | undefined) => timer && cancelled.add(timer),
      setImmediate: (run: () => void) => this.#afterTick.push(run),
    })
    return () => Object.assign(timers, { setTimeout, clearTimeout, setImmediate })
  }
}
