/** Processes with permits on one store, in virtual time: each has a distance to the store, may stand still and may end. */
import { engine } from '../../ts/backends/addon.js'
import type { LimiterBackend } from '../../ts/backends/limiter-backend.js'
import { Store } from '../../ts/backends/limiter-backend.js'
import type { MemoryStore } from '../../ts/index.js'
import type { TimerClock } from '../../ts/platform/timer-clock.js'
import { timeOf, type WaitingTime } from '../../ts/platform/waiting-time.js'
import type { PolicySet } from '../../ts/policies/policy-set.js'
import type { TestClock } from '../../ts/testing/index.js'
import { anything } from '../failure.js'
import { DelayedStore } from '../local/delayed-store.js'

/** The clock of a process. While it stands still, its timers wait. */
class ProcessClock implements TimerClock {
  readonly #clock: TestClock
  #stopsUntil = 0
  #hasEnded = false

  constructor(clock: TestClock) {
    this.#clock = clock
  }

  readonly now = (): number => this.#clock.now()

  stop(millis: number): void {
    this.#stopsUntil = this.now() + millis
  }

  end(): void {
    this.#hasEnded = true
  }

  setTimeout(run: () => void, millis: number): unknown {
    const timer = { current: undefined as unknown }
    const onDue = () => {
      const left = this.#stopsUntil - this.now()
      if (left > 0) {
        timer.current = this.#clock.setTimeout(onDue, left)
      } else if (!this.#hasEnded) {
        run()
      }
    }
    timer.current = this.#clock.setTimeout(onDue, millis)
    return timer
  }

  clearTimeout(timer: unknown): void {
    if (timer !== undefined) {
      this.#clock.clearTimeout((timer as { current: unknown }).current)
    }
  }

  setInterval(run: () => void, millis: number): unknown {
    return this.#clock.setInterval(() => {
      if (this.#stopsUntil <= this.now() && !this.#hasEnded) {
        run()
      }
    }, millis)
  }

  clearInterval(timer: unknown): void {
    this.#clock.clearInterval(timer)
  }
}

/** The store of a process: a shared embedded store behind a delay. */
export class VirtualProcess extends Store {
  override readonly address = 'virtual'
  override readonly engine = engine
  readonly #clock: ProcessClock
  readonly #testClock: TestClock
  readonly #shared: MemoryStore
  readonly #delayMs: () => number
  readonly #delayed: DelayedStore[] = []

  /** @param shared - The store, by `clock`. */
  constructor(shared: MemoryStore, clock: TestClock, delayMs: () => number) {
    super()
    this.#shared = shared
    this.#testClock = clock
    this.#clock = new ProcessClock(clock)
    this.#delayMs = delayMs
  }

  override get waitingTime(): WaitingTime {
    return timeOf(this.#clock)
  }

  override open(prefix: string | undefined, policySet: PolicySet): LimiterBackend {
    const clock = this.#testClock
    const time = {
      get now() {
        return clock.now()
      },
      schedule: (at: number, run: () => void) => void clock.setTimeout(run, at - clock.now()),
    }
    const delayed = new DelayedStore(this.#shared.open(prefix, policySet), anything(time), this.#delayMs)
    this.#delayed.push(delayed)
    return delayed
  }

  /** Calls a function after a time of this process. */
  after(millis: number, run: () => void): void {
    this.#clock.setTimeout(run, millis)
  }

  /** The process stands still for a time: its timers and the answers to its calls wait. */
  stop(millis: number): void {
    this.#clock.stop(millis)
    for (const delayed of this.#delayed) {
      delayed.freeze(millis)
    }
  }

  /** The process ends: no call is sent, and no answer arrives. */
  end(): void {
    this.#clock.end()
    for (const delayed of this.#delayed) {
      delayed.cut()
    }
  }
}
