export class InFlightCounter {
  #count = 0
  #idle: (() => void)[] = []

  get count(): number {
    return this.#count
  }

  add(): void {
    this.#count++
  }

  remove(): void {
    this.#count--
    if (this.#count === 0) {
      for (const resolve of this.#idle.splice(0)) {
        resolve()
      }
    }
  }

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
