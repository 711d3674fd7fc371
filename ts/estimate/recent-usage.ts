/** Absorbs the rounding of a product such as `0.55 * 100`, which is 55.00000000000001. */
const ROUNDING = 1e-9

/** The latest numbers of a sequence, with their quantiles. */
export class RecentUsage {
  readonly #size: number
  /** In the order in which they were added, from `#next` on if all places are taken. */
  readonly #latest: number[] = []
  /** The same numbers, ascending. */
  readonly #sorted: number[] = []
  #next = 0

  /** @param size - How many numbers are remembered. */
  constructor(size: number) {
    this.#size = size
  }

  get count(): number {
    return this.#latest.length
  }

  /** Adds a number, and forgets the oldest one if all places are taken. */
  add(value: number): void {
    const sorted = this.#sorted
    let at = sorted.length
    if (at === this.#size) {
      // The oldest number's place is free now: the numbers between it and the place of the new one move by one.
      at = sorted.indexOf(this.#latest[this.#next] as number)
    }
    this.#latest[this.#next] = value
    this.#next = (this.#next + 1) % this.#size
    for (; at + 1 < sorted.length && (sorted[at + 1] as number) < value; at++) {
      sorted[at] = sorted[at + 1] as number
    }
    for (; at > 0 && (sorted[at - 1] as number) > value; at--) {
      sorted[at] = sorted[at - 1] as number
    }
    sorted[at] = value
  }

  /** The smallest of the numbers that at least this share of them does not exceed. There must be a number. */
  quantile(share: number): number {
    const rank = Math.max(1, Math.ceil(share * this.#sorted.length - ROUNDING))
    return this.#sorted[rank - 1] as number
  }
}
