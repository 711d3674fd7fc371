import { timers } from './timers.js'

/** Every 64th immediate answer waits for the next tick of the event loop. */
const EVERY = 64

/**
 * Lets the event loop run while answers are immediate. A caller that calls in a loop, without any
 * other waiting, would otherwise block the whole process, including the notice that the store is up
 * again.
 */
export class YieldTicks {
  #count = 0

  /** Returns an answer; every 64th time, a promise of it. */
  resolve<T>(answer: T): T | Promise<T> {
    return this.#isDue() ? new Promise((resolve) => timers.setImmediate(() => resolve(answer))) : answer
  }

  /** Rejects with an error, every 64th time in the next tick. */
  reject(error: Error): Promise<never> {
    return this.#isDue() ? new Promise((_, reject) => timers.setImmediate(() => reject(error))) : Promise.reject(error)
  }

  #isDue(): boolean {
    this.#count = (this.#count + 1) % EVERY
    return this.#count === 0
  }
}
