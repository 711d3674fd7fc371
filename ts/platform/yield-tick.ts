import { timers } from './timers.js'

/** One in so many answers that are given at once waits for the event loop's next turn. */
const EVERY = 64

/**
 * Sees to it that the event loop turns while answers are given at once: a caller who asks again and again without
 * any other waiting would keep it from hearing that the store is back, and the whole process from its work.
 */
export class Turns {
  #given = 0

  /** Gives an answer: mostly at once. */
  give<T>(answer: T): T | Promise<T> {
    return this.#isDue() ? new Promise((resolve) => timers.setImmediate(() => resolve(answer))) : answer
  }

  /** Rejects with an error: mostly at once. */
  reject(error: Error): Promise<never> {
    return this.#isDue() ? new Promise((_, reject) => timers.setImmediate(() => reject(error))) : Promise.reject(error)
  }

  #isDue(): boolean {
    this.#given = (this.#given + 1) % EVERY
    return this.#given === 0
  }
}
