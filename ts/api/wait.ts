import { tagOf } from '../input/keys.js'
import { invalid, optionsOf, shown, wholeNumber } from '../input/options.js'
import type { GcraPolicy } from '../policies/gcra.js'
import type { LeakyBucketPolicy } from '../policies/leaky-bucket.js'
import type { Policy } from '../policies/policy.js'
import type { Compound, KeyOf, LimitNames, Policies } from '../policies/policy-set.js'
import type { TokenBucketPolicy } from '../policies/token-bucket.js'
import type { TakeOptions } from './call-options.js'
import type { Allowed, Decision } from './decision.js'
import { TollgateError } from './error.js'

/** An `AbortSignal`, of whichever platform: what is used of it. */
export interface AbortSignalLike {
  readonly aborted: boolean
  readonly reason?: unknown
  /** Calls `listener` once the signal is aborted. */
  addEventListener(type: 'abort', listener: () => void): void
  /** Calls `listener` no more. */
  removeEventListener(type: 'abort', listener: () => void): void
}

/** How a call is to wait. */
export interface WaitOptions extends TakeOptions {
  /**
   * How long the call waits at most, in milliseconds: a whole number from 0 to 3,600,000, an hour. If its slot is
   * further away, it is refused at once and nothing is booked. Default: 30,000.
   */
  readonly maxWaitMs?: number
  /**
   * What becomes of a call that is refused, because its slot is too far away, the key is blocked or the cost can never
   * fit: the promise rejects with `WAIT_TOO_LONG`, or it resolves with the decision, whose `allowed` is then `false`.
   * Default: `'reject'`, so that whoever awaits a turn and gets none does not go on.
   */
  readonly onTooLong?: 'reject' | 'resolve'
  /** An `AbortSignal` that ends the wait. */
  readonly signal?: AbortSignalLike
}

/** What a limiter can do, too, if all of its policies are rates: `gcra`, `leakyBucket` and continuous `tokenBucket`. */
export interface Waits<K = string, N extends string = 'default'> {
  /**
   * Takes units at the first time at which they fit, and resolves when that time has come: the call's *slot*.
   * Slots are given in the order in which the store is asked for them, across all processes, and until the last one has
   * come nobody else is admitted, while the store keeps its counts and decides. So those who wait go on one by one, evenly, and the slots obey the law of the policy
   * as calls do. Under several policies the slot is the first time at which all of them admit the call.
   *
   * A call that is refused is not booked. It rejects at once with `WAIT_TOO_LONG`: its slot is further away than
   * `maxWaitMs`, the key is blocked, or the cost can never fit. The error's `decision` is the refusal, with
   * `retryAfterMs`. With `onTooLong: 'resolve'` the promise resolves with that decision instead.
   *
   * The slot is counted from when the store's answer arrives, by a clock that is never set: it does not begin too
   * early. Waiting keeps the process alive.
   *
   * If the `signal` is aborted, the promise rejects at once with a `TollgateError` whose name is `'AbortError'`, whose
   * code is `ABORTED` and whose `cause` is the signal's reason; if the limiter is closed, with `CLOSED`. The slot is
   * given back then, unless somebody has booked behind it, whose slot stays as it is. What a decision took can be
   * given back by `refund` once no slots are booked ahead.
   *
   * Rejects with `INVALID_OPTION` under a policy that is no rate.
   *
   * @returns The decision; `waitedMs` tells how far from its time `at` the slot is, in milliseconds, to the
   * microsecond.
   *
   * @example
   * const pacer = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }))
   * await pacer.wait('api.example.com', { maxWaitMs: 5_000 })
   * const response = await fetch('https://api.example.com')
   */
  wait(key: K, options?: WaitOptions & { readonly onTooLong?: 'reject' }): Promise<Waited<N>>
  /**
   * {@link Waits.wait} that resolves also if the call is refused.
   *
   * @example
   * const pacer = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 1 }))
   * const { allowed, retryAfterMs } = await pacer.wait('api.example.com', { onTooLong: 'resolve' })
   */
  wait(key: K, options: WaitOptions): Promise<WaitedOrRefused<N>>
}

/** The decision on a call whose slot has come. */
export type Waited<N extends string = string> = Allowed<N> & { readonly waitedMs: number }

/** The same with `onTooLong: 'resolve'`: `allowed` tells whether the slot has come, or there was none. */
export type WaitedOrRefused<N extends string = string> = Decision<N> & { readonly waitedMs: number }

type RatePolicy = GcraPolicy | LeakyBucketPolicy | TokenBucketPolicy<string, 'continuous'>

/** What a limiter of these policies can do beside what every limiter can. */
export type WaitsOf<P extends Policy | Policies> = [P] extends [RatePolicy | { readonly [name: string]: RatePolicy }]
  ? Waits<KeyOf<P>, LimitNames<P>>
  : unknown

/** How a call is to wait, checked. */
export interface WaitCall {
  readonly cost: number
  readonly maxWaitMs: number
  readonly signal: AbortSignalLike | undefined
  /** Whether a refusal resolves. */
  readonly isRefusalAnswer: boolean
  readonly tag: string | undefined
}

const LONGEST_WAIT_MS = 3_600_000

const DEFAULT_WAIT_MS = 30_000

/** Takes a value as {@link WaitOptions}. */
export function waitOf(value: unknown): WaitCall {
  const names = ['cost', 'maxWaitMs', 'onTooLong', 'signal', 'tag'] as const
  const options = optionsOf('INVALID_OPTION', 'wait', value ?? {}, names)
  const { cost = 1, maxWaitMs = DEFAULT_WAIT_MS, onTooLong = 'reject', signal, tag } = options
  if (onTooLong !== 'reject' && onTooLong !== 'resolve') {
    throw invalid('INVALID_OPTION', 'onTooLong', "must be 'reject' or 'resolve'", onTooLong)
  }
  return {
    cost: wholeNumber('INVALID_COST', 'cost', cost),
    maxWaitMs: wholeNumber('INVALID_OPTION', 'maxWaitMs', maxWaitMs, 0, LONGEST_WAIT_MS),
    signal: signalOf(signal),
    isRefusalAnswer: onTooLong === 'resolve',
    tag: tagOf(tag),
  }
}

/** The error for a call that has been refused. */
export function tooLong(decision: Exclude<WaitedOrRefused, Waited>, call: WaitCall): TollgateError {
  return new TollgateError('WAIT_TOO_LONG', whyRefused(decision, call), { decision })
}

function whyRefused(decision: Exclude<WaitedOrRefused, Waited>, { cost, maxWaitMs }: WaitCall): string {
  const { policy, limit, source } = decision
  const under = policy === 'default' ? '' : ` under ${shown(policy)}`
  if (source === 'none') {
    return "the store is away, and onStoreFailure: 'refuse' gives no slots; try again later, or use onTooLong: 'resolve'"
  }
  switch (decision.status) {
    case 'impossible':
      return `a cost of ${cost} never fits${under}, where the largest is ${limit}; lower the cost or raise the limit`
    case 'blocked': {
      const until = secondsOf(decision.retryAfterMs)
      return `the key is blocked${under}, and wait does not outlast a block; try again in ${until}, or use onTooLong: 'resolve'`
    }
    default: {
      const { retryAfterMs } = decision
      const away = `the next slot${under} is ${secondsOf(retryAfterMs)} away`
      return retryAfterMs > LONGEST_WAIT_MS
        ? `${away}, more than maxWaitMs can be (${secondsOf(LONGEST_WAIT_MS)}); make fewer calls, or use onTooLong: 'resolve'`
        : `${away}, more than maxWaitMs of ${secondsOf(maxWaitMs)}; raise maxWaitMs, or use onTooLong: 'resolve'`
    }
  }
}

function secondsOf(millis: number): string {
  return millis < 1_000 ? `${millis} ms` : `${millis / 1_000} s`
}

/** Those of another realm or of a polyfill are signals, too. */
function signalOf(value: unknown): AbortSignalLike | undefined {
  const isSignal = typeof value === 'object' && value !== null && 'aborted' in value && 'addEventListener' in value
  if (value === undefined || isSignal) {
    return value as AbortSignalLike | undefined
  }
  throw invalid('INVALID_OPTION', 'signal', 'must be an AbortSignal', value)
}

/** Throws if one of the policies is no rate: under it nobody can wait. */
export function checkRates({ policies, isSingle }: Compound): void {
  const other = policies.find(({ policy }) => !isRate(policy))
  if (other !== undefined) {
    const { name, policy } = other
    const kind = policy.algorithm === 'tokenBucket' ? 'tokenBucket with refillMode "interval"' : policy.algorithm
    const rule = 'wait needs policies made by gcra(), leakyBucket() or tokenBucket() with continuous refill'
    throw new TollgateError('INVALID_OPTION', `${rule}, but ${isSingle ? 'policy' : `policies.${name}`} is ${kind}`)
  }
}

function isRate(policy: Policy): boolean {
  switch (policy.algorithm) {
    case 'gcra':
    case 'leakyBucket':
      return true
    case 'tokenBucket':
      return policy.refillMode === 'continuous'
    default:
      return false
  }
}
