import { MemoryStore, type Policy, RateLimiter } from '../ts/index.js'

/** A clock that stands still until it is told: it starts on a day in 2026. */
export class FakeClock {
  #now = Date.UTC(2026, 5, 1)

  /** The function to give to a `MemoryStore`. */
  readonly read = (): number => this.#now

  /** Lets time pass (or, below 0, sets the clock back), in milliseconds. */
  advance(millis: number): void {
    this.#now += millis
  }
}

/** A limiter on an embedded store, and its clock. */
export function limiterOf<const P extends Policy>(policy: P) {
  const clock = new FakeClock()
  return { limiter: new RateLimiter(policy, { store: new MemoryStore({ clock: clock.read }) }), clock }
}
