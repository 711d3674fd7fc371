/**
 * The engine as WebAssembly, for platforms without the addon: Cloudflare Workers, Deno Deploy and
 * browsers. It has the same limiters, policies and decisions as `tollgate`. The counts are in the
 * memory of the engine, or in Redis through a client that you have ({@link RedisStore}).
 *
 * No setup is needed: the engine starts when the module is loaded.
 *
 * @example
 * import { gcra, RateLimiter } from 'tollgate/wasm'
 *
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }))
 * const { allowed } = await limiter.take('user:42')
 *
 * @module tollgate/wasm
 */
export type { BanningOptions, BanOptions } from '../api/ban.js'
export type { KeyOptions, OverrideOptions, RefundOptions, TakeOptions, TierOptions } from '../api/call-options.js'
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
} from '../api/decision.js'
export { TollgateError, type TollgateErrorCode, type TollgateErrorDetails } from '../api/error.js'
export type { OverridableOption, Override, OverrideValues, PolicyOverride } from '../api/override.js'
export type {
  Acquired,
  AcquireOptions,
  Acquiring,
  AcquiringFor,
  NotAcquired,
  Permit,
  PermitSignal,
} from '../api/permit.js'
export type {
  EmbeddedRateLimiter,
  EmbeddedTieredLimiter,
  Enforcing,
  EnforcingTiers,
  RateLimiterOptions,
  SomeOf,
  TieredLimiter,
} from '../api/rate-limiter.js'
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
} from '../api/reservation.js'
export type { AbortSignalLike, Waited, WaitedOrRefused, WaitOptions, Waits, WaitsOf } from '../api/wait.js'
export { type PolicyWatch, type UpdatedLimiter, type WatchOptions, watchPolicies } from '../api/watch-policies.js'
export type { OnStoreFailure } from '../backends/fallback/on-store-failure.js'
export type { LocalDecisions } from '../backends/local/local-options.js'
export type { MemoryStoreOptions } from '../backends/memory/embedded-store.js'
export type { PoliciesWarning } from '../backends/redis/health.js'
export { type Duration, type DurationUnit, type DurationWord, parseDuration } from '../input/duration.js'
export type { HeaderForm } from '../middleware/shared/header-forms.js'
export {
  type DescribedLimiter,
  type RateLimitHeadersOptions,
  rateLimitHeaders,
} from '../middleware/shared/rate-limit-headers.js'
export type { TimerClock } from '../platform/timer-clock.js'
export * from '../policies/index.js'
export { calendarWindow } from './calendar-window.js'
export { MemoryStore } from './memory-store.js'
export { RateLimiter, type RateLimiterConstructor, type RedisRateLimiterOptions } from './rate-limiter.js'
export type {
  GlideClient,
  IoredisClient,
  NodeRedisClient,
  RedisClient,
  RunCommand,
  ScriptClient,
} from './redis/clients.js'
export { RedisStore, type RedisStoreFromOptions } from './redis/redis-store.js'
