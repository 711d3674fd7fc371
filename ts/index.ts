/**
 * Exact, fast, atomic rate limiting.
 *
 * @module tollgate
 */

export type { BanningOptions, BanOptions } from './api/ban.js'
export { calendarWindow } from './api/calendar-window.js'
export type { KeyOptions, OverrideOptions, RefundOptions, TakeOptions, TierOptions } from './api/call-options.js'
export type {
  Allowed,
  Applied,
  BanInForce,
  Blocked,
  Decision,
  DecisionBase,
  Impossible,
  PolicyNumbers,
  Refused,
} from './api/decision.js'
export { TollgateError, type TollgateErrorCode, type TollgateErrorDetails } from './api/error.js'
export type { OverridableOption, Override, OverrideValues, PolicyOverride } from './api/override.js'
export type {
  Acquired,
  AcquireOptions,
  Acquiring,
  AcquiringFor,
  NotAcquired,
  Permit,
  PermitSignal,
} from './api/permit.js'
export {
  type AnyRateLimiterOptions,
  type EmbeddedRateLimiter,
  type EmbeddedTieredLimiter,
  type Enforcing,
  type EnforcingTiers,
  RateLimiter,
  type RateLimiterConstructor,
  type RateLimiterOptions,
  type RedisRateLimiterOptions,
  type RedisUrl,
  type SomeOf,
  type TieredLimiter,
} from './api/rate-limiter.js'
export type {
  ExtendOptions,
  Extension,
  NotReserved,
  Renewal,
  Reservation,
  Reserved,
  ReserveOptions,
  Reserving,
  ReservingFor,
  Settlement,
} from './api/reservation.js'
export type { AbortSignalLike, Waited, WaitedOrRefused, WaitOptions, Waits, WaitsOf } from './api/wait.js'
export { type PolicyWatch, type UpdatedLimiter, type WatchOptions, watchPolicies } from './api/watch-policies.js'
export type { OnStoreFailure } from './backends/fallback/on-store-failure.js'
export type { LeasesHeld } from './backends/limiter-backend.js'
export type { LocalDecisions } from './backends/local/local-options.js'
export type { MemoryStoreOptions } from './backends/memory/embedded-store.js'
export { MemoryStore } from './backends/memory/memory-store.js'
export type {
  ClusterNodeWarning,
  EvictingWarning,
  PoliciesWarning,
  StoreDown,
  StoreEvents,
  StoreStatus,
  StoreUp,
  StoreWarning,
  VulnerableServerWarning,
} from './backends/redis/health.js'
export type {
  RedisClusterOptions,
  RedisCredentials,
  RedisNode,
  RedisSentinelOptions,
  RedisStoreOptions,
  RedisTlsOptions,
} from './backends/redis/options.js'
export { RedisStore } from './backends/redis/redis-store.js'
export { type Duration, type DurationUnit, type DurationWord, parseDuration } from './input/duration.js'
export type { HeaderForm } from './middleware/shared/header-forms.js'
export {
  type DescribedLimiter,
  type RateLimitHeadersOptions,
  rateLimitHeaders,
} from './middleware/shared/rate-limit-headers.js'
export type { TimerClock } from './platform/timer-clock.js'
export * from './policies/index.js'
