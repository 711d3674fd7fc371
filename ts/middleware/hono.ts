/**
 * Rate limiting for Hono, on any platform: nothing of it needs Node.js or the addon.
 *
 * @module tollgate/hono
 */
import type { Context, MiddlewareHandler, Next } from 'hono'
import type { Decision } from '../api/decision.js'
import { checkCount } from '../input/options.js'
import type { Awaitable, KeyRequired, NotAllowed, RateLimitOptions } from './shared/options.js'
import { Gate, type Host, withStatus } from './shared/request-limiter.js'
import { follow, invalidResponse, refusal, withFields } from './shared/web-response.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

type Args = [context: Context]

/** The options of {@link rateLimit}. Hono itself does not know the client's address, so that `key` is required. */
export type HonoRateLimitOptions<
  K = string,
  N extends string = string,
  P extends string = 'rateLimit',
> = RateLimitOptions<K, N, Args, Response> &
  KeyRequired<K, Args> & {
    readonly requestProperty?: P
    /** Answers a refused request, in place of `statusCode` and `message`. */
    readonly handler?: (context: Context, next: Next, decision: NotAllowed<N>) => Awaitable<Response | undefined>
    /**
     * Answers a request on which no decision could be made, or lets it pass by `next()`. Default: throws the error,
     * with a response of status 503.
     */
    readonly onError?: (error: unknown, context: Context, next: Next) => Awaitable<Response | undefined>
  }

const HOST: Host<Args> = {
  name: 'tollgate/hono',
  mark: (property, decision, context) => context.set(property, decision),
}

/**
 * Limits the requests that come through. The decision is `c.get('rateLimit')`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * app.use(rateLimit({ limiter, key: (c) => ipKey(getConnInfo(c).remote.address) }))
 */
export function rateLimit<K, N extends string, P extends string = 'rateLimit'>(
  options: HonoRateLimitOptions<K, N, P>,
): MiddlewareHandler<{ Variables: { [Name in P]?: Decision<N> } }> {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options', 'write rateLimit({ limiter })')
  const gate = new Gate('rateLimit', options, HOST)
  const { handler, onError } = options
  return async (context, next) => {
    const args: Args = [context]
    const outcome = await gate.check(args)
    if (outcome.what === 'fail' && onError === undefined) {
      throw responding(withStatus(outcome.error))
    }
    const answer = async (): Promise<Response | undefined> => {
      if (outcome.what === 'pass') {
        await next()
        return undefined
      }
      if (outcome.what === 'fail') {
        return onError?.(outcome.error, context, next)
      }
      if (outcome.what === 'invalid') {
        return invalidResponse(outcome)
      }
      const decision = outcome.decision as NotAllowed<N>
      return handler === undefined
        ? refusal(await gate.messageFor(decision, args), gate.statusCode)
        : handler(context, next, decision)
    }
    const signalOf = () => context.req.raw.signal
    await follow(gate, outcome, args, signalOf, async () => {
      const given = await answer()
      const response = given ?? context.res
      const written = withFields(gate, outcome, response)
      if (given !== undefined || written !== response) {
        // It replaces what is there; set at once, its fields would be merged with those of the other.
        context.res = undefined
        context.res = written
      }
      return written.status
    })
  }
}

/** Gives an error of the limiter the response that Hono looks for in errors. */
function responding(error: unknown): unknown {
  return error instanceof Error && 'status' in error && !('getResponse' in error)
    ? Object.assign(error, { getResponse: () => new Response('Service Unavailable', { status: 503 }) })
    : error
}
