/** The policies of the public API; `calendarWindow` is with its engine. */
export type { CalendarUnit, CalendarWindowOptions, CalendarWindowPolicy } from './calendar-window.js'
export { type ConcurrencyOptions, type ConcurrencyPolicy, concurrency } from './concurrency.js'
export { type FixedWindowOptions, type FixedWindowPolicy, fixedWindow } from './fixed-window.js'
export { type GcraOptions, type GcraPolicy, gcra } from './gcra.js'
export { type LeakyBucketOptions, type LeakyBucketPolicy, leakyBucket } from './leaky-bucket.js'
export type { Policy } from './policy.js'
export type {
  KeyOf,
  LimitNames,
  Policies,
  PoliciesByLimit,
  PoliciesOfTier,
  TieredPolicies,
  TierOf,
} from './policy-set.js'
export { type SlidingCounterOptions, type SlidingCounterPolicy, slidingCounter } from './sliding-counter.js'
export {
  type SlidingLogLimitsOptions,
  type SlidingLogLimitsPolicy,
  type SlidingLogOptions,
  type SlidingLogPolicy,
  slidingLog,
} from './sliding-log.js'
export {
  type SlidingWindowLayout,
  type SlidingWindowOptions,
  type SlidingWindowPolicy,
  slidingWindow,
} from './sliding-window.js'
export { type TieredPolicy, tiers } from './tiers.js'
export {
  type RefillMode,
  type TokenBucketOptions,
  type TokenBucketPolicy,
  tokenBucket,
} from './token-bucket.js'
