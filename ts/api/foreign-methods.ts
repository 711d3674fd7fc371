import { shown } from '../input/options.js'
import { TollgateError } from './error.js'

/**
 * Methods of limiters in other packages, with the call that does the same here: those of
 * rate-limiter-flexible, express-rate-limit, `@upstash/ratelimit`, Bucket4j, `limiter` and bottleneck.
 */
export const FOREIGN_LIMITER_METHODS = {
  consume: 'take(key, cost)',
  limit: 'take(key)',
  tryConsume: 'take(key, cost)',
  blockUntilReady: 'wait(key, { maxWaitMs })',
  removeTokens: 'wait(key, { cost })',
  tryRemoveTokens: 'takeSync(key, cost)',
  get: 'peek(key)',
  getRemaining: 'peek(key)',
  penalty: 'penalize(key, units)',
  reward: 'refund(decision, units)',
  delete: 'reset(key)',
  resetKey: 'reset(key)',
  resetUsedTokens: 'reset(key)',
  schedule: 'acquire(key), or new OutgoingClient({ limiter }).schedule(fn) of tollgate/client',
} as const

const TAKE = 'take(key, cost) of new RateLimiter(policy, { store, prefix })'

/** Methods that a limiter has, and no store. */
export const FOREIGN_STORE_METHODS = { consume: TAKE, limit: TAKE } as const

/** Methods of Redis clients. */
export const FOREIGN_CLIENT_METHODS = { quit: 'close()', disconnect: 'close()' } as const

/**
 * Adds the methods of other packages to a prototype: each throws an error that names ours. They are
 * not enumerable, and not in the types.
 *
 * @param owner - The name of the class, for messages.
 */
export function addForeignMethods(prototype: object, owner: string, methods: Readonly<Record<string, string>>): void {
  for (const [name, ours] of Object.entries(methods)) {
    const value = () => {
      throw new TollgateError('INVALID_OPTION', `${owner} has no method ${shown(name)}; use ${ours}`)
    }
    Object.defineProperty(prototype, name, { value, configurable: true, writable: true })
  }
}
