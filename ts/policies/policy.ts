import { withoutWarnings } from '../input/duration.js'
import { invalid, shown } from '../input/options.js'
import { CALENDAR_WINDOW, type CalendarWindowPolicy } from './calendar-window.js'
import { CONCURRENCY, type ConcurrencyPolicy } from './concurrency.js'
import type { AlgorithmDefinition } from './definition.js'
import { FIXED_WINDOW, type FixedWindowPolicy } from './fixed-window.js'
import { GCRA, type GcraPolicy } from './gcra.js'
import { LEAKY_BUCKET, type LeakyBucketPolicy } from './leaky-bucket.js'
import { SLIDING_COUNTER, type SlidingCounterPolicy } from './sliding-counter.js'
import { SLIDING_LOG, type SlidingLogLimitsPolicy, type SlidingLogPolicy } from './sliding-log.js'
import { SLIDING_WINDOW, type SlidingWindowPolicy } from './sliding-window.js'
import { TOKEN_BUCKET, type TokenBucketPolicy } from './token-bucket.js'

/**
 * One limit: an algorithm with its numbers.
 *
 * It is plain data: it can be logged, sent to a worker or written to a file. Every function checks it again. Its `per`
 * is its key dimension, and its `meter` is the name of its unit.
 * `gcra({ limit, period, per: 'ip', meter: 'tokens' })` has the type
 * `GcraPolicy & { readonly per: 'ip' } & { readonly meter: 'tokens' }`.
 *
 * @example
 * const policy: Policy = JSON.parse(JSON.stringify(gcra({ limit: 100, period: '1m' })))
 * const limiter = new RateLimiter(policy)
 */
export type Policy = (
  | CalendarWindowPolicy
  | ConcurrencyPolicy
  | FixedWindowPolicy
  | GcraPolicy
  | LeakyBucketPolicy
  | SlidingCounterPolicy
  | SlidingLogLimitsPolicy
  | SlidingLogPolicy
  | SlidingWindowPolicy
  | TokenBucketPolicy
) & { readonly per?: string; readonly meter?: string; readonly defaultCost?: number; readonly maxOwed?: number }

export const ALGORITHMS: {
  readonly [Algorithm in Policy['algorithm']]: AlgorithmDefinition<Extract<Policy, { algorithm: Algorithm }>>
} = {
  fixedWindow: FIXED_WINDOW,
  calendarWindow: CALENDAR_WINDOW,
  slidingWindow: SLIDING_WINDOW,
  slidingCounter: SLIDING_COUNTER,
  slidingLog: SLIDING_LOG,
  tokenBucket: TOKEN_BUCKET,
  leakyBucket: LEAKY_BUCKET,
  concurrency: CONCURRENCY,
  gcra: GCRA,
}

export function algorithmOf<P extends Policy>({ algorithm }: P): AlgorithmDefinition<P> {
  return ALGORITHMS[algorithm] as unknown as AlgorithmDefinition<P>
}

/** The option with a policy's number of units; `undefined` if it has several such numbers. */
export function mainOptionOf(policy: { readonly algorithm: string }): 'limit' | 'capacity' | undefined {
  const { algorithm } = policy
  const isKnown = Object.hasOwn(ALGORITHMS, algorithm) && !('limits' in policy)
  return isKnown ? ALGORITHMS[algorithm as Policy['algorithm']].mainOption : undefined
}

export const POLICY_RULE =
  'must be made by a function such as gcra({ limit, period }) or fixedWindow({ limit, window })'

/** The names of a policy's limits, in the order of declaration; `undefined` if it has a single limit. */
export function limitNamesOf(policy: Policy): readonly string[] | undefined {
  return 'limits' in policy ? Object.keys(policy.limits) : undefined
}

export function isPolicyLike(value: unknown): value is { readonly algorithm: string } {
  return typeof value === 'object' && value !== null && 'algorithm' in value && typeof value.algorithm === 'string'
}

/** Checks a policy, by passing its numbers to its own function again. `where` names the value in messages. */
export function policyOf(value: unknown, where = 'policy'): Policy {
  if (!isPolicyLike(value)) {
    throw invalid('INVALID_POLICY', where, POLICY_RULE, value)
  }
  const { algorithm, ...options } = value
  if (Object.hasOwn(ALGORITHMS, algorithm)) {
    const { create } = ALGORITHMS[algorithm as Policy['algorithm']]
    return withoutWarnings(() => create(options as never))
  }
  const rule = `must be one of ${Object.keys(ALGORITHMS).map(shown).join(', ')}`
  throw invalid('INVALID_POLICY', 'algorithm', rule, algorithm)
}
