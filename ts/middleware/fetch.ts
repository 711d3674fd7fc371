/**
 * Rate limiting for Web handlers, which take a `Request` and answer with a `Response`: nothing of it needs Node.js
 * or the addon.
 *
 * @module tollgate/fetch
 */
import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import { checkCount } from '../input/options.js'
import type { Awaitable, KeyRequired, NotAllowed, RateLimitOptions } from './shared/options.js'
import { Gate, type Host } from './shared/request-limiter.js'
import { follow, invalidResponse, refusal, withFields } from './shared/web-response.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

/** A request with the decision on it. */
export type LimitedRequest<N extends string = string, P extends string = 'rateLimit'> = Request & {
  readonly [Name in P]?: Decision<N>
}

/** What a Web handler is called with: the request, and what its platform passes besides. */
type Args<Rest extends unknown[]> = [request: Request, ...rest: Rest]

/** The options of {@link withRateLimit}. A `Request` tells no client address, so that `key` is required. */
export type FetchRateLimitOptions<
  K = string,
  N extends string = string,
  Rest extends unknown[] = unknown[],
  P extends string = 'rateLimit',
> = RateLimitOptions<K, N, Args<Rest>, Response> &
  KeyRequired<K, Args<Rest>> & {
    readonly requestProperty?: P
    /** Answers a refused request, in place of `statusCode` and `message`. */
    readonly handler?: (...args: [...request: Args<Rest>, decision: NotAllowed<N>]) => Awaitable<Response>
    /**
     * Answers a request on which no decision could be made; without an answer it goes on. Default: a response of
     * status 503, if the limiter failed; other errors are thrown.
     */
    readonly onError?: (error: unknown, ...args: Args<Rest>) => Awaitable<Response | undefined>
  }

const HOST: Host<Args<unknown[]>> = {
  name: 'tollgate/fetch',
  mark: (property, decision, request) => {
    ;(request as unknown as Record<string, unknown>)[property] = decision
  },
}

/**
 * A handler that answers the requests that are not refused by another one. The decision is `request.rateLimit`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * export default { fetch: withRateLimit(handler, { limiter, key: (request) => userOf(request) }) }
 */
export function withRateLimit<K, N extends string, Rest extends unknown[] = [], P extends string = 'rateLimit'>(
  handler: (request: LimitedRequest<N, P>, ...rest: Rest) => Awaitable<Response>,
  options: FetchRateLimitOptions<K, N, Rest, P>,
): (request: Request, ...rest: Rest) => Promise<Response> {
  checkCount(
    arguments.length,
    2,
    'withRateLimit takes a handler and an object of options',
    'write withRateLimit(handler, { limiter, key })',
  )
  const gate = new Gate<Args<Rest>>('withRateLimit', options, HOST as Host<Args<Rest>>)
  const { handler: onRefusal, onError } = options
  return async (...args) => {
    const [request] = args
    const outcome = await gate.check(args)
    const pass = () => handler(...(args as [request: LimitedRequest<N, P>, ...rest: Rest]))
    const answer = async (): Promise<Response> => {
      switch (outcome.what) {
        case 'pass':
          return pass()
        case 'fail':
          return (await (onError ?? unavailable)(outcome.error, ...args)) ?? pass()
        case 'invalid':
          return invalidResponse(outcome)
        case 'refuse': {
          const decision = outcome.decision as NotAllowed<N>
          return onRefusal === undefined
            ? refusal(await gate.messageFor(decision, args), gate.statusCode)
            : onRefusal(...args, decision)
        }
      }
    }
    let response: Response | undefined
    await follow(
      gate,
      outcome,
      args,
      () => request.signal,
      async () => {
        response = withFields(gate, outcome, await answer())
        return response.status
      },
    )
    return response as Response
  }
}

function unavailable(error: unknown): Response {
  if (TollgateError.is(error)) {
    return new Response('Service Unavailable', { status: 503 })
  }
  throw error
}
