import type { Units } from '../backends/units.js'
import { type Duration, MAX_WAIT_MS, wholeMillis } from '../input/duration.js'
import { tagOf } from '../input/keys.js'
import { invalid, optionsOf, shown } from '../input/options.js'
import { shortDuration } from '../input/policy-text.js'
import type { FixedWindowPolicy } from '../policies/fixed-window.js'
import type { Policy } from '../policies/policy.js'
import type { PolicySet } from '../policies/policy-set.js'
import { isRate } from '../policies/window.js'
import { adviceOnId } from './call-id.js'
import type { TakeOptionsWithoutId } from './call-options.js'
import type { Allowed, Decision } from './decision.js'
import { TollgateError } from './error.js'

/**
 * Options of a wait.
 *
 * @example
 * await limiter.wait('api.example.com', { maxWait: '5s', signal: AbortSignal.timeout(2_000) })
 */
export interface WaitOptions extends TakeOptionsWithoutId {
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
  /** An `AbortSignal` that ends the wait. Its type has only what is used, so that it suits any platform. */
  readonly signal?: {
    readonly aborted: boolean
    readonly reason?: unknown
    /** Calls `listener` once the signal is aborted. */
    addEventListener(type: 'abort', listener: () => void): void
    /** Removes `listener`. */
    removeEventListener(type: 'abort', listener: () => void): void
  }
}

/** The part of `AbortSignal` that is used, on any platform. */
export type AbortSignalLike = NonNullable<WaitOptions['signal']>

/** The decision on a call whose slot has come. */
export type Waited = Allowed & { readonly waitedMs: number }

/** The decision with `onTooLong: 'resolve'`: `allowed` tells whether the call got a slot. */
export type WaitedOrRefused = Decision & { readonly waitedMs: number }

/** A limiter that can wait, as only its type tells. */
export interface WaitingLimiter {
  wait(
    key: unknown,
    options: Omit<WaitOptions, 'cost'> & { readonly cost?: unknown; readonly tier?: string | undefined },
  ): Promise<WaitedOrRefused>
}

/** The checked arguments of a wait. */
export interface WaitCall {
  readonly cost: Units
  readonly maxWaitMs: number
  readonly signal: AbortSignalLike | undefined
  /** Whether a refusal resolves the promise. */
  readonly resolvesRefusal: boolean
  readonly tag: string | undefined
  /** Not checked. */
  readonly tier: unknown
}

const DEFAULT_WAIT_MS = 30_000

/** Checks {@link WaitOptions}. @param costIn - Checks the cost of a call of a tier. */
export function waitCallOf(value: unknown, costIn: (cost: unknown, tier: unknown) => Units): WaitCall {
  const names = ['cost', 'maxWait', 'onTooLong', 'signal', 'tag', 'tier'] as const
  const options = optionsOf('INVALID_OPTION', 'wait', value ?? {}, names, adviceOnId)
  const { cost, maxWait = DEFAULT_WAIT_MS, onTooLong = 'reject', signal, tag, tier } = options
  if (onTooLong !== 'reject' && onTooLong !== 'resolve') {
    throw invalid('INVALID_OPTION', 'onTooLong', "must be 'reject' or 'resolve'", onTooLong)
  }
  return {
    cost: costIn(cost, tier),
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
    case 'impossible': {
      const given = typeof cost === 'number' ? `a cost of ${cost}` : 'the cost'
      return `${given} never fits${under}: the largest cost is ${capacity}; lower the cost or raise the limit`
    }
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
