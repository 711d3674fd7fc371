/** Counts what is under way, and tells when nothing is any more. */
export class Pending {
  #count = 0
  #idle: (() => void)[] = []

  get count(): number {
    return this.#count
  }

  /** One more is under way. */
  add(): void {
    this.#count++
  }

  /** One is done. */
  remove(): void {
    this.#count--
    if (this.#count === 0) {
      for (const resolve of this.#idle.splice(0)) {
        resolve()
      }
    }
  }

  /** Resolves once nothing is under way. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#count === 0) {
        resolve()
      } else {
        this.#idle.push(resolve)
      }
    })
  }
}
