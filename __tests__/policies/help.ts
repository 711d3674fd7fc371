import { MemoryStore, type Policy, RateLimiter, type TollgateError } from '../../ts/index.js'
import { FakeClock } from '../clock.js'

/** What users without TypeScript can pass. */
export const anything = (value: unknown) => value as never

/** The error of what must fail. */
export function failureOf(run: () => unknown): TollgateError {
  try {
    run()
  } catch (error) {
    return error as TollgateError
  }
  throw new Error('it did not fail')
}

/** An embedded limiter, and its clock. */
export function limiterOf(policy: Policy) {
  const clock = new FakeClock()
  return { limiter: new RateLimiter(policy, { store: new MemoryStore({ clock: clock.read }) }), clock }
}
