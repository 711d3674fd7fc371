/**
 * Rate limiting for Web handlers, which take a `Request` and return a `Response`. Needs neither Node.js nor the addon.
 *
 * @module tollgate/fetch
 */
import type { Decision, NotAllowed } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import { checkCount } from '../input/options.js'
import { attachDecision } from './shared/attach.js'
import type { Awaitable, CostRequired, KeyRequired, RateLimitOptions } from './shared/options.js'
import { type FrameworkAdapter, RequestLimiter } from './shared/request-limiter.js'
import { CLIENT_GONE, UNAVAILABLE } from './shared/responses.js'
import { isStoreFailure } from './shared/store-failure.js'
import { isWebClientGone, isWebClientReset, webCloseSignal, webDisconnectSignal } from './shared/web-client.js'
import { invalidResponse, runAndRefund, webResponse, withHeaders } from './shared/web-response.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

/** A request with its decision attached. */
export type LimitedRequest<N extends string = string, P extends string = 'rateLimit'> = Request & {
  readonly [Name in P]?: Decision<N>
}

/** The request, and further arguments of the platform. */
type FetchArgs<Rest extends unknown[]> = [request: Request, ...rest: Rest]

/** The options of {@link withRateLimit}. `key` is required, because a `Request` has no client address. */
export type FetchRateLimitOptions<
  K = string,
  N extends string = string,
  Rest extends unknown[] = unknown[],
  P extends string = 'rateLimit',
  U = number,
> = RateLimitOptions<K, N, FetchArgs<Rest>, Response, U> &
  CostRequired<U> &
  KeyRequired<K, FetchArgs<Rest>> & {
    readonly requestProperty?: P
    /** Answers a refused request, in place of `statusCode` and `message`. */
    readonly handler?: (...args: [...request: FetchArgs<Rest>, decision: NotAllowed<N>]) => Awaitable<Response>
    /**
     * Called if no decision could be made. If it returns no response, the request continues. Default: a response with
     * status 503 if the store failed; other errors are thrown.
     */
    readonly onError?: (error: unknown, ...args: FetchArgs<Rest>) => Awaitable<Response | undefined>
  }

const ADAPTER: FrameworkAdapter<FetchArgs<unknown[]>> = {
  name: 'tollgate/fetch',
  isGone: isWebClientGone,
  isReset: (_, env) => isWebClientReset(env),
  signalOf: webCloseSignal,
  attach: (property, decision, request) => attachDecision(request, property, decision),
}

/**
 * Wraps a handler, so that it receives only requests that are not refused. The decision is `request.rateLimit`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * export default { fetch: withRateLimit(handler, { limiter, key: (request) => userOf(request) }) }
 */
export function withRateLimit<
  K,
  N extends string,
  Rest extends unknown[] = [],
  P extends string = 'rateLimit',
  U = number,
>(
  handler: (request: LimitedRequest<N, P>, ...rest: Rest) => Awaitable<Response>,
  options: FetchRateLimitOptions<K, N, Rest, P, U>,
): (request: Request, ...rest: Rest) => Promise<Response> {
  const rule = 'withRateLimit takes a handler and an object of options'
  const advice = 'write withRateLimit(handler, { limiter, key })'
  checkCount(arguments.length, 2, rule, advice)
  if (typeof handler !== 'function') {
    throw new TollgateError('INVALID_OPTION', `${rule}, in this order: ${advice}`)
  }
  const requestLimiter = new RequestLimiter<FetchArgs<Rest>>(
    'withRateLimit',
    options,
    ADAPTER as FrameworkAdapter<FetchArgs<Rest>>,
  )
  const { handler: onRefusal, onError } = options
  return async (...args) => {
    const [request] = args
    const outcome = await requestLimiter.check(args)
    const pass = () => handler(...(args as [request: LimitedRequest<N, P>, ...rest: Rest]))
    const answer = async (): Promise<Response> => {
      switch (outcome.kind) {
        case 'pass':
          return pass()
        case 'fail':
          return (await (onError ?? unavailable)(outcome.error, ...args)) ?? pass()
        case 'invalid':
          return invalidResponse(outcome)
        case 'gone':
          return webResponse(CLIENT_GONE)
        case 'refuse': {
          const decision = outcome.decision as NotAllowed<N>
          return onRefusal === undefined
            ? webResponse(await requestLimiter.refusalFor(decision, args))
            : onRefusal(...args, decision)
        }
      }
    }
    let response: Response | undefined
    await runAndRefund(
      requestLimiter,
      outcome,
      args,
      () => webDisconnectSignal(request, args[1]),
      async () => {
        response = withHeaders(requestLimiter, outcome, await answer())
        return response.status
      },
    )
    return response as Response
  }
}

function unavailable(error: unknown): Response {
  if (isStoreFailure(error)) {
    return webResponse(UNAVAILABLE)
  }
  throw error
}
