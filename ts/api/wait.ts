import { type Duration, MAX_WAIT_MS, wholeMillis } from '../input/duration.js'
import { tagOf } from '../input/keys.js'
import { invalid, optionsOf, shown, wholeNumber } from '../input/options.js'
import { shortDuration } from '../input/policy-text.js'
import type { FixedWindowPolicy } from '../policies/fixed-window.js'
import type { GcraPolicy } from '../policies/gcra.js'
import type { LeakyBucketPolicy } from '../policies/leaky-bucket.js'
import type { Policy } from '../policies/policy.js'
import type { KeyOf, LimitNames, Policies, PolicySet } from '../policies/policy-set.js'
import type { TokenBucketPolicy } from '../policies/token-bucket.js'
import { isRate } from '../policies/window.js'
import type { TakeOptions } from './call-options.js'
import type { Allowed, Decision } from './decision.js'
import { TollgateError } from './error.js'

/** The part of `AbortSignal` that is used, on any platform. */
export interface AbortSignalLike {
  readonly aborted: boolean
  readonly reason?: unknown
  /** Calls `listener` once the signal is aborted. */
  addEventListener(type: 'abort', listener: () => void): void
  /** Removes `listener`. */
  removeEventListener(type: 'abort', listener: () => void): void
}

/** Options of a wait. */
export interface WaitOptions<T extends string = never> extends TakeOptions<T> {
  /**
   * The longest wait: a whole number of milliseconds from 0 to 3,600,000, or a duration such as `'5s'`. A
   * call whose slot is further away is refused at once. Default: 30,000.
   */
  readonly maxWait?: Duration
  /**
   * Whether the promise of a refused call rejects with `WAIT_TOO_LONG`, or resolves with the decision, whose
   * `allowed` is `false`. Default: `'reject'`, so that code after an `await` does not run without a slot.
   */
  readonly onTooLong?: 'reject' | 'resolve'
  /** An `AbortSignal` that ends the wait. */
  readonly signal?: AbortSignalLike
}

/** The methods of a limiter whose policies are all `gcra`, `leakyBucket` or continuous `tokenBucket`. */
export interface Waits<K = string, N extends string = 'default', T extends string = never> {
  /**
   * Takes units at the first time at which they fit, its *slot*, and resolves then. Rejects at once, and takes
   * nothing, with `WAIT_TOO_LONG` if the slot is further away than `maxWait`, the key is blocked or the cost can
   * never fit, and with `INVALID_OPTION` under a policy that is not a rate.
   *
   * See `docs/operations.md#wait` for aborting, closing and the order of calls, which all processes share.
   *
   * @returns The decision. `waitedMs` is the time from `at` to the slot, in milliseconds with
   * microsecond precision.
   *
   * @example
   * const pacer = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }))
   * await pacer.wait('api.example.com', { maxWait: '5s' })
   * const response = await fetch('https://api.example.com')
   */
  wait(key: K, options?: WaitOptions<T> & { readonly onTooLong?: 'reject' }): Promise<Waited<N>>
  /** {@link Waits.wait} that also resolves if the call is refused. */
  wait(key: K, options: WaitOptions<T>): Promise<WaitedOrRefused<N>>
}

/** The decision on a call whose slot has come. */
export type Waited<N extends string = string> = Allowed<N> & { readonly waitedMs: number }

/** The decision with `onTooLong: 'resolve'`: `allowed` tells whether the call got a slot. */
export type WaitedOrRefused<N extends string = string> = Decision<N> & { readonly waitedMs: number }

type RatePolicy = GcraPolicy | LeakyBucketPolicy | TokenBucketPolicy<string, 'continuous'>

/** The methods that a limiter of these policies has in addition to those of every limiter. */
export type WaitsOf<P extends Policy | Policies, T extends string = never> = [P] extends [
  RatePolicy | { readonly [name: string]: RatePolicy },
]
  ? Waits<KeyOf<P>, LimitNames<P>, T>
  : unknown

/** The checked arguments of a wait. */
export interface WaitCall {
  readonly cost: number
  readonly maxWaitMs: number
  readonly signal: AbortSignalLike | undefined
  /** Whether a refusal resolves the promise. */
  readonly resolvesRefusal: boolean
  readonly tag: string | undefined
  /** Not checked. */
  readonly tier: unknown
}

const DEFAULT_WAIT_MS = 30_000

/** Checks {@link WaitOptions}. */
export function waitCallOf(value: unknown): WaitCall {
  const names = ['cost', 'maxWait', 'onTooLong', 'signal', 'tag', 'tier'] as const
  const options = optionsOf('INVALID_OPTION', 'wait', value ?? {}, names)
  const { cost = 1, maxWait = DEFAULT_WAIT_MS, onTooLong = 'reject', signal, tag, tier } = options
  if (onTooLong !== 'reject' && onTooLong !== 'resolve') {
    throw invalid('INVALID_OPTION', 'onTooLong', "must be 'reject' or 'resolve'", onTooLong)
  }
  return {
    cost: wholeNumber('INVALID_COST', 'cost', cost),
    maxWaitMs: wholeMillis('maxWait', maxWait, 0, MAX_WAIT_MS),
    signal: signalOf(signal),
    resolvesRefusal: onTooLong === 'resolve',
    tag: tagOf(tag),
    tier,
  }
}

/** The error for a refused call. */
export function waitTooLongError(decision: Exclude<WaitedOrRefused, Waited>, call: WaitCall): TollgateError {
  return new TollgateError('WAIT_TOO_LONG', refusalMessage(decision, call), { decision })
}

function refusalMessage(decision: Exclude<WaitedOrRefused, Waited>, { cost, maxWaitMs }: WaitCall): string {
  const { policy, capacity, source } = decision
  const under = policy === 'default' ? '' : ` under ${shown(policy)}`
  if (source === 'none') {
    return "the store is down, and onStoreFailure schedules no slot for this call; try again later, or use onTooLong: 'resolve'"
  }
  switch (decision.status) {
    case 'impossible':
      return `a cost of ${cost} never fits${under}: the largest cost is ${capacity}; lower the cost or raise the limit`
    case 'blocked': {
      const until = durationText(decision.retryAfterMs)
      return `the key is blocked${under}, and wait does not wait for the end of a block; try again in ${until}, or use onTooLong: 'resolve'`
    }
    default: {
      const { retryAfterMs } = decision
      const away = `the next slot${under} is ${durationText(retryAfterMs)} away`
      return retryAfterMs > MAX_WAIT_MS
        ? `${away}, more than the largest maxWait (${durationText(MAX_WAIT_MS)}); make fewer calls, or use onTooLong: 'resolve'`
        : `${away}, more than maxWait of ${durationText(maxWaitMs)}; raise maxWait, or use onTooLong: 'resolve'`
    }
  }
}

function durationText(millis: number): string {
  return millis < 1_000 ? `${millis} ms` : `${millis / 1_000} s`
}

/** Accepts signals of other realms and of polyfills. */
export function signalOf(value: unknown): AbortSignalLike | undefined {
  const isSignal = typeof value === 'object' && value !== null && 'aborted' in value && 'addEventListener' in value
  if (value === undefined || isSignal) {
    return value as AbortSignalLike | undefined
  }
  throw invalid('INVALID_OPTION', 'signal', 'must be an AbortSignal', value)
}

/** Throws if a policy is not a rate: `wait` does not support it. */
export function checkRates({ policies, isSingle }: PolicySet): void {
  const other = policies.find(({ policy }) => !isRate(policy))
  if (other !== undefined) {
    const { name, policy } = other
    const kind = policy.algorithm === 'tokenBucket' ? 'tokenBucket with refillMode "interval"' : policy.algorithm
    const rule = 'wait needs policies made by gcra(), leakyBucket() or tokenBucket() with continuous refill'
    const which = isSingle ? 'policy' : `policies.${name}`
    throw new TollgateError('INVALID_OPTION', `${rule}, but ${which} is ${kind}; ${adviceOn(policy)}`)
  }
}

/** The lengths of calendar units, for a rate with about the same throughput. */
const CALENDAR_PERIODS = { hour: '1h', day: '1d', week: '1w', month: '30d' } as const

const SPACED = ', with burst: 1 to space calls evenly'

/** Names a rate with the throughput of a policy that `wait` does not support. */
function adviceOn(policy: Policy): string {
  if ('limits' in policy) {
    return 'use several gcra() by name'
  }
  switch (policy.algorithm) {
    case 'tokenBucket':
      return "use refillMode: 'continuous'"
    case 'concurrency':
      return 'use acquire(key, { maxWait })'
    case 'calendarWindow': {
      const { limit, every } = policy
      const period = typeof every === 'number' ? shortDuration(every) : CALENDAR_PERIODS[every]
      return `use gcra({ limit: ${limit}, period: '${period}' })${SPACED}`
    }
    default: {
      const { limit, window } = policy as FixedWindowPolicy
      return `use gcra({ limit: ${limit}, period: '${shortDuration(window)}' })${SPACED}`
    }
  }
}
