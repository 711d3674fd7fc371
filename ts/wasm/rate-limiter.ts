import { TollgateError } from '../api/error.js'
import { Limiter, type OwnedStore } from '../api/limiter.js'
import { checkLimiterCount } from '../api/limiter-options.js'
import type { Override, PolicyOverride } from '../api/override.js'
import type { AcquiringFor } from '../api/permit.js'
import type * as face from '../api/rate-limiter.js'
import type { ReservingFor } from '../api/reservation.js'
import type { WaitsOf } from '../api/wait.js'
import type { Policy } from '../policies/policy.js'
import type { KeyOf, LimitNames, Policies, TieredPolicies } from '../policies/policy-set.js'
import { MemoryStore } from './memory-store.js'
import type { RedisStore } from './redis/redis-store.js'

/** Limits how much each key may do: see the interface of the same name in `tollgate`. */
export type RateLimiter<
  K = string,
  N extends string = 'default',
  O = PolicyOverride | Override<Policies>,
  T extends string = never,
> = face.RateLimiter<K, N, O, T>

/** The options of a {@link RateLimiter} over Redis. */
export interface RedisRateLimiterOptions extends Omit<face.AnyRateLimiterOptions, 'store'> {
  /** The store of the counts. */
  readonly store: RedisStore
}

/** The constructor of limiters. */
export interface RateLimiterConstructor {
  /** As for the `RateLimiter` of `tollgate`. @throws {TollgateError} `INVALID_POLICY`, `INVALID_OPTION` */
  new <const P extends Policy | Policies>(
    policy: P,
    options?: face.RateLimiterOptions,
  ): face.EmbeddedRateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> &
    face.Enforcing<P> &
    ReservingFor<P> &
    WaitsOf<P> &
    AcquiringFor<P>
  /** A limiter for many processes. It has no `takeSync`. */
  new <const P extends Policy | Policies>(
    policy: P,
    options: RedisRateLimiterOptions,
  ): RateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> &
    face.Enforcing<P> &
    ReservingFor<P> &
    WaitsOf<P> &
    AcquiringFor<P>
  /** A limiter whose policies, or some of them, have tiers. */
  new <const P extends TieredPolicies>(policy: P, options?: face.RateLimiterOptions): face.EmbeddedTieredLimiter<P>
  /** A limiter with tiers for many processes. */
  new <const P extends TieredPolicies>(policy: P, options: RedisRateLimiterOptions): face.TieredLimiter<P>
  /** As in `tollgate`: names what is missing. */
  new (policy: Policy | Policies | TieredPolicies, options: RedisRateLimiterOptions): never
  readonly prototype: RateLimiter
}

// The cast adds the names in decisions: the policy's type has them, the engine's answer does not.
/** Limits how much each key may do: see the interface of the same name in `tollgate`. */
export const RateLimiter = class RateLimiter extends Limiter {
  constructor(policy: unknown, options?: unknown) {
    checkLimiterCount(arguments.length)
    super(policy, options, ownStore)
  }
} as unknown as RateLimiterConstructor

function ownStore(url: string | undefined): OwnedStore {
  if (url !== undefined) {
    throw new TollgateError(
      'INVALID_OPTION',
      'store must be a MemoryStore or a RedisStore: tollgate/wasm opens no connections itself',
    )
  }
  return { store: new MemoryStore(), release: async () => {} }
}
