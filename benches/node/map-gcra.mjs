/**
 * GCRA in a `Map`: what an expert writes by hand instead of taking a dependency.
 *
 * It is the floor for a limiter in JavaScript, because it leaves out what costs: it never drops a
 * key, counts in whole milliseconds and in doubles, and checks neither keys nor costs.
 */
export class MapGcra {
  /** By key, when the units on its books will have drained: epoch milliseconds. */
  #states = new Map()

  /**
   * @param {number} limit Units per period, and at most so many at once.
   * @param {number} periodMs
   */
  constructor(limit, periodMs) {
    this.limit = limit
    this.periodMs = periodMs
    this.unitMs = periodMs / limit
  }

  /** @param {string} key */
  take(key, cost = 1) {
    const now = Date.now()
    let state = this.#states.get(key)
    if (state === undefined) {
      // An object, changed in place: one look-up per call, where a bare number takes two.
      state = { arrival: now }
      this.#states.set(key, state)
    }
    const before = Math.max(state.arrival, now)
    const after = before + cost * this.unitMs
    const excessMs = after - now - this.periodMs
    const allowed = excessMs <= 0
    if (allowed) state.arrival = after
    const usedMs = (allowed ? after : before) - now
    return {
      allowed,
      limit: this.limit,
      remaining: Math.floor((this.periodMs - usedMs) / this.unitMs),
      retryAfterMs: allowed ? 0 : Math.ceil(excessMs),
      resetAfterMs: Math.ceil(usedMs),
    }
  }
}
