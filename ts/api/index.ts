/** The exports that `tollgate` and `tollgate/wasm` have in common. */

export type { OnStoreFailure } from '../backends/fallback/on-store-failure.js'
export type { LocalDecisions } from '../backends/local/local-options.js'
export type { MemoryStoreOptions } from '../backends/memory/embedded-store.js'
export type { StoreEvents } from '../backends/redis/health.js'
export { type Duration, parseDuration } from '../input/duration.js'
export type { HeaderForm } from '../middleware/shared/header-forms.js'
export {
  type DescribedLimiter,
  type RateLimitHeadersOptions,
  rateLimitHeaders,
} from '../middleware/shared/rate-limit-headers.js'
export * from '../policies/index.js'
export type { BanOptions } from './ban.js'
export type { OverrideOptions, TakeOptions } from './call-options.js'
export type { Applied, Decision, PolicyNumbers } from './decision.js'
export { TollgateError, type TollgateErrorCode } from './error.js'
export type { AcquireOptions, Permit } from './permit.js'
export type { EmbeddedRateLimiter, RateLimiterOptions } from './rate-limiter.js'
export type { Reservation, ReserveOptions, Settlement } from './reservation.js'
export type { WaitOptions } from './wait.js'
export { type PolicyWatch, type WatchOptions, watchPolicies } from './watch-policies.js'
