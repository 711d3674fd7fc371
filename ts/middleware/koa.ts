/**
 * Rate limiting for Koa.
 *
 * @module tollgate/koa
 */
import type { Context, Middleware, Next } from 'koa'
import type { Decision, NotAllowed } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import { checkCount } from '../input/options.js'
import { attachDecision } from './shared/attach.js'
import { closeSignal, isClientGone, isReset } from './shared/node-client.js'
import { applyOutcome, currentReadBarrier, forwardedIn } from './shared/node-response.js'
import type { Awaitable, CostRequired, KeyOrAddress, RateLimitOptions } from './shared/options.js'
import { type FrameworkAdapter, RequestLimiter } from './shared/request-limiter.js'
import type { OwnResponse } from './shared/responses.js'
import { errorForFramework } from './shared/store-failure.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

declare module 'koa' {
  interface DefaultState {
    /** The decision of `tollgate/koa`. If you set another `requestProperty`, declare that property yourself. */
    rateLimit?: Decision
  }
}

type KoaArgs = [context: Context]

/** The options of {@link rateLimit}. The decision is stored in `ctx.state`. */
export type KoaRateLimitOptions<K = string, N extends string = string, U = number> = RateLimitOptions<
  K,
  N,
  KoaArgs,
  never,
  U
> &
  CostRequired<U> &
  KeyOrAddress<K, KoaArgs> & {
    /** Answers a refused request, in place of `statusCode` and `message`. */
    readonly handler?: (context: Context, next: Next, decision: NotAllowed<N>) => Awaitable<unknown>
    /**
     * Called if no decision could be made. Answers the request, or lets it pass with `next()`. Default: throws the
     * error; if the store failed, one of status 503, whose `cause` is the failure.
     */
    readonly onError?: (error: unknown, context: Context, next: Next) => Awaitable<unknown>
  }

const ADAPTER: FrameworkAdapter<KoaArgs> = {
  name: 'tollgate/koa',
  readBarrier: currentReadBarrier,
  addressOf: ({ ip }) => ip,
  // Without `maxIpsCount` Koa takes the first address of the list, which clients can write.
  forwardedOf: ({ req, app }) => forwardedIn(req, app.proxy && (app.maxIpsCount > 0 ? app.maxIpsCount : true)),
  isGone: ({ res }) => isClientGone(res),
  isReset: ({ req }) => isReset(req.socket),
  signalOf: ({ res }) => closeSignal(res),
  attach: (property, decision, { state }) => attachDecision(state, property, decision),
}

/**
 * Limits requests.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * app.use(rateLimit({ limiter: new RateLimiter(gcra({ limit: 100, period: '1m' })) }))
 */
export function rateLimit<K, N extends string, U = number>(options: KoaRateLimitOptions<K, N, U>): Middleware {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options', 'write rateLimit({ limiter })')
  const requestLimiter = new RequestLimiter('rateLimit', options, ADAPTER)
  const { handler, onError } = options
  return async (context, next) => {
    const args: KoaArgs = [context]
    const outcome = await requestLimiter.check(args)
    applyOutcome(requestLimiter, outcome, args, context.res)
    switch (outcome.kind) {
      case 'gone':
        return
      case 'pass':
        return next()
      case 'fail':
        if (onError === undefined) {
          throw keepingHeaders(errorForFramework(outcome.error), context)
        }
        return onError(outcome.error, context, next)
      case 'refuse': {
        const decision = outcome.decision as NotAllowed<N>
        if (handler !== undefined) {
          return handler(context, next, decision)
        }
        return answer(context, await requestLimiter.refusalFor(decision, args))
      }
      case 'invalid':
        if (!context.headerSent && context.body === undefined) {
          answer(context, outcome.response)
        }
    }
  }
}

/** Gives an error the headers of the response. Koa answers an error with the headers of the error alone. */
function keepingHeaders(error: unknown, { response: { headers } }: Context): unknown {
  // A new object, because other requests may have the same error.
  return TollgateError.is(error) ? Object.create(error, { headers: { value: headers } }) : error
}

function answer(context: Context, { status, message, type }: OwnResponse): void {
  context.status = status
  context.body = message
  context.type = typeof message === 'string' ? 'text/plain' : (type ?? 'application/json')
}
