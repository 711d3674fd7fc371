import { MemoryStore, type Policy, RateLimiter } from '../../ts/index.js'
import { FakeClock } from '../clock.js'

/** An embedded limiter, and its clock. */
export function limiterOf(policy: Policy) {
  const clock = new FakeClock()
  return { limiter: new RateLimiter(policy, { store: new MemoryStore({ clock: clock.read }) }), clock }
}
