import type { Allowed, Decision } from '../api/decision.js'
import type { TollgateError } from '../api/error.js'
import type { PermitSignal } from '../api/permit.js'
import type { Settlement } from '../api/reservation.js'
import type { AbortSignalLike } from '../api/wait.js'
import type { Duration } from '../input/duration.js'
import type { TimerClock } from '../platform/timer-clock.js'
import type { Policy } from '../policies/policy.js'

/**
 * The part of a limiter that a client needs. Every `RateLimiter` has it.
 *
 * @typeParam K - The type of the keys.
 * @typeParam N - The names of the limits.
 * @typeParam T - The names of the tiers; `never` without tiers.
 * @typeParam C - The cost of a call: a number, or an object by meter.
 */
export interface ClientLimiter<K = string, N extends string = string, T extends string = never, C = number> {
  /** The policies by name. They decide how the client waits: see {@link OutgoingClient}. */
  readonly policies: { readonly [Name in N]: Policy }
  /** Decides, and charges the cost if it allows the call. */
  readonly take: unknown
  /** The policies of each tier; without tiers an empty object. */
  readonly tiers: { readonly [Tier in T]: unknown }
  /** Previews a decision. */
  peek(key: K, cost?: number | { readonly cost?: C; readonly tier?: string }): Promise<Decision<N>>
  /** Gives the units of a decision back. */
  refund(decision: Decision<N>): Promise<unknown>
  /** Refuses every call on a key for a time. */
  block(key: K, duration: Duration): Promise<'store' | 'fallback' | false>
}

/** The platform's `fetch`; any function if the program has no types of a platform. */
export type FetchFunction = typeof globalThis extends {
  /** The platform's function. */
  readonly fetch: infer F extends (...args: never[]) => unknown
}
  ? F
  : (input: unknown, init?: unknown) => Promise<unknown>

/** The options of an {@link OutgoingClient}. */
export interface ClientOptions<K = string, N extends string = string, T extends string = never, C = number> {
  /**
   * Decides when calls may start. Rates limit how often calls start; `concurrency` limits how many run at a time. Over
   * Redis both count for all processes. You close it.
   */
  readonly limiter: ClientLimiter<K, N, T, C>
  /** The key of calls that name none. Default: for `fetch` the host of the URL, with its port. */
  readonly key?: K
  /**
   * The longest wait for a turn, before each attempt: whole milliseconds from 0 to 86,400,000, a day, or a duration
   * such as `'5m'`. Default: 60,000.
   */
  readonly maxWait?: Duration
  /** The most calls that wait at a time, from 1 on. Default: 1,000. */
  readonly maxQueued?: number
  /**
   * The time by which one step of priority brings a call forward: a call starts before one whose priority is lower by n
   * if it came at most n times this time later. So no call waits forever. With `'1d'`, the longest wait, priorities
   * are strict. From 1 ms to a day. Default: `'1s'`.
   */
  readonly ageing?: Duration
  /**
   * The longest time of an attempt: whole milliseconds from 1 to 86,400,000, or a duration such as `'10s'`. Then its
   * `signal` is aborted, and the attempt has failed with `ATTEMPT_TIMEOUT`. Default: no limit.
   */
  readonly attemptTimeout?: Duration
  /** The number of retries of a call, or {@link RetryOptions}. `0`: no retries. Default: 2. */
  readonly retries?: number | RetryOptions
  /** See {@link ShouldRetry}. Default: the rules of the client. */
  readonly shouldRetry?: ShouldRetry
  /** See {@link RefusalOf}. Default: only HTTP and gRPC answers are read. */
  readonly refusalOf?: RefusalOf
  /**
   * Whether a successful answer that says that nothing is left (such as `X-RateLimit-Remaining: 0`) blocks the key
   * until the reset that it names, so that no process sends a call that would be refused. Default: `false`.
   */
  readonly pauseWhenEmpty?: boolean
  /**
   * When `fetch` releases the permit of a request, under `concurrency`: when the body of the response has ended (read,
   * cancelled or failed), or when its headers are there. Default: `'body'`.
   */
  readonly holdUntil?: 'body' | 'headers'
  /** See {@link UsageOf}. Default: each attempt is charged its cost. */
  readonly usageOf?: UsageOf<C>
  /** Sends the requests of `fetch`. Default: the platform's function. */
  readonly fetch?: FetchFunction
  /**
   * The time by which calls wait, for tests: a `TestClock` of `tollgate/testing`; or a function that returns
   * milliseconds. With a function, the client uses the platform's timers of the time of the call, so that a test can
   * fake them. Default: the real time, also in a test that fakes timers.
   */
  readonly clock?: TimerClock | (() => number)
}

/** How an {@link OutgoingClient} retries calls. */
export interface RetryOptions {
  /** The most retries of a call: a whole number from 0 to 100. Default: 2. */
  readonly limit?: number
  /**
   * The longest delay before the first retry, if the server names none. It doubles with each retry. The delay is
   * random, from half of it to all of it. Default: `'500ms'`.
   */
  readonly minDelay?: Duration
  /** The longest delay before any retry. Default: `'30s'`. */
  readonly maxDelay?: Duration
  /**
   * The retries of all calls together, as a share of the calls in the last minute: a number above 0, or `false` for no
   * bound. Ten a minute are always allowed. Retries after refusals do not count. Default: `0.1`.
   */
  readonly budget?: number | false
}

/**
 * Decides whether a call is sent again after a failure: an error that its function threw, an answer with a status of
 * 400 or above, or a refusal. `undefined` leaves the decision to the client. The number of retries, their budget and
 * `maxWait` still hold, and a request whose body is a stream is not sent again.
 *
 * If it throws, or returns anything else, there is an event `hookError`, and the client decides.
 *
 * @param failure - The error, or the value that the function returned.
 * @param attempt - The number of the attempt that failed, from 1.
 */
export type ShouldRetry = (failure: unknown, attempt: number) => boolean | undefined

/**
 * Finds refusals that the client cannot know, such as an error code in the body of a 200. Returns the time for which
 * all processes pause, as milliseconds or a duration such as `'5s'`; or `undefined` or `null` if this is no refusal.
 *
 * The time may be computed: it is rounded up to whole milliseconds, and at most a day counts. If it is 0 or less, the
 * call is refused without a time, so the pause is the delay before a retry. If the headers name a longer time, it counts.
 *
 * If it throws, or returns anything else, there is an event `hookError`, and the client reads the answer as usual.
 *
 * @param result - What the function returned or threw. Read the body of a `Response` by a `clone()`.
 */
export type RefusalOf = (result: unknown) => Duration | null | undefined | PromiseLike<Duration | null | undefined>

/**
 * Turns the usage that a response of `fetch` reports into units, which correct the cost of its request: surplus units
 * are given back, and missing ones are charged or owed, as by `commit` of a reservation. Called once for each response
 * that reports a usage, before its reader receives the end.
 *
 * Of a body that is cut short or has an event `error`, each meter is charged its cost or more. A refused request, and
 * one with a status from 400 to 499, gets the units back that its `cost` names. All others keep their cost. Meters that
 * are left out keep it, too.
 *
 * Needs policies whose units can be settled: beside `concurrency` at least one, and no `slidingCounter`. Without
 * `concurrency`, calls wait for rates as they do for windows. There is an event `charge` for each attempt. If the
 * function fails or returns wrong units, the event has the error, and the cost stays charged. A settlement that fails
 * because of the store is repeated, up to five times within half a minute.
 *
 * See `docs/client.md#usage`.
 */
export type UsageOf<C = number> = (usage: UsageNumbers) => Partial<C>

/**
 * The numbers of the member `usage` of a JSON body, or of all events of a stream, the latest of each name:
 * `total_tokens`, or `prompt_tokens_details.cached_tokens` for a member of a member. It may also be a member of
 * `message` or `response`.
 */
export interface UsageNumbers {
  readonly [name: string]: number
}

/** The key of one call: required if the client has none. */
export interface ClientKey<K> {
  /** The key. Default: that of the client. */
  readonly key?: K
}

/** The options of one call. */
export interface ScheduleOptions<K = string, T extends string = never, C = number> extends ClientKey<K> {
  /**
   * Calls with a higher priority start first, within this process and key, as far as {@link ClientOptions.ageing} says;
   * calls with equal priority in the order in which they were made. A whole number from -100 to 100. Default: 0.
   */
  readonly priority?: number
  /**
   * The units that the call takes: a whole number from 1. Default: 1. If a policy has a `meter`, an object by meter, as
   * for `take` of the limiter.
   */
  readonly cost?: C
  /** Ends the wait, and is passed on to the running call. It also aborts the body of a response of `fetch`. */
  readonly signal?: AbortSignalLike
  /** As for the client. */
  readonly maxWait?: Duration
  /** The caller's tier, if the limiter has tiers. */
  readonly tier?: T
  /**
   * Whether the call may be sent again after an answer was lost or the server failed. Default: `false`; for `fetch` it
   * follows from the method and the header `Idempotency-Key`.
   */
  readonly isIdempotent?: boolean
  /** As for the client. */
  readonly attemptTimeout?: Duration
  /** As for the client. */
  readonly shouldRetry?: ShouldRetry
}

/** {@link ScheduleOptions}, in which the cost is required if calls must name the units of a meter. */
export type CallOptions<K = string, T extends string = never, C = number> = ScheduleOptions<K, T, C> &
  (IsCostNamed<C> extends true ? { readonly cost: C } : unknown)

/** The last argument of a method: optional, unless calls must name the units of a meter. */
export type CallArguments<C, O> = IsCostNamed<C> extends true ? [options: O] : [options?: O | undefined]

/** The arguments of `fetch` after the URL: the options of the platform's function, and those of the call. */
export type FetchArguments<K = string, T extends string = never, C = number> =
  IsCostNamed<C> extends true
    ? [init: FetchInit | undefined, options: CallOptions<K, T, C>]
    : [init?: FetchInit | undefined, options?: CallOptions<K, T, C> | undefined]

type FetchInit = Parameters<FetchFunction>[1]

type IsCostNamed<C> = [C] extends [number] ? false : Record<never, never> extends C ? false : true

/** The argument of a scheduled function. */
export interface RunContext<N extends string = string> {
  /**
   * Aborted with the caller's signal, at `attemptTimeout`, if the permit of the call is about to be lost, or if the
   * client is closed and does not wait for the call. Pass it on.
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
  /** The calls that run, also requests of `fetch` that hold a permit until their body has ended. */
  readonly running: number
  /** Whether `close` has been called. */
  readonly isClosed: boolean
}

/** Options of `close`. */
export interface CloseOptions {
  /**
   * The longest time that waiting and running calls have to end: whole milliseconds from 0 to 86,400,000, or a duration
   * such as `'10s'`. Then waiting calls are rejected with `CLOSED`, and the signals of running calls are aborted.
   * `attempts` of the error tells whether a call has run. Default: no limit; the calls end by their own deadlines.
   */
  readonly timeout?: Duration
}

/** The calls that `close` did not wait for. */
export interface ClosedCalls {
  /** Calls that were rejected before their first attempt: they can safely run elsewhere. */
  readonly notStarted: number
  /** Calls that were aborted while they ran, or rejected between two attempts: they may have had an effect. */
  readonly interrupted: number
}

/** The events of an {@link OutgoingClient}. */
export interface ClientEvents<K = string, C = number> {
  /** A call has its turn and starts. */
  start: {
    readonly key: K
    readonly priority: number
    readonly attempt: number
    /** How long the call waited for this attempt, in milliseconds. */
    readonly waitedMs: number
  }
  /** An attempt has ended; with a permit that `fetch` holds for a body, the body. */
  end: {
    readonly key: K
    readonly attempt: number
    /** How long the attempt ran, in milliseconds. */
    readonly durationMs: number
    /** Whether the attempt resolved, without a refusal and without a status of 400 or above. */
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
  giveUp: {
    readonly key: K
    readonly error: unknown
    /** The attempts that it had before; 0: its function has never run. */
    readonly attempts: number
  }
  /** The key is blocked, because the server refused a call or said that nothing is left (`pauseWhenEmpty`). */
  block: {
    readonly key: K
    /** The HTTP status; `undefined` for gRPC, and for results without one. */
    readonly status: number | undefined
    /** The length of the block in milliseconds. */
    readonly durationMs: number
    /** The place where the key is blocked: see `block` of a limiter. With `false` only this client pauses. */
    readonly applied: 'store' | 'fallback' | false
    /** The error of `block`, if it failed. */
    readonly error: TollgateError | undefined
  }
  /** With `usageOf`: the units of an attempt are settled. */
  charge: {
    readonly key: K
    readonly attempt: number
    /** The units that it took at its start. */
    readonly cost: C
    /** The units that were used; `undefined`: no usage is known, so the cost stays charged. */
    readonly units: Partial<C> | undefined
    /** How they were settled; `undefined` after an error. */
    readonly settlement: Settlement | Settlement<string> | undefined
    /** The error of `usageOf`, or of the limiter: the cost stays charged. */
    readonly error: unknown
  }
  /** A function of the options failed, or returned a wrong value: the client decided without it. */
  hookError: { readonly key: K; readonly hook: 'refusalOf' | 'shouldRetry'; readonly error: unknown }
}
