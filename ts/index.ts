/**
 * Exact, fast, atomic rate limiting.
 *
 * @module tollgate
 */
export type { KeyOptions, OverrideOptions, TakeOptions } from './arguments.js'
export { calendarWindow } from './calendar-window.js'
export type { KeyOf, LimitNames, Policies, PoliciesByLimit } from './compound.js'
export type {
  Allowed,
  Applied,
  Blocked,
  Decision,
  DecisionBase,
  Impossible,
  PolicyNumbers,
  Refused,
} from './decision.js'
export type { Duration, DurationUnit } from './duration.js'
export { TollgateError, type TollgateErrorCode, type TollgateErrorDetails } from './error.js'
export type { OnStoreFailure } from './fallback/on-store-failure.js'
export type { MemoryStoreOptions } from './memory/embedded-store.js'
export { MemoryStore } from './memory/store.js'
export type { Override, PolicyOverride } from './override.js'
export type { CalendarUnit, CalendarWindowOptions, CalendarWindowPolicy } from './policies/calendar-window.js'
export { type FixedWindowOptions, type FixedWindowPolicy, fixedWindow } from './policies/fixed-window.js'
export { type GcraOptions, type GcraPolicy, gcra } from './policies/gcra.js'
export { type LeakyBucketOptions, type LeakyBucketPolicy, leakyBucket } from './policies/leaky-bucket.js'
export { type SlidingCounterOptions, type SlidingCounterPolicy, slidingCounter } from './policies/sliding-counter.js'
export {
  type SlidingLogOptions,
  type SlidingLogPolicy,
  type SlidingLogsOptions,
  type SlidingLogsPolicy,
  slidingLog,
  slidingLogs,
} from './policies/sliding-log.js'
export {
  type SlidingWindowLayout,
  type SlidingWindowOptions,
  type SlidingWindowPolicy,
  slidingWindow,
} from './policies/sliding-window.js'
export {
  type RefillMode,
  type TokenBucketOptions,
  type TokenBucketPolicy,
  tokenBucket,
} from './policies/token-bucket.js'
export type { Policy } from './policy.js'
export {
  type AnyRateLimiterOptions,
  type EmbeddedRateLimiter,
  type Enforcing,
  RateLimiter,
  type RateLimiterConstructor,
  type RateLimiterOptions,
  type RedisRateLimiterOptions,
  type RedisUrl,
  type SomeOf,
} from './rate-limiter.js'
export type {
  EvictingWarning,
  PoliciesWarning,
  StoreDown,
  StoreEvents,
  StoreStatus,
  StoreUp,
  StoreWarning,
} from './redis/health.js'
export type {
  RedisClusterOptions,
  RedisCredentials,
  RedisNode,
  RedisSentinelOptions,
  RedisStoreOptions,
  RedisTlsOptions,
} from './redis/options.js'
export { RedisStore } from './redis/store.js'
export type {
  NotReserved,
  Reservation,
  Reserved,
  ReserveOptions,
  Reserving,
  ReservingFor,
  Settlement,
} from './reservation.js'
export type { AbortSignalLike, Waited, WaitedOrRefused, WaitOptions, Waits, WaitsOf } from './wait.js'
export { windowMsOf } from './window.js'
