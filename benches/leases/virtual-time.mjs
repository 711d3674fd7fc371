/** Virtual time, and an embedded store behind a network in virtual time. */
import { timers } from '../../dist/platform/timers.js'

/** The store's clock at time 0. Such a number of milliseconds has exact microseconds. */
const START_MS = 1e9

/** Resolves when no promise callback is left to run. */
const drained = () => new Promise((resolve) => process.nextTick(resolve))

/** A clock with events. Times are in whole microseconds from 0. */
export class VirtualTime {
  #micros = 0
  #scheduled = 0
  /** Events by delay. Events of one delay are due in the order in which they were scheduled. */
  #queues = new Map()
  #afterTick = []

  /** Milliseconds of the local clock of all processes. */
  now = () => this.#micros / 1_000

  /** Milliseconds of the store's clock. */
  storeNow = () => START_MS + this.#micros / 1_000

  /** Runs a function after a delay. */
  schedule(delayMicros, run) {
    const event = { at: this.#micros + delayMicros, order: this.#scheduled++, run }
    const queue = this.#queues.get(delayMicros)
    if (queue === undefined) {
      this.#queues.set(delayMicros, [event])
    } else {
      queue.push(event)
    }
    return event
  }

  /** Advances the clock to a time, and runs the events up to then. */
  async advanceTo(micros) {
    await this.#settled()
    for (let queue = this.#nextQueue(); queue !== undefined && queue[0].at <= micros; queue = this.#nextQueue()) {
      const { at, run } = queue.shift()
      this.#micros = at
      run?.()
      await this.#settled()
    }
    this.#micros = micros
  }

  /** Replaces the timers of the package. Timers of an earlier virtual time never run. */
  replaceTimers() {
    Object.assign(timers, {
      setTimeout: (run, millis) => this.schedule(millis * 1_000, run),
      clearTimeout: (event) => {
        if (event !== undefined) {
          event.run = undefined
        }
      },
      setImmediate: (run) => this.#afterTick.push(run),
    })
  }

  /** The queue with the next event. */
  #nextQueue() {
    let next
    for (const queue of this.#queues.values()) {
      const [first] = queue
      const isEarlier =
        first !== undefined &&
        (next === undefined || first.at < next[0].at || (first.at === next[0].at && first.order < next[0].order))
      next = isEarlier ? queue : next
    }
    return next
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

/** Counts of operations, of units that leases gave back unused, and of those the store accepted. */
const noCounts = () => ({ operations: 0, unused: 0, returned: 0 })

/** An embedded store that all processes reach over a network. It counts its operations. */
export class DelayedStore {
  isSync = false
  isDown = false
  /** On all keys. */
  all = noCounts()
  /** On one key. */
  hottest = noCounts()
  #backend
  #time
  #oneWayMicros
  #hottestKey

  /**
   * @param {object} backend The embedded store, by the same time.
   * @param {VirtualTime} time
   * @param {number} roundTripMs
   * @param {string} hottestKey The key to count separately.
   */
  constructor(backend, time, roundTripMs, hottestKey) {
    this.#backend = backend
    this.#time = time
    this.#oneWayMicros = roundTripMs * 500
    this.#hottestKey = hottestKey
  }

  get origin() {
    return this.#backend.origin
  }

  get policySet() {
    return this.#backend.policySet
  }

  take(key, cost) {
    this.#count(key, 'operations', 1)
    return this.#later(() => this.#backend.take(key, cost))
  }

  takeBy(keys, cost) {
    this.#count(keys.keys[0], 'operations', 1)
    return this.#later(() => this.#backend.takeBy(keys, cost))
  }

  execute(keys, operation) {
    const [key] = keys.keys
    this.#count(key, 'operations', 1)
    if (operation.kind !== 'refund') {
      return this.#later(() => this.#backend.execute(keys, operation))
    }
    this.#count(key, 'unused', operation.units)
    return this.#later(() => {
      const result = this.#backend.execute(keys, operation)
      this.#count(key, 'returned', result.units)
      return result
    })
  }

  #count(key, name, number) {
    this.all[name] += number
    if (key === this.#hottestKey) {
      this.hottest[name] += number
    }
  }

  #later(call) {
    return new Promise((resolve) => {
      this.#time.schedule(this.#oneWayMicros, () => {
        const answer = call()
        this.#time.schedule(this.#oneWayMicros, () => resolve(answer))
      })
    })
  }
}
