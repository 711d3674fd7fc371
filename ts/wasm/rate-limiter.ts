import { TollgateError } from '../api/error.js'
import { Limiter, type OwnedStore } from '../api/limiter.js'
import { checkLimiterCount } from '../api/limiter-options.js'
import type * as face from '../api/rate-limiter.js'
import type { Policy } from '../policies/policy.js'
import type { Enforced, Policies } from '../policies/policy-set.js'
import { MemoryStore } from './memory-store.js'
import type { RedisStore } from './redis/redis-store.js'

/** Limits how much each key may do: see the interface of the same name in `tollgate`. */
export type RateLimiter<P extends Enforced = Policy | Policies> = face.RateLimiter<P>

/** The options of a {@link RateLimiter} over Redis. */
export interface RedisRateLimiterOptions extends Omit<face.RedisRateLimiterOptions, 'store'> {
  /** The store of the counts. */
  readonly store: RedisStore
}

// The cast adds the names in decisions: the policy's type has them, the engine's answer does not.
/** Limits how much each key may do: see the interface of the same name in `tollgate`. */
export const RateLimiter = class RateLimiter extends Limiter {
  constructor(policy: unknown, options?: unknown) {
    checkLimiterCount(arguments.length)
    super(policy, options, ownStore)
  }
} as unknown as {
  /** As for the `RateLimiter` of `tollgate`. @throws {TollgateError} `INVALID_POLICY`, `INVALID_OPTION` */
  new <const P extends Enforced>(policy: P, options?: face.RateLimiterOptions): face.EmbeddedRateLimiter<P>
  /** A limiter for many processes. It has no `takeSync`. */
  new <const P extends Enforced>(policy: P, options: RedisRateLimiterOptions): face.RateLimiter<P>
  readonly prototype: RateLimiter
}

function ownStore(url: string | undefined): OwnedStore {
  if (url !== undefined) {
    throw new TollgateError(
      'INVALID_OPTION',
      'store must be a MemoryStore or a RedisStore: tollgate/wasm opens no connections itself',
    )
  }
  return { store: new MemoryStore(), release: async () => {} }
}
