import { timers } from './timers.js'

/**
 * Lets the event loop run while answers are immediate. A caller that calls in a loop, without any
 * other waiting, would otherwise block the whole process, including the notice that the store is up
 * again.
 */
export class YieldTicks {
  readonly #every: number
  #count = 0

  /**
   * @param every - One in this many answers waits for the next tick of the event loop. A tick takes
   * as long as a few answers.
   */
  constructor(every = 64) {
    this.#every = every
  }

  /** Returns an answer, or a promise of it. */
  resolve<T>(answer: T): T | Promise<T> {
    return this.#isDue() ? new Promise((resolve) => timers.setImmediate(() => resolve(answer))) : answer
  }

  /** Rejects with an error, now or in the next tick. */
  reject(error: Error): Promise<never> {
    return this.#isDue() ? new Promise((_, reject) => timers.setImmediate(() => reject(error))) : Promise.reject(error)
  }

  #isDue(): boolean {
    this.#count = (this.#count + 1) % this.#every
    return this.#count === 0
  }
}
