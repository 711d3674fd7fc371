import { timers } from './timers.js'

export type Listener<T> = (event: T) => void

/** Listeners by event name. An event without listeners does nothing. */
export class Events<E extends object> {
  readonly #listeners = new Map<keyof E, Set<Listener<never>>>()

  /** Adds a listener. @returns A function that removes it. */
  on<Name extends keyof E>(name: Name, listener: Listener<E[Name]>): () => void {
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners)
    // A function that is added twice is called twice.
    const own: Listener<E[Name]> = (event) => listener(event)
    listeners.add(own)
    return () => {
      listeners.delete(own)
    }
  }

  /** Calls all listeners. An error of one becomes an uncaught exception and does not affect the others. */
  emit<Name extends keyof E>(name: Name, event: E[Name]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])] as Listener<E[Name]>[]) {
      try {
        listener(event)
      } catch (error) {
        timers.setImmediate(() => {
          throw error
        })
      }
    }
  }
}
