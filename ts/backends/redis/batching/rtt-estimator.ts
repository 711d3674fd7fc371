/**
 * The flushes that keep the server busy: it reads one and decides another, while this process
 * decodes a third and encodes a fourth. Further flushes would only wait in line, and calls that wait
 * here form larger flushes, which cost both sides less.
 *
 * With two, a server and a process that answer each other's few calls fall asleep and wake in turns:
 * with 4 to 8 calls in flight they make two thirds of the calls.
 */
export const FLUSHES_AT_SERVER = 4

/**
 * Two processes of one machine need up to this long to wake each other. A longer round trip of an
 * idle server is the time on the network.
 */
const WAKE_MS = 0.2

/** The number of round trips of which the least is the recent one, twice. */
const RECENT = 16

/**
 * Measures the round trips of flushes, and finds how many flushes in flight keep the server busy.
 *
 * A round trip is the time on the network plus the time at the server: its work, and waiting for
 * its work. A flush that is sent while none is in flight waits for no other; its round trip, or the
 * least since then, is nearly the time on the network. By Little's law, of `n` flushes in flight
 * `n * timeAtServer / roundTrip` are at the server. So a near server has four flushes in flight. A
 * server at 20 ms that answers in 20.4 ms has 130, and one more delays none of them. TCP Vegas
 * (Brakmo, Peterson 1995) finds the data that wait in a network in this way.
 */
export class RttEstimator {
  /** The least round trip since a flush was sent alone. */
  #leastMs = Number.POSITIVE_INFINITY
  /** The least of the current 16 round trips, of the previous 16, and the number of current ones. */
  #currentMs = Number.POSITIVE_INFINITY
  #previousMs = Number.POSITIVE_INFINITY
  #currentCount = 0
  #maxInFlight = FLUSHES_AT_SERVER

  /** The flushes in flight that keep the server busy. */
  get maxInFlight(): number {
    return this.#maxInFlight
  }

  /**
   * Adds the round trip of a flush.
   *
   * @param milliseconds - 0 if the clock of the platform is too coarse.
   * @param wasAlone - Whether no other flush was in flight when it was sent.
   */
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
