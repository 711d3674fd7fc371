import type { Decision, NotAllowed } from '../api/decision.js'
import type { AbortSignalLike } from '../api/wait.js'
import type { ClientOptions } from '../client/options.js'
import type { Awaitable, CostRequired, DescribedLimiter, KeyFunction } from '../middleware/shared/options.js'
import type { MessageRateLimitOptions } from '../middleware/shared/without-http.js'

/** The part of a limiter that {@link ToolLimitOptions} need. Every `RateLimiter` has it. */
export interface ToolLimiter<K = string, N extends string = string, U = number> extends DescribedLimiter<N> {
  /** Charges the calls, without `concurrency`. */
  readonly take: unknown
  /** Charges the calls, and holds a permit while a tool runs, under `concurrency`. */
  readonly acquire: unknown
  /** Gives the units of a decision back. */
  readonly refund: unknown
  /** Previews a decision. */
  peek(key: K, cost?: number | { readonly cost?: U; readonly tier?: string }): Promise<Decision<N>>
}

/** What the SDK knows of an access token: the part that is read. */
export interface AuthInfoLike {
  /** The OAuth client. */
  readonly clientId: string
  /** What the verifier of tokens has added. `sub` is the subject of the token: its user. */
  readonly extra?: { readonly [name: string]: unknown } | undefined
}

/** A call of a tool: a request `tools/call`. */
export interface ToolCall {
  /** The name of the tool, as the client sent it. There may be no such tool. */
  readonly tool: string
  /** The arguments as the client sent them: not yet checked by the schema of the tool. */
  readonly arguments: { readonly [name: string]: unknown }
  /**
   * The authenticated caller: `sub:` and the subject of the access token (`authInfo.extra.sub`), or `client:` and its
   * `clientId` if the verifier of tokens names no subject. `undefined` if the request has no access token.
   */
  readonly principal: string | undefined
  /** The access token of the request, as the verifier of tokens has described it. */
  readonly authInfo: AuthInfoLike | undefined
  /** Aborted when the client cancels the request or disconnects. */
  readonly signal: AbortSignalLike
  /** The second argument of handlers of the SDK. */
  readonly context: object
}

/** The parts of the default key, for policies with these names as `per`. */
export interface ToolKey {
  /** `principal` of {@link ToolCall}. */
  readonly principal: string
  /** The name of the tool. */
  readonly tool: string
  /** Both: the calls of one tool by one principal. */
  readonly principalTool: string
}

/**
 * The `key` option. It has a default for keys that are strings, the principal, and for keys whose parts are those of
 * {@link ToolKey}; otherwise it is required.
 */
export type KeyOrPrincipal<K> = [string] extends [K]
  ? { readonly key?: KeyFunction<NoInfer<K>, [call: ToolCall]> }
  : [ToolKey] extends [K]
    ? { readonly key?: KeyFunction<NoInfer<K>, [call: ToolCall]> }
    : { readonly key: KeyFunction<NoInfer<K>, [call: ToolCall]> }

/**
 * The options of `limitTools`.
 *
 * Without `key`, calls are counted by their principal. A call without an access token has none, and is refused.
 *
 * @typeParam K - The limiter's keys.
 * @typeParam N - The names of its limits.
 * @typeParam U - The cost of a call: a number, or an object by meter.
 *
 * @example
 * const options: ToolLimitOptions = { limiter, skip: ({ tool }) => tool === 'ping' }
 */
export type ToolLimitOptions<K = string, N extends string = string, U = number> = Omit<
  MessageRateLimitOptions<K, N, [call: ToolCall], U>,
  'limiter' | 'message' | 'requestProperty'
> &
  CostRequired<U> &
  KeyOrPrincipal<K> & {
    /** Decides on the calls. With a `concurrency` policy a call holds a permit while its tool runs. You close it. */
    readonly limiter: ToolLimiter<K, N, U>
    /** The text of a refusal, which the model reads. Default: what happened, and in how many seconds to call again. */
    readonly message?: string | ((call: ToolCall, decision: NotAllowed<N>) => Awaitable<string>)
    /**
     * Called if no decision could be made. Returns the result of the call, or nothing to let the tool run, or throws.
     * Default: a result with `status: 'unavailable'` if the store failed; other errors are thrown.
     */
    readonly onError?: (error: unknown, call: ToolCall) => Awaitable<object | undefined> | Awaitable<void>
  }

/** The methods of `Server` of the SDK that are used. */
export interface ProtocolServer {
  /** Wrapped, so that every handler of `tools/call` is limited. */
  setRequestHandler(...args: never[]): unknown
  /** Tells whether there is a handler already. */
  assertCanSetRequestHandler(method: string): void
}

/** An `McpServer` or a `Server` of the SDK. */
export type ToolServer = ProtocolServer | { readonly server: ProtocolServer }

/** What a client sends to call a tool: the first argument of `callTool`. */
export interface ToolRequest {
  /** The name of the tool. */
  readonly name: string
  /** The arguments of the tool. */
  readonly arguments?: { readonly [name: string]: unknown } | undefined
}

/** A `Client` of the SDK, of version 2: in version 1 the second argument of `callTool` is a schema. */
export interface ToolClient {
  /** Only clients of version 2 have it. */
  getNegotiatedProtocolVersion(): string | undefined
  /** Wrapped. */
  callTool(request: never, options?: never): PromiseLike<unknown>
}

/**
 * The options of `limitToolCalls`: those of an `OutgoingClient`, which sends the calls, and what a call is counted by.
 *
 * @typeParam K - The limiter's keys.
 * @typeParam N - The names of its limits.
 * @typeParam T - The names of its tiers.
 * @typeParam C - The cost of a call: a number, or an object by meter.
 *
 * @example
 * const options: ToolCallLimitOptions = { limiter, key: 'search.example.com', maxWait: '10s' }
 */
export type ToolCallLimitOptions<K = string, N extends string = string, T extends string = never, C = number> = Omit<
  ClientOptions<K, N, T, C>,
  'key' | 'pauseWhenEmpty' | 'holdUntil' | 'fetch'
> &
  CostRequired<C> & {
    /** The key, or a function that makes it. A refusal of the server blocks it. */
    readonly key: NoInfer<K> | ((request: ToolRequest) => Awaitable<NoInfer<K>>)
    /** The units that a call takes: a whole number from 1, or units by meter. Default: 1. */
    readonly cost?: NoInfer<C> | ((request: ToolRequest) => Awaitable<NoInfer<C>>)
    /** The tier of a call. Required for a limiter with tiers. */
    readonly tier?: NoInfer<T> | ((request: ToolRequest) => Awaitable<NoInfer<T>>)
  }
