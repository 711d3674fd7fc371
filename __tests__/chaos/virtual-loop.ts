import type { LoopClock } from '../../tests/chaos/loop-delay.js'

/** An event loop in virtual time, which stands still when a test says so. */
export class VirtualLoop implements LoopClock {
  #now = 0
  readonly #timers = new Map<object, { readonly due: number; readonly run: () => void }>()

  now(): number {
    return this.#now
  }

  after(ms: number, run: () => void): () => void {
    const timer = {}
    this.#timers.set(timer, { due: this.#now + ms, run })
    return () => this.#timers.delete(timer)
  }

  /** Lets time pass in which the loop is free: each timer runs when it is due. */
  advance(ms: number): void {
    const end = this.#now + ms
    for (;;) {
      const [next] = [...this.#timers].sort(([, one], [, other]) => one.due - other.due)
      if (next === undefined || next[1].due > end) {
        this.#now = end
        return
      }
      const [timer, { due, run }] = next
      this.#timers.delete(timer)
      this.#now = Math.max(this.#now, due)
      run()
    }
  }

  /** Lets time pass in which the loop is blocked, and then runs the timers that are due. */
  stall(ms: number): void {
    this.#now += ms
    this.advance(0)
  }
}
