import type { TakeOptions } from '../api/call-options.js'
import type { Allowed, Applied, Decision } from '../api/decision.js'
import type { TollgateError } from '../api/error.js'
import type { PermitSignal } from '../api/permit.js'
import { type AbortSignalLike, signalOf } from '../api/wait.js'
import { clockOf } from '../input/clock.js'
import { type Duration, millisOfOption, wholeMillis } from '../input/duration.js'
import { invalid, optionsOf, trueOrFalse, wholeNumber } from '../input/options.js'
import type { TimerClock } from '../platform/timer-clock.js'
import { timers } from '../platform/timers.js'
import { fakeableTime, realTime, timeOf, type WaitingTime } from '../platform/waiting-time.js'
import type { Policy } from '../policies/policy.js'

/** The part of a limiter that a client needs. Every `RateLimiter` has it. */
export interface ClientLimiter<K = string, N extends string = string, T extends string = never> {
  /** The policies by name. They decide how the client waits: see {@link OutgoingClient}. */
  readonly policies: { readonly [Name in N]: Policy }
  /** Decides, and charges the cost if it allows the call. */
  take(key: K, cost?: number | TakeOptions<T>): Promise<Decision<N>>
  /** Previews a decision. */
  peek(key: K, cost?: number | TakeOptions<T>): Promise<Decision<N>>
  /** Gives units of a decision back. */
  refund(decision: Decision<N>, units?: number): Promise<number>
  /** Refuses every call on a key for a time. */
  block(key: K, duration: Duration): Promise<Applied>
}

/** The platform's `fetch`; any function if the program has no types of a platform. */
export type FetchFunction = typeof globalThis extends {
  /** The platform's function. */
  readonly fetch: infer F extends (...args: never[]) => unknown
}
  ? F
  : (input: unknown, init?: unknown) => Promise<unknown>

/** The options of an {@link OutgoingClient}. */
export interface ClientOptions<K = string, N extends string = string, T extends string = never> {
  /**
   * Decides when calls may start. Rates limit how often calls start; `concurrency` limits how many
   * run at a time. Over Redis both count for all processes. You close it.
   */
  readonly limiter: ClientLimiter<K, N, T>
  /** The key of calls that name none. Default: for `fetch` the host of the URL, with its port. */
  readonly key?: K
  /**
   * The longest time for which a call waits for its turn, before each attempt: a whole number of
   * milliseconds from 0 to 86,400,000, a day, or a duration such as `'5m'`. Default: 60,000.
   */
  readonly maxWaitMs?: Duration
  /** The most calls that wait at a time, from 1 on. Default: 1,000. */
  readonly maxQueued?: number
  /** The number of retries of a call, or {@link RetryOptions}. `0`: no retries. Default: 2. */
  readonly retries?: number | RetryOptions
  /** Sends the requests of `fetch`. Default: the platform's function. */
  readonly fetch?: FetchFunction
  /**
   * The time by which calls wait, for tests: a `TestClock` of `tollgate/testing`; or a function that
   * returns milliseconds, as `Date.now` does. With a function, the client uses the platform's timers
   * as they are at the time of a call, so that a test can fake them. Default: the real time, also in
   * a test that fakes timers.
   */
  readonly clock?: TimerClock | (() => number)
}

/** How an {@link OutgoingClient} retries calls. */
export interface RetryOptions {
  /** The most retries of a call: a whole number from 0 to 100. Default: 2. */
  readonly limit?: number
  /**
   * The longest delay before the first retry, if the server names none. It doubles with each retry.
   * The delay is random, from half of it to all of it. Default: `'500ms'`.
   */
  readonly minDelay?: Duration
  /** The longest delay before any retry. Default: `'30s'`. */
  readonly maxDelay?: Duration
}

/** The key of one call: required if the client has none. */
export interface ClientKey<K> {
  /** The key. Default: that of the client. */
  readonly key?: K
}

/** The options of one call. */
export interface ScheduleOptions<K = string, T extends string = never> extends ClientKey<K> {
  /**
   * Calls with a higher priority start first, within this process and key; calls with equal
   * priority in the order in which they were made. A whole number from -100 to 100. Default: 0.
   */
  readonly priority?: number
  /** The units that the call takes: a whole number from 1. Default: 1. */
  readonly cost?: number
  /** Ends the wait, and is passed on to the running call. */
  readonly signal?: AbortSignalLike
  /** As for the client. */
  readonly maxWaitMs?: Duration
  /** The caller's tier, if the limiter has tiers. */
  readonly tier?: T
  /**
   * Whether the call may be sent again after an answer was lost or the server failed. Default:
   * `false`; for `fetch` it follows from the method and the header `Idempotency-Key`.
   */
  readonly isIdempotent?: boolean
}

/** The argument of a scheduled function. */
export interface RunContext<N extends string = string> {
  /**
   * It is aborted if the caller's signal is, if the permit of the call is about to be lost, or if
   * the client is closed and does not wait for the call. Pass it on.
   */
  readonly signal: PermitSignal
  /** From 1; retries count up. */
  readonly attempt: number
  /** The decision that let the call start. */
  readonly decision: Allowed<N>
}

/** The state of an {@link OutgoingClient}. */
export interface ClientStatus {
  /** The calls that wait for their turn, also those between two attempts. */
  readonly queued: number
  /** The calls that run. */
  readonly running: number
  /** Whether `close` has been called. */
  readonly isClosed: boolean
}

/** Options of `close`. */
export interface CloseOptions {
  /**
   * The longest time that waiting and running calls have to end: a whole number of milliseconds from
   * 0 to 86,400,000, or a duration such as `'10s'`. Then waiting calls are rejected with `CLOSED`, and the signals of running
   * calls are aborted. Default: no limit; the calls end by their own deadlines.
   */
  readonly timeoutMs?: Duration
}

/** The events of an {@link OutgoingClient}. */
export interface ClientEvents<K = string> {
  /** A call has its turn and starts. */
  start: {
    readonly key: K
    readonly priority: number
    readonly attempt: number
    /** How long the call waited for this attempt, in milliseconds. */
    readonly waitedMs: number
  }
  /** An attempt has ended. */
  end: {
    readonly key: K
    readonly attempt: number
    /** How long the attempt ran, in milliseconds. */
    readonly durationMs: number
    /** Whether the attempt resolved, and not with a status of 429 or 5xx. */
    readonly isSuccess: boolean
    /** The HTTP status of the answer or the error, if it has one. */
    readonly status: number | undefined
  }
  /** A call will be sent again. */
  retry: {
    readonly key: K
    /** The attempt that follows. */
    readonly attempt: number
    /** The delay before it waits for its turn, in milliseconds. */
    readonly delayMs: number
    readonly status: number | undefined
  }
  /** A call ended before its turn: its wait was too long, it was aborted, or the store failed. */
  giveUp: { readonly key: K; readonly error: unknown }
  /** The server refused a call (429 or 503), and the key is blocked for the time that it named. */
  block: {
    readonly key: K
    readonly status: number
    /** The length of the block in milliseconds. */
    readonly durationMs: number
    /**
     * The place where the key is blocked: see `block` of a limiter. With `false` only this client
     * pauses.
     */
    readonly applied: Applied
    /** The error of `block`, if it failed. */
    readonly error: TollgateError | undefined
  }
}

/** A day, the longest wait. */
const MAX_MS = 86_400_000

const DEFAULT_WAIT_MS = 60_000

/** The checked {@link ClientOptions}. */
export interface CheckedClientOptions {
  readonly limiter: ClientLimiter<unknown, string, string>
  readonly key: unknown
  readonly maxWaitMs: number
  readonly maxQueued: number
  readonly retries: Required<{ readonly [Name in keyof RetryOptions]: number }>
  /** `undefined`: the platform's function. */
  readonly fetch: ((input: unknown, init: unknown) => Promise<unknown>) | undefined
  readonly time: WaitingTime
}

/** Checks {@link ClientOptions}. */
export function clientOptionsOf(value: unknown): CheckedClientOptions {
  const names = ['limiter', 'key', 'maxWaitMs', 'maxQueued', 'retries', 'fetch', 'clock'] as const
  const options = optionsOf('INVALID_OPTION', 'OutgoingClient', value, names)
  const { limiter, key, maxWaitMs = DEFAULT_WAIT_MS, maxQueued = 1_000, retries, fetch, clock } = options
  if (!isLimiter(limiter)) {
    throw invalid('INVALID_OPTION', 'limiter', 'must be a RateLimiter', limiter)
  }
  if (fetch !== undefined && typeof fetch !== 'function') {
    throw invalid('INVALID_OPTION', 'fetch', 'must be a function', fetch)
  }
  return {
    limiter,
    key,
    maxWaitMs: waitOf(maxWaitMs),
    maxQueued: wholeNumber('INVALID_OPTION', 'maxQueued', maxQueued),
    retries: retriesOf(retries),
    fetch: fetch as CheckedClientOptions['fetch'],
    time: clientTimeOf(clockOf('clock', clock)),
  }
}

function clientTimeOf(clock: TimerClock | (() => number) | undefined): WaitingTime {
  if (clock === undefined) {
    return realTime(timers.now)
  }
  return typeof clock === 'function' ? fakeableTime(clock) : timeOf(clock)
}

function isLimiter(value: unknown): value is CheckedClientOptions['limiter'] {
  const limiter = value as Partial<ClientLimiter> | null | undefined
  return typeof limiter?.take === 'function' && typeof limiter.block === 'function' && limiter.policies !== undefined
}

function waitOf(value: unknown): number {
  return wholeMillis('maxWaitMs', value, 0, MAX_MS)
}

function retriesOf(value: unknown): CheckedClientOptions['retries'] {
  const options = typeof value === 'number' ? { limit: value } : (value ?? {})
  const names = ['limit', 'minDelay', 'maxDelay'] as const
  const { limit = 2, minDelay = '500ms', maxDelay = '30s' } = optionsOf('INVALID_OPTION', 'retries', options, names)
  const retries = {
    limit: wholeNumber('INVALID_OPTION', 'retries.limit', limit, 0, 100),
    minDelay: millisOfOption('INVALID_OPTION', 'retries.minDelay', minDelay),
    maxDelay: millisOfOption('INVALID_OPTION', 'retries.maxDelay', maxDelay),
  }
  if (retries.maxDelay < retries.minDelay || retries.maxDelay > MAX_MS) {
    throw invalid('INVALID_OPTION', 'retries.maxDelay', 'must be at least minDelay and at most a day', maxDelay)
  }
  return retries
}

/** The checked {@link ScheduleOptions}. */
export interface CheckedCall {
  readonly key: unknown
  readonly priority: number
  readonly cost: number
  readonly signal: AbortSignalLike | undefined
  readonly maxWaitMs: number
  readonly tier: string | undefined
  readonly isIdempotent: boolean
}

/**
 * Checks {@link ScheduleOptions}.
 *
 * @param where - The method, for messages.
 * @param defaults - The values for options that are not given.
 */
export function scheduleOptionsOf(
  where: string,
  value: unknown,
  defaults: { readonly key: unknown; readonly maxWaitMs: number; readonly isIdempotent: boolean },
): CheckedCall {
  const names = ['key', 'priority', 'cost', 'signal', 'maxWaitMs', 'tier', 'isIdempotent'] as const
  const options = optionsOf('INVALID_OPTION', where, value ?? {}, names)
  const { key = defaults.key, priority = 0, cost = 1, signal, tier } = options
  if (key === undefined) {
    throw invalid('INVALID_KEY', 'key', `must be given, to ${where} or to the client`, key)
  }
  return {
    key,
    priority: wholeNumber('INVALID_OPTION', 'priority', priority, -100, 100),
    cost: wholeNumber('INVALID_COST', 'cost', cost),
    signal: signalOf(signal),
    maxWaitMs: waitOf(options.maxWaitMs ?? defaults.maxWaitMs),
    tier: tier as string | undefined,
    isIdempotent: trueOrFalse('INVALID_OPTION', 'isIdempotent', options.isIdempotent ?? defaults.isIdempotent),
  }
}

/** Checks {@link CloseOptions}. */
export function closeTimeoutOf(value: unknown): number | undefined {
  // A listener for a signal of the process receives its name.
  const options = typeof value === 'string' ? {} : (value ?? {})
  const { timeoutMs } = optionsOf('INVALID_OPTION', 'close', options, ['timeoutMs'])
  return timeoutMs === undefined ? undefined : wholeMillis('timeoutMs', timeoutMs, 0, MAX_MS)
}
