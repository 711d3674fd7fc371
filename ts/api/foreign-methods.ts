import { shown } from '../input/options.js'
import { TollgateError } from './error.js'

/**
 * Methods of limiters in other packages, with the call that does the same here: those of
 * rate-limiter-flexible, `@upstash/ratelimit`, Bucket4j, `limiter` and bottleneck.
 */
const FOREIGN_METHODS = {
  consume: 'take(key, cost)',
  limit: 'take(key)',
  tryConsume: 'take(key, cost)',
  removeTokens: 'wait(key, { cost })',
  tryRemoveTokens: 'takeSync(key, cost)',
  penalty: 'penalize(key, units)',
  reward: 'refund(decision, units)',
  schedule: 'acquire(key), or new OutgoingClient({ limiter }).schedule(fn) of tollgate/client',
} as const

/**
 * Adds the methods of other packages to a prototype: each throws an error that names ours. They are
 * not enumerable, and not in the types.
 */
export function addForeignMethods(prototype: object): void {
  for (const [name, ours] of Object.entries(FOREIGN_METHODS)) {
    const value = () => {
      throw new TollgateError('INVALID_OPTION', `RateLimiter has no method ${shown(name)}; use ${ours}`)
    }
    Object.defineProperty(prototype, name, { value, configurable: true, writable: true })
  }
}
