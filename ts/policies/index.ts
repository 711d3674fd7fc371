/** The policies of the public API; `calendarWindow` is with its engine. */
export type { CalendarWindowOptions, CalendarWindowPolicy } from './calendar-window.js'
export { type ConcurrencyOptions, type ConcurrencyPolicy, concurrency } from './concurrency.js'
export type { CostOf } from './cost-of.js'
export { type FixedWindowOptions, type FixedWindowPolicy, fixedWindow } from './fixed-window.js'
export { type GcraOptions, type GcraPolicy, gcra } from './gcra.js'
export { type LeakyBucketOptions, type LeakyBucketPolicy, leakyBucket } from './leaky-bucket.js'
export type { Policy } from './policy.js'
export type { KeyOf, Policies } from './policy-set.js'
export { type SlidingCounterOptions, type SlidingCounterPolicy, slidingCounter } from './sliding-counter.js'
export {
  type SlidingLogLimitsPolicy,
  type SlidingLogOptions,
  type SlidingLogPolicy,
  slidingLog,
} from './sliding-log.js'
export {
  type SlidingWindowOptions,
  type SlidingWindowPolicy,
  slidingWindow,
} from './sliding-window.js'
export { type TieredPolicy, tiers } from './tiers.js'
export {
  type TokenBucketOptions,
  type TokenBucketPolicy,
  tokenBucket,
} from './token-bucket.js'
