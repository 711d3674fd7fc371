/** Counts operations in flight, and tells when there are none. */
export class InFlightCounter {
  #count = 0
  #idle: (() => void)[] = []

  get count(): number {
    return this.#count
  }

  /** Counts one more operation. */
  add(): void {
    this.#count++
  }

  /** Counts one operation less. */
  remove(): void {
    this.#count--
    if (this.#count === 0) {
      for (const resolve of this.#idle.splice(0)) {
        resolve()
      }
    }
  }

  /** Resolves once no operation is in flight. */
  whenIdle(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#count === 0) {
        resolve()
      } else {
        this.#idle.push(resolve)
      }
    })
  }
}
