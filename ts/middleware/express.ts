/**
 * Rate limiting for Express 4 and 5.
 *
 * @module tollgate/express
 */
import type { NextFunction, Request, RequestHandler, Response } from 'express'
import type { Decision, NotAllowed } from '../api/decision.js'
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

declare global {
  namespace Express {
    interface Request {
      /** The decision of `tollgate/express`. If you set another `requestProperty`, declare that property yourself. */
      rateLimit?: Decision
    }
  }
}

type ExpressArgs = [request: Request, response: Response]

/** The options of {@link rateLimit}. */
export type ExpressRateLimitOptions<K = string, N extends string = string, U = number> = RateLimitOptions<
  K,
  N,
  ExpressArgs,
  never,
  U
> &
  CostRequired<U> &
  KeyOrAddress<K, ExpressArgs> & {
    /** Answers a refused request, in place of `statusCode` and `message`. */
    readonly handler?: (
      request: Request,
      response: Response,
      next: NextFunction,
      decision: NotAllowed<N>,
    ) => Awaitable<unknown>
    /**
     * Called if no decision could be made. Answers the request, or lets it pass with `next()`. Default: `next(error)`,
     * if the store failed with an error of status 503, whose `cause` is the failure.
     */
    readonly onError?: (error: unknown, request: Request, response: Response, next: NextFunction) => Awaitable<unknown>
  }

const ADAPTER: FrameworkAdapter<ExpressArgs> = {
  name: 'tollgate/express',
  readBarrier: currentReadBarrier,
  addressOf: ({ ip }) => ip,
  forwardedOf: (request) => forwardedIn(request, request.app.get('trust proxy')),
  isGone: (_, response) => isClientGone(response),
  isReset: ({ socket }) => isReset(socket),
  signalOf: (_, response) => closeSignal(response),
  attach: (property, decision, request) => attachDecision(request, property, decision),
}

/**
 * Limits requests: as a middleware of an app, of a router or of one route.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * app.use(rateLimit({ limiter: new RateLimiter(gcra({ limit: 100, period: '1m' })) }))
 */
export function rateLimit<K, N extends string, U = number>(options: ExpressRateLimitOptions<K, N, U>): RequestHandler {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options', 'write rateLimit({ limiter })')
  const requestLimiter = new RequestLimiter('rateLimit', options, ADAPTER)
  const { handler, onError } = options

  async function answer(request: Request, response: Response, next: NextFunction): Promise<unknown> {
    const args: ExpressArgs = [request, response]
    const outcome = await requestLimiter.check(args)
    applyOutcome(requestLimiter, outcome, args, response)
    switch (outcome.kind) {
      case 'gone':
        return
      case 'pass':
        return next()
      case 'fail':
        return onError ? onError(outcome.error, request, response, next) : next(errorForFramework(outcome.error))
      case 'refuse': {
        const { decision } = outcome
        if (handler !== undefined) {
          return handler(request, response, next, decision as NotAllowed<N>)
        }
        return send(response, await requestLimiter.refusalFor(decision, args))
      }
      case 'invalid':
        return response.headersSent || send(response, outcome.response)
    }
  }

  return (request, response, next) => {
    answer(request, response, next).catch(next)
  }
}

function send(response: Response, { status, message, type }: OwnResponse): unknown {
  response.status(status)
  if (typeof message === 'string') {
    return response.type('text/plain').send(message)
  }
  return type === undefined ? response.json(message) : response.type(type).json(message)
}
