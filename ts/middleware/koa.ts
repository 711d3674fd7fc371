/**
 * Rate limiting for Koa.
 *
 * @module tollgate/koa
 */
import type { Context, Middleware, Next } from 'koa'
import type { Decision } from '../api/decision.js'
import { checkCount } from '../input/options.js'
import { follow, isForwarded, readTogether } from './shared/node-response.js'
import type { Awaitable, KeyOrAddress, Message, NotAllowed, RateLimitOptions } from './shared/options.js'
import { Gate, type Host, withStatus } from './shared/request-limiter.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

declare module 'koa' {
  interface DefaultState {
    /** The decision of `tollgate/koa`; of another property's name, say so in a declaration of your own. */
    rateLimit?: Decision
  }
}

type Args = [context: Context]

/** The options of {@link rateLimit}. The decision stands in `ctx.state`. */
export type KoaRateLimitOptions<K = string, N extends string = string> = RateLimitOptions<K, N, Args> &
  KeyOrAddress<K, Args> & {
    /** Answers a refused request, in place of `statusCode` and `message`. */
    readonly handler?: (context: Context, next: Next, decision: NotAllowed<N>) => Awaitable<unknown>
    /**
     * Answers a request on which no decision could be made, or lets it pass by `next()`. Default: throws the error,
     * with a status of 503.
     */
    readonly onError?: (error: unknown, context: Context, next: Next) => Awaitable<unknown>
  }

const HOST: Host<Args> = {
  name: 'tollgate/koa',
  goesOn: readTogether,
  addressOf: ({ ip }) => ip,
  isProxyUntrusted: ({ req, app }) => isForwarded(req) && !app.proxy,
  mark: (property, decision, { state }) => {
    state[property] = decision
  },
}

/**
 * Limits the requests that come through.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * app.use(rateLimit({ limiter: new RateLimiter(gcra({ limit: 100, period: '1m' })) }))
 */
export function rateLimit<K, N extends string>(options: KoaRateLimitOptions<K, N>): Middleware {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options', 'write rateLimit({ limiter })')
  const gate = new Gate('rateLimit', options, HOST)
  const { handler, onError } = options
  return async (context, next) => {
    const args: Args = [context]
    const outcome = await gate.check(args)
    follow(gate, outcome, args, context.res)
    switch (outcome.what) {
      case 'pass':
        return next()
      case 'fail':
        if (onError === undefined) {
          throw withStatus(outcome.error)
        }
        return onError(outcome.error, context, next)
      case 'refuse': {
        const decision = outcome.decision as NotAllowed<N>
        if (handler !== undefined) {
          return handler(context, next, decision)
        }
        return answer(context, gate.statusCode, await gate.messageFor(decision, args))
      }
      case 'invalid':
        if (!context.headerSent && context.body === undefined) {
          answer(context, outcome.status, outcome.message)
        }
    }
  }
}

function answer(context: Context, status: number, message: Message): void {
  context.status = status
  context.body = message
  context.type = typeof message === 'string' ? 'text/plain' : 'application/json'
}
