/**
 * Rate limiting for Hono on any platform. Needs neither Node.js nor the addon.
 *
 * @module tollgate/hono
 */
import type { Context, MiddlewareHandler, Next } from 'hono'
import type { Decision, NotAllowed } from '../api/decision.js'
import { checkCount } from '../input/options.js'
import { isReplaceable } from './shared/attach.js'
import type { Awaitable, CostRequired, KeyRequired, RateLimitOptions } from './shared/options.js'
import { type FrameworkAdapter, RequestLimiter } from './shared/request-limiter.js'
import { CLIENT_GONE, UNAVAILABLE } from './shared/responses.js'
import { errorForFramework, isStoreFailure } from './shared/store-failure.js'
import { isWebClientGone, isWebClientReset, webCloseSignal, webDisconnectSignal } from './shared/web-client.js'
import { invalidResponse, runAndRefund, webResponse, withHeaders } from './shared/web-response.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

type HonoArgs = [context: Context]

/** The options of {@link rateLimit}. `key` is required, because Hono itself does not know the client's address. */
export type HonoRateLimitOptions<
  K = string,
  N extends string = string,
  P extends string = 'rateLimit',
  U = number,
> = RateLimitOptions<K, N, HonoArgs, Response, U> &
  CostRequired<U> &
  KeyRequired<K, HonoArgs> & {
    readonly requestProperty?: P
    /** Answers a refused request, in place of `statusCode` and `message`. */
    readonly handler?: (context: Context, next: Next, decision: NotAllowed<N>) => Awaitable<Response | undefined>
    /**
     * Called if no decision could be made. Answers the request, or lets it pass with `next()`. Default: throws the
     * error; if the store failed, one with a response of status 503, whose `cause` is the failure.
     */
    readonly onError?: (error: unknown, context: Context, next: Next) => Awaitable<Response | undefined>
  }

const ADAPTER: FrameworkAdapter<HonoArgs> = {
  name: 'tollgate/hono',
  requestOf: ({ req }) => req.raw,
  isGone: ({ req, env }) => isWebClientGone(req.raw, env),
  isReset: ({ env }) => isWebClientReset(env),
  signalOf: ({ req, env }) => webCloseSignal(req.raw, env),
  attach: (property, decision, context) => {
    if (isReplaceable(context.get(property), decision)) {
      context.set(property, decision)
    }
  },
}

/**
 * Limits requests. The decision is `c.get('rateLimit')`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * app.use(rateLimit({ limiter, key: (c) => ipKey(getConnInfo(c).remote.address) }))
 */
export function rateLimit<K, N extends string, P extends string = 'rateLimit', U = number>(
  options: HonoRateLimitOptions<K, N, P, U>,
): MiddlewareHandler<{ Variables: { [Name in P]?: Decision<N> } }> {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options', 'write rateLimit({ limiter })')
  const requestLimiter = new RequestLimiter('rateLimit', options, ADAPTER)
  const { handler, onError } = options
  return async (context, next) => {
    const args: HonoArgs = [context]
    const outcome = await requestLimiter.check(args)
    if (outcome.kind !== 'pass') {
      // Creates the response that has the headers of earlier middlewares. Hono merges them into an answer.
      void context.res
    }
    if (outcome.kind === 'fail' && onError === undefined) {
      throw errorFor(outcome.error)
    }
    const answer = async (): Promise<Response | undefined> => {
      if (outcome.kind === 'pass') {
        await next()
        return undefined
      }
      if (outcome.kind === 'fail') {
        return onError?.(outcome.error, context, next)
      }
      if (outcome.kind === 'invalid') {
        return invalidResponse(outcome)
      }
      if (outcome.kind === 'gone') {
        return webResponse(CLIENT_GONE)
      }
      const decision = outcome.decision as NotAllowed<N>
      return handler === undefined
        ? webResponse(await requestLimiter.refusalFor(decision, args))
        : handler(context, next, decision)
    }
    const signalOf = () => webDisconnectSignal(context.req.raw, context.env)
    await runAndRefund(requestLimiter, outcome, args, signalOf, async () => {
      const given = await answer()
      if (given !== undefined) {
        context.res = given
      }
      const response = context.res
      const written = withHeaders(requestLimiter, outcome, response)
      if (written !== response) {
        // Cleared first, because the headers of the present response would replace the new ones.
        context.res = undefined
        context.res = written
      }
      return written.status
    })
  }
}

/** The error that Hono gets. Its own error handling calls `getResponse`. */
function errorFor(error: unknown): unknown {
  const getResponse = () => webResponse(UNAVAILABLE)
  return isStoreFailure(error) ? Object.assign(errorForFramework(error) as Error, { getResponse }) : error
}
