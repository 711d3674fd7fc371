/**
 * The flushes that keep the server busy: it reads one and decides another, while this process
 * decodes a third and encodes a fourth. With two, a server and a process that answer each other's few calls fall
 * asleep and wake in turns: with 4 to 8 calls in flight they make two thirds of the calls.
 */
export const FLUSHES_AT_SERVER = 4

/** Two processes of one machine need up to this long to wake each other. */
const WAKE_MS = 0.2

/** The number of round trips of which the least is the recent one, twice. */
const RECENT = 16

/**
 * Measures the round trips of flushes, and finds how many flushes in flight keep the server busy.
 *
 * The round trip of a flush that is sent alone, or the least since then, is nearly the time on the network. By
 * Little's law, of `n` flushes in flight `n * timeAtServer / roundTrip` are at the server. So a near server has
 * four flushes in flight, and a server at 20 ms that answers in 20.4 ms has 130. TCP Vegas (Brakmo, Peterson 1995)
 * works in this way.
 */
export class RttEstimator {
  /** The least round trip since a flush was sent alone. */
  #leastMs = Number.POSITIVE_INFINITY
  /** The least of the current 16 round trips, of the previous 16, and the number of current ones. */
  #currentMs = Number.POSITIVE_INFINITY
  #previousMs = Number.POSITIVE_INFINITY
  #currentCount = 0
  #maxInFlight = FLUSHES_AT_SERVER

  get maxInFlight(): number {
    return this.#maxInFlight
  }

  /** @param milliseconds - 0 if the clock of the platform is too coarse. */
  add(milliseconds: number, wasAlone: boolean): void {
    this.#leastMs = wasAlone ? milliseconds : Math.min(this.#leastMs, milliseconds)
    this.#currentMs = Math.min(this.#currentMs, milliseconds)
    // The least of many: one round trip may be late because this process, the network or the
    // server did something else. All of them are late only if flushes wait for each other.
    const recentMs = Math.max(this.#leastMs, Math.min(this.#currentMs, this.#previousMs))
    const networkMs = Math.max(0, this.#leastMs - WAKE_MS)
    this.#maxInFlight = recentMs > 0 ? (FLUSHES_AT_SERVER * recentMs) / (recentMs - networkMs) : FLUSHES_AT_SERVER
    if (++this.#currentCount === RECENT) {
      this.#previousMs = this.#currentMs
      this.#currentMs = Number.POSITIVE_INFINITY
      this.#currentCount = 0
    }
  }
}
