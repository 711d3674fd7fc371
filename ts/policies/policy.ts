import { withoutWarnings } from '../input/duration.js'
import { invalid, shown } from '../input/options.js'
import { type CalendarWindowPolicy, createCalendarWindow } from './calendar-window.js'
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
 * It is plain data: it can be logged, sent to a worker or written to a file. Every function that
 * uses a policy checks it again.
 *
 * @typeParam S - The key dimension that it counts by (its `per`).
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

const FACTORIES = {
  fixedWindow,
  // The engine checks the time zone.
  calendarWindow: createCalendarWindow(),
  slidingWindow,
  slidingCounter,
  slidingLog,
  slidingLogs,
  tokenBucket,
  leakyBucket,
  gcra,
}

/** The rule for a policy, for messages. */
export const POLICY_RULE =
  'must be made by a function such as gcra({ limit, period }) or fixedWindow({ limit, window })'

/**
 * The names of a policy's limits, in the order of declaration; `undefined` if it has a single
 * limit.
 */
export function limitNamesOf(policy: Policy): readonly string[] | undefined {
  return policy.algorithm === 'slidingLogs' ? Object.keys(policy.limits) : undefined
}

/** Whether a value names its algorithm, as policies do. */
export function isPolicyLike(value: unknown): value is { readonly algorithm: string } {
  return typeof value === 'object' && value !== null && 'algorithm' in value && typeof value.algorithm === 'string'
}

/**
 * Checks a policy, by passing its numbers to its own function again.
 *
 * @param where - The name of the value, for the message.
 */
export function policyOf(value: unknown, where = 'policy'): Policy {
  if (!isPolicyLike(value)) {
    throw invalid('INVALID_POLICY', where, POLICY_RULE, value)
  }
  const { algorithm, ...options } = value
  if (Object.hasOwn(FACTORIES, algorithm)) {
    const make: (options: never) => Policy = FACTORIES[algorithm as keyof typeof FACTORIES]
    return withoutWarnings(() => make(options as never))
  }
  throw invalid(
    'INVALID_POLICY',
    'algorithm',
    `must be one of ${Object.keys(FACTORIES).map(shown).join(', ')}`,
    algorithm,
  )
}
