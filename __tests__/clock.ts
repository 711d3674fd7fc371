import { MemoryStore, type Policy, RateLimiter } from '../ts/index.js'

/** A clock that stands still until it is advanced. It starts on a day in 2026. */
export class FakeClock {
  #now = Date.UTC(2026, 5, 1)

  /** The function to give to a `MemoryStore`. */
  readonly read = (): number => this.#now

  /** Advances the clock by a number of milliseconds. A negative number sets it back. */
  advance(millis: number): void {
    this.#now += millis
  }
}

/** A limiter on an embedded store, and its clock. */
export function limiterOf<const P extends Policy>(policy: P) {
  const clock = new FakeClock()
  return { limiter: new RateLimiter(policy, { store: new MemoryStore({ clock: clock.read }) }), clock }
}
