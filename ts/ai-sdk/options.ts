import type { Settlement } from '../api/reservation.js'
import type { AbortSignalLike } from '../api/wait.js'
import type { Duration } from '../input/duration.js'
import type { TimerClock } from '../platform/timer-clock.js'
import type { Policy } from '../policies/policy.js'

/**
 * The part of a limiter that the middleware needs. Every `RateLimiter` has it whose reservations can be settled.
 *
 * @typeParam K - The type of the keys.
 * @typeParam T - The names of the tiers; `never` without tiers.
 * @typeParam C - The cost of a call: a number, or an object by meter.
 */
export interface ModelLimiter<K = string, T extends string = never, C = number> {
  /** The policies by name. Their meters tell what a call costs by default. */
  readonly policies: { readonly [name: string]: Policy }
  /** The policies of each tier; without tiers an empty object. */
  readonly tiers: { readonly [Tier in T]: unknown }
  /** Charges an estimate, and settles it later. */
  readonly reserve: unknown
  /** Previews a decision. */
  peek(key: K, cost?: number | { readonly cost?: C; readonly tier?: string }): Promise<unknown>
  /** Refuses every call on a key for a time. */
  block(key: K, duration: Duration): Promise<'store' | 'fallback' | false>
}

/**
 * The parameters of a call of a model: those that are read. The object has all that the SDK passes to models.
 */
export interface ModelCallParams {
  /** The messages. */
  readonly prompt: readonly unknown[]
  /** The most tokens of the answer. */
  readonly maxOutputTokens?: number | undefined
  /** The descriptions of the tools count as input. */
  readonly tools?: readonly unknown[] | undefined
  /** A schema of the answer counts as input. */
  readonly responseFormat?: unknown
  /** An aborted signal ends the wait for a turn, and settles the call. */
  readonly abortSignal?: AbortSignalLike | undefined
  /** `providerOptions.tollgate` has the `key` and the `tier` of the call. */
  readonly providerOptions?: { readonly [provider: string]: unknown } | undefined
}

/** A call of a model. Each step of an agent, and each retry of the SDK, is a call. */
export interface ModelCall {
  /** What the SDK passes to the model. */
  readonly params: ModelCallParams
  /** The provider of the model, such as `'openai.responses'`. */
  readonly provider: string
  /** The name of the model at its provider. */
  readonly modelId: string
}

/** The estimated tokens of a call: whole numbers from 0. Those that are absent have the default. */
export interface TokenEstimate {
  /** Default: a token for 3 bytes of the prompt, the tools and the schema, and 1,000 for each file. */
  readonly inputTokens?: number | undefined
  /** Default: `maxOutputTokens` of the call, or that of the middleware. */
  readonly outputTokens?: number | undefined
}

/** The tokens of a call: whole numbers from 0. */
export interface TokenUsage {
  /** All tokens of the input, with the cached ones. */
  readonly inputTokens: number
  /** All tokens of the output, with those of reasoning. */
  readonly outputTokens: number
  /** The tokens of the input that were read from the provider's cache; in an estimate 0. */
  readonly cachedInputTokens: number
  /** The tokens of the input that were written to the provider's cache; in an estimate 0. */
  readonly cacheWriteTokens: number
  /** The tokens of the output that were spent on reasoning; in an estimate 0. */
  readonly reasoningTokens: number
}

/** Estimates the tokens of answers from those of earlier ones: a `UsageEstimator` of `tollgate/estimate`. */
export interface OutputEstimator {
  /** The tokens of the answer of a model that generates at most `declaredMax`. */
  estimate(modelId: string, declaredMax: number): number
  /** Records the tokens of an answer that has ended by itself. */
  record(modelId: string, outputTokens: number): void
}

/** Units: a number, or under policies with meters an object by meter. */
export type ModelCost = number | { readonly [meter: string]: number }

/**
 * What a call is charged for whose usage the provider does not report.
 *
 * - `'estimate'`: the estimate, or the tokens that were streamed if these are more.
 * - `'streamed'`: the estimated input, and the tokens that were streamed: one for 3 bytes of UTF-8.
 * - `'nothing'`: all units are given back.
 */
export type UnreportedUsage = 'estimate' | 'streamed' | 'nothing'

/** How a call was settled. */
export interface ModelCharge {
  /** The call. */
  readonly call: ModelCall
  /**
   * How it ended: `'finished'`; `'aborted'` by its signal or by a consumer that cancelled the stream; or `'failed'`.
   */
  readonly outcome: 'finished' | 'aborted' | 'failed'
  /** Whether the provider has reported the usage. Otherwise `tokens` follow from `onAbort` or `onError`. */
  readonly isReported: boolean
  /** The tokens that the call was charged for; `undefined` if all units were given back. */
  readonly tokens: TokenUsage | undefined
  /** The units that were reserved. */
  readonly estimated: ModelCost
  /** The settlement, which tells what was refunded, charged and is owed; `undefined` if the store failed. */
  readonly settlement: Settlement<never> | Settlement<string> | undefined
  /** Why the settlement failed. The middleware tries again while the reservation lasts, at most five times. */
  readonly error: unknown
}

/**
 * The options of `rateLimit`.
 *
 * @typeParam K - The limiter's keys.
 * @typeParam T - The names of its tiers.
 * @typeParam C - The cost of its calls: a number, or an object by meter.
 *
 * @example
 * const options: ModelRateLimitOptions = { limiter, key: 'customer:7', maxWait: '10s' }
 * const model = wrapLanguageModel({ model: openai('gpt-5'), middleware: rateLimit(options) })
 */
export interface ModelRateLimitOptions<K = string, T extends string = never, C = number> {
  /** Counts the calls. It must have a policy beside `concurrency`, and no `slidingCounter`. You close it. */
  readonly limiter: ModelLimiter<K, T, C>
  /**
   * The key, or a function that tells the key of a call. `providerOptions: { tollgate: { key } }` of a call comes first.
   * Default: each call must have one.
   */
  readonly key?: K | ((call: ModelCall) => K | PromiseLike<K>)
  /**
   * The tier of the limiter, or a function that tells it. `providerOptions: { tollgate: { tier } }` of a call comes
   * first. Default: none.
   */
  readonly tier?: T | ((call: ModelCall) => T | PromiseLike<T>)
  /**
   * The tokens that a call reserves: an {@link OutputEstimator}, or a function that returns a {@link TokenEstimate}.
   * Default: as {@link TokenEstimate} tells.
   */
  readonly estimate?: OutputEstimator | ((call: ModelCall) => TokenEstimate)
  /** The estimated tokens of the answer to a call without `maxOutputTokens`: from 1 on. Default: 1,000. */
  readonly maxOutputTokens?: number
  /**
   * The cost of tokens, for the estimate and for the usage: whole numbers from 0. Meters that it leaves out have their
   * default: 1 for `calls` and `requests`; the input and the output for `tokens`; and for `inputTokens`,
   * `outputTokens`, `cachedInputTokens`, `cacheWriteTokens` and `reasoningTokens` the number of {@link TokenUsage}. A
   * policy without a meter counts calls. Another meter needs this function, or a `defaultCost`.
   */
  readonly costOf?: (tokens: TokenUsage, call: ModelCall) => Partial<C>
  /**
   * The longest wait until the estimate fits: from 0 to 3,600,000 milliseconds, or a duration such as `'5s'`. A call
   * that fits later is refused at once. Default: 0.
   */
  readonly maxWait?: Duration
  /**
   * The life of a reservation, from 1 s to a day. Reservations are renewed while the model answers. If the process dies,
   * the reserved units count as used after this time. Default: `'2m'`.
   */
  readonly ttl?: Duration
  /** The charge for a call that was aborted, or whose stream was cancelled. Default: `'estimate'`. */
  readonly onAbort?: UnreportedUsage
  /** The charge for a call that failed before any output. Afterwards `onAbort` counts. Default: `'nothing'`. */
  readonly onError?: UnreportedUsage
  /**
   * Whether a provider that refuses a call (429, or 503 and 403 with a time) blocks the key in the limiter for the time
   * that it names, or for a second. Default: `true`.
   */
  readonly pause?: boolean
  /** Receives how each call was settled. Errors of the function are ignored. Default: none. */
  readonly onCharged?: (charge: ModelCharge) => void
  /**
   * The time by which calls wait, for tests: a `TestClock` of `tollgate/testing`; or a function that returns
   * milliseconds, beside faked timers.
   */
  readonly clock?: TimerClock | (() => number)
}
