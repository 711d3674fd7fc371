/**
 * Exact, fast, atomic rate limiting.
 *
 * @packageDocumentation
 */
export type { Allowed, Decision, DecisionBase, Impossible, PolicyNumbers, Refused } from './decision.js'
export type { Duration, DurationUnit } from './duration.js'
export { TollgateError, type TollgateErrorCode, type TollgateErrorDetails } from './error.js'
export { MemoryStore, type MemoryStoreOptions } from './memory/store.js'
export {
  type FixedWindowOptions,
  type FixedWindowPolicy,
  fixedWindow,
  type GcraOptions,
  type GcraPolicy,
  gcra,
  type Policy,
  type TokenBucketOptions,
  type TokenBucketPolicy,
  tokenBucket,
} from './policy.js'
export {
  type EmbeddedRateLimiter,
  RateLimiter,
  type RateLimiterConstructor,
  type RateLimiterOptions,
  type RedisRateLimiterOptions,
  type TakeOptions,
} from './rate-limiter.js'
export { RedisStore, type RedisStoreOptions } from './redis/store.js'
