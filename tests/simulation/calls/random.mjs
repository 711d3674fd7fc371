/** Random numbers that follow from a seed: the generator mulberry32. */
export class Random {
  #state

  constructor(seed) {
    this.#state = seed >>> 0
  }

  /** From 0, below 1. */
  next = () => {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** A whole number from `from`, below `to`. */
  whole(from, to) {
    return from + Math.floor(this.next() * (to - from))
  }

  chance(probability) {
    return this.next() < probability
  }

  choose(values) {
    return values[this.whole(0, values.length)]
  }

  /** A generator of its own, whose numbers do not depend on later ones of this generator. */
  fork() {
    return new Random(this.whole(0, 2 ** 32))
  }
}
