/** A `TestClock` for each test of `OutgoingClient`, and limiters that follow it. */
import { MemoryStore, type Policies, type Policy, RateLimiter } from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'

export let clock: TestClock

export function renewClock(): void {
  clock = new TestClock()
}

beforeEach(renewClock)

export function limiterOf<const P extends Policy | Policies>(policy: P) {
  return new RateLimiter(policy, { store: new MemoryStore({ clock }), prefix: 'out' })
}

/** Waits for everything that is due up to a time from now. */
export const pass = (millis: number) => clock.advance(`${millis}ms`)
