/** The exports that `tollgate` and `tollgate/wasm` have in common. */

export type { OnStoreFailure } from '../backends/fallback/on-store-failure.js'
export type { LocalDecisions } from '../backends/local/local-options.js'
export type { MemoryStoreOptions } from '../backends/memory/embedded-store.js'
export type { PoliciesWarning } from '../backends/redis/health.js'
export type { Duration, DurationUnit, DurationWord } from '../input/duration.js'
export type { TimerClock } from '../platform/timer-clock.js'
export * from '../policies/index.js'
export type { BanningOptions, BanOptions } from './ban.js'
export type { KeyOptions, OverrideOptions, RefundOptions, TakeOptions, TierOptions } from './call-options.js'
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
} from './decision.js'
export { TollgateError, type TollgateErrorCode, type TollgateErrorDetails } from './error.js'
export type { OverridableOption, Override, OverrideValues, PolicyOverride } from './override.js'
export type {
  Acquired,
  AcquireOptions,
  Acquiring,
  AcquiringFor,
  NotAcquired,
  Permit,
  PermitSignal,
} from './permit.js'
export type {
  EmbeddedRateLimiter,
  EmbeddedTieredLimiter,
  Enforcing,
  EnforcingTiers,
  RateLimiterOptions,
  SomeOf,
  TieredLimiter,
} from './rate-limiter.js'
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
} from './reservation.js'
export type { AbortSignalLike, Waited, WaitedOrRefused, WaitOptions, Waits, WaitsOf } from './wait.js'
export { type PolicyWatch, type UpdatedLimiter, type WatchOptions, watchPolicies } from './watch-policies.js'
