import { invalid, shown } from './options.js'
import { type CalendarWindowPolicy, calendarWindow } from './policies/calendar-window.js'
import { type FixedWindowPolicy, fixedWindow } from './policies/fixed-window.js'
import { type GcraPolicy, gcra } from './policies/gcra.js'
import { type LeakyBucketPolicy, leakyBucket } from './policies/leaky-bucket.js'
import { type SlidingCounterPolicy, slidingCounter } from './policies/sliding-counter.js'
import { type SlidingLogPolicy, type SlidingLogsPolicy, slidingLog, slidingLogs } from './policies/sliding-log.js'
import { type SlidingWindowPolicy, slidingWindow } from './policies/sliding-window.js'
import { type TokenBucketPolicy, tokenBucket } from './policies/token-bucket.js'

/**
 * One limit: an algorithm with its numbers.
 *
 * It is plain data: it can be logged, sent to a worker or written to a file, and is checked again
 * wherever it is used.
 */
export type Policy =
  | CalendarWindowPolicy
  | FixedWindowPolicy
  | GcraPolicy
  | LeakyBucketPolicy
  | SlidingCounterPolicy
  | SlidingLogPolicy
  | SlidingLogsPolicy
  | SlidingWindowPolicy
  | TokenBucketPolicy

/** The names of the limits that decisions under a policy tell of. */
export type LimitNames<P extends Policy> = P extends SlidingLogsPolicy<infer N> ? N : 'default'

const MAKERS = {
  fixedWindow,
  calendarWindow,
  slidingWindow,
  slidingCounter,
  slidingLog,
  slidingLogs,
  tokenBucket,
  leakyBucket,
  gcra,
}

/** The names of a policy's limits, in the order in which they were declared; `undefined` if it is one limit. */
export function limitNamesOf(policy: Policy): readonly string[] | undefined {
  return policy.algorithm === 'slidingLogs' ? Object.keys(policy.limits) : undefined
}

/** Takes a value as a policy: a policy is what its function makes of its own numbers. */
export function policyOf(value: unknown): Policy {
  if (typeof value === 'object' && value !== null && 'algorithm' in value) {
    const { algorithm, ...options } = value
    if (typeof algorithm === 'string' && Object.hasOwn(MAKERS, algorithm)) {
      const make: (options: never) => Policy = MAKERS[algorithm as keyof typeof MAKERS]
      return make(options as never)
    }
    throw invalid(
      'INVALID_POLICY',
      'algorithm',
      `must be one of ${Object.keys(MAKERS).map(shown).join(', ')}`,
      algorithm,
    )
  }
  throw invalid('INVALID_POLICY', 'policy', `must be made by ${Object.keys(MAKERS).join('(), ')}()`, value)
}
