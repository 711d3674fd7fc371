import { quietly } from '../input/duration.js'
import { invalid, shown } from '../input/options.js'
import { type CalendarWindowPolicy, calendarWindowIn } from './calendar-window.js'
import { type FixedWindowPolicy, fixedWindow } from './fixed-window.js'
import { type GcraPolicy, gcra } from './gcra.js'
import { type LeakyBucketPolicy, leakyBucket } from './leaky-bucket.js'
import { type SlidingCounterPolicy, slidingCounter } from './sliding-counter.js'
import { type SlidingLogPolicy, type SlidingLogsPolicy, slidingLog, slidingLogs } from './sliding-log.js'
import { type SlidingWindowPolicy, slidingWindow } from './sliding-window.js'
import { type TokenBucketPolicy, tokenBucket } from './token-bucket.js'

/**
 * One limit: an algorithm with its numbers.
 *
 * It is plain data: it can be logged, sent to a worker or written to a file, and is checked again
 * wherever it is used.
 *
 * @typeParam S - The kind of key that it counts by (its `per`).
 */
export type Policy<S extends string = string> =
  | CalendarWindowPolicy<S>
  | FixedWindowPolicy<S>
  | GcraPolicy<S>
  | LeakyBucketPolicy<S>
  | SlidingCounterPolicy<S>
  | SlidingLogPolicy<S>
  | SlidingLogsPolicy<string, S>
  | SlidingWindowPolicy<S>
  | TokenBucketPolicy<S>

const MAKERS = {
  fixedWindow,
  // The engine that is to count by it knows its time zone, or refuses it.
  calendarWindow: calendarWindowIn(),
  slidingWindow,
  slidingCounter,
  slidingLog,
  slidingLogs,
  tokenBucket,
  leakyBucket,
  gcra,
}

/** What a policy must be, for messages. */
export const POLICY_RULE =
  'must be made by a function such as gcra({ limit, period }) or fixedWindow({ limit, window })'

/** The names of a policy's limits, in the order in which they were declared; `undefined` if it is one limit. */
export function limitNamesOf(policy: Policy): readonly string[] | undefined {
  return policy.algorithm === 'slidingLogs' ? Object.keys(policy.limits) : undefined
}

/** Whether a value names its algorithm, as policies do. */
export function isPolicyLike(value: unknown): value is { readonly algorithm: string } {
  return typeof value === 'object' && value !== null && 'algorithm' in value && typeof value.algorithm === 'string'
}

/**
 * Takes a value as a policy: a policy is what its function makes of its own numbers.
 *
 * @param where - What the value is, for the message.
 */
export function policyOf(value: unknown, where = 'policy'): Policy {
  if (!isPolicyLike(value)) {
    throw invalid('INVALID_POLICY', where, POLICY_RULE, value)
  }
  const { algorithm, ...options } = value
  if (Object.hasOwn(MAKERS, algorithm)) {
    const make: (options: never) => Policy = MAKERS[algorithm as keyof typeof MAKERS]
    return quietly(() => make(options as never))
  }
  throw invalid('INVALID_POLICY', 'algorithm', `must be one of ${Object.keys(MAKERS).map(shown).join(', ')}`, algorithm)
}
