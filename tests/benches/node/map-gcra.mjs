/**
 * GCRA in a `Map`, as an expert writes it by hand instead of using a dependency.
 *
 * It is a lower bound for the cost of a limiter in JavaScript, because it omits the expensive
 * parts: it never deletes a key, counts in whole milliseconds and in doubles, and checks neither
 * keys nor costs.
 */
export class MapGcra {
  /** The time at which a key's charged units will have drained, in epoch milliseconds. */
  #states = new Map()

  /**
   * @param {number} limit Units per period, and the burst.
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
      // An object that is changed in place needs one look-up per call; a number would need two.
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
