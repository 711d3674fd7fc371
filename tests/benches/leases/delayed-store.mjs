/** An embedded store behind a network in virtual time. */

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
   * @param {import('../../simulation/calls/virtual-time.mjs').VirtualTime} time
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
