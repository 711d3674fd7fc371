/** A clock with events, in the place of the timers of the package. */
import shared from '../../../dist/shared.js'

const { timers } = shared['platform/timers']

/** The store's clock at time 0. Such a number of milliseconds has exact microseconds. */
const START_MS = 1e9

/** Resolves when no promise callback is left to run. */
const drained = () => new Promise((resolve) => process.nextTick(resolve))

/** A clock with events. Times are in whole microseconds from 0. */
export class VirtualTime {
  #micros = 0
  /** The last one is due first. Events of one time are due in the order in which they were scheduled. */
  #events = []
  #afterTick = []

  /** Milliseconds of the local clock of all processes. */
  now = () => this.#micros / 1_000

  /** Milliseconds of the store's clock. */
  storeNow = () => START_MS + this.#micros / 1_000

  get micros() {
    return this.#micros
  }

  /** The timers of the package that have not run and were not cleared. */
  get timerCount() {
    return this.#events.filter(({ run, isTimer }) => run !== undefined && isTimer).length
  }

  /** Runs a function after a delay. */
  schedule(delayMicros, run) {
    const event = { at: this.#micros + Math.round(delayMicros), run, isTimer: false }
    this.#insert(event)
    return event
  }

  /** Advances the clock to a time, and runs the events up to then. */
  async advanceTo(micros) {
    await this.#settled()
    for (let event = this.#events.at(-1); event !== undefined && event.at <= micros; event = this.#events.at(-1)) {
      this.#events.pop()
      if (event.run !== undefined) {
        this.#micros = Math.max(this.#micros, event.at)
        event.run()
        await this.#settled()
      }
    }
    this.#micros = Math.max(this.#micros, micros)
  }

  /** Advances the clock without running events, as when all processes stand still. */
  skip(micros) {
    this.#micros += micros
  }

  /** Replaces the timers of the package. Timers of an earlier virtual time never run. */
  replaceTimers() {
    const clear = (event) => {
      if (event !== undefined) {
        event.run = undefined
      }
    }
    Object.assign(timers, {
      setTimeout: (run, millis) => this.#setTimer(millis, run),
      clearTimeout: clear,
      setInterval: (run, millis) => {
        const timer = this.#setTimer(millis, () => {
          timer.at = this.#micros + millis * 1_000
          timer.run = repeat
          this.#insert(timer)
          run()
        })
        const repeat = timer.run
        return timer
      },
      clearInterval: clear,
      setImmediate: (run) => this.#afterTick.push(run),
      now: this.now,
    })
  }

  #setTimer(millis, run) {
    // A timer of Node lasts at least a millisecond.
    const event = this.schedule(Math.max(1, millis) * 1_000, () => {
      event.run = undefined
      run()
    })
    return Object.assign(event, { isTimer: true, ref: () => event, unref: () => event })
  }

  #insert(event) {
    let [low, high] = [0, this.#events.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#events[middle].at > event.at) {
        low = middle + 1
      } else {
        high = middle
      }
    }
    this.#events.splice(low, 0, event)
  }

  /** Ends the tick: lets promises settle, and runs the functions that wait for the end of the tick. */
  async #settled() {
    do {
      const due = this.#afterTick
      this.#afterTick = []
      for (const run of due) {
        run()
      }
      await drained()
    } while (this.#afterTick.length > 0)
  }
}
