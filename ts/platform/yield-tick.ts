import { timers } from './timers.js'

/** Lets the event loop run while answers are immediate: a caller that calls in a loop would block the process. */
export class YieldTicks {
  readonly #every: number
  #count = 0

  /** @param every - One in this many answers waits for the next tick of the event loop. */
  constructor(every = 64) {
    this.#every = every
  }

  resolve<T>(answer: T): T | Promise<T> {
    return this.#isDue() ? new Promise((resolve) => timers.setImmediate(() => resolve(answer))) : answer
  }

  reject(error: Error): Promise<never> {
    return this.#isDue() ? new Promise((_, reject) => timers.setImmediate(() => reject(error))) : Promise.reject(error)
  }

  #isDue(): boolean {
    this.#count = (this.#count + 1) % this.#every
    return this.#count === 0
  }
}
