/**
 * Rate limiting for Express 4 and 5.
 *
 * @module tollgate/express
 */
import type { NextFunction, Request, RequestHandler, Response } from 'express'
import type { Decision } from '../api/decision.js'
import { checkCount } from '../input/options.js'
import { follow, isForwarded, readTogether } from './shared/node-response.js'
import type { Awaitable, KeyOrAddress, Message, NotAllowed, RateLimitOptions } from './shared/options.js'
import { Gate, type Host, withStatus } from './shared/request-limiter.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

declare global {
  namespace Express {
    interface Request {
      /** The decision of `tollgate/express`; of another property's name, say so in a declaration of your own. */
      rateLimit?: Decision
    }
  }
}

type Args = [request: Request, response: Response]

/** The options of {@link rateLimit}. */
export type ExpressRateLimitOptions<K = string, N extends string = string> = RateLimitOptions<K, N, Args> &
  KeyOrAddress<K, Args> & {
    /** Answers a refused request, in place of `statusCode` and `message`. */
    readonly handler?: (
      request: Request,
      response: Response,
      next: NextFunction,
      decision: NotAllowed<N>,
    ) => Awaitable<unknown>
    /**
     * Answers a request on which no decision could be made, or lets it pass by `next()`. Default: `next(error)`,
     * with a status of 503.
     */
    readonly onError?: (error: unknown, request: Request, response: Response, next: NextFunction) => Awaitable<unknown>
  }

const HOST: Host<Args> = {
  name: 'tollgate/express',
  goesOn: readTogether,
  addressOf: ({ ip }) => ip,
  isProxyUntrusted: (request) => isForwarded(request) && request.app.get('trust proxy') === false,
  mark: (property, decision, request) => {
    ;(request as unknown as Record<string, unknown>)[property] = decision
  },
}

/**
 * Limits the requests that come through: as a middleware of an app, of a router or of one route.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * app.use(rateLimit({ limiter: new RateLimiter(gcra({ limit: 100, period: '1m' })) }))
 */
export function rateLimit<K, N extends string>(options: ExpressRateLimitOptions<K, N>): RequestHandler {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options', 'write rateLimit({ limiter })')
  const gate = new Gate('rateLimit', options, HOST)
  const { handler, onError } = options

  async function answer(request: Request, response: Response, next: NextFunction): Promise<unknown> {
    const args: Args = [request, response]
    const outcome = await gate.check(args)
    follow(gate, outcome, args, response)
    switch (outcome.what) {
      case 'pass':
        return next()
      case 'fail':
        return onError ? onError(outcome.error, request, response, next) : next(withStatus(outcome.error))
      case 'refuse': {
        const { decision } = outcome
        if (handler !== undefined) {
          return handler(request, response, next, decision as NotAllowed<N>)
        }
        return send(response, gate.statusCode, await gate.messageFor(decision, args))
      }
      case 'invalid':
        return response.headersSent || send(response, outcome.status, outcome.message)
    }
  }

  return (request, response, next) => {
    answer(request, response, next).catch(next)
  }
}

function send(response: Response, status: number, message: Message): unknown {
  response.status(status)
  return typeof message === 'string' ? response.type('text/plain').send(message) : response.json(message)
}
