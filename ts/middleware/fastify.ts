/**
 * Rate limiting for Fastify 5.
 *
 * @module tollgate/fastify
 */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Decision } from '../api/decision.js'
import { checkCount } from '../input/options.js'
import { attachDecision } from './shared/attach.js'
import { applyOutcome, closeSignal, currentReadBarrier, hasForwardedFor, replyHeaders } from './shared/node-response.js'
import type { Awaitable, KeyOrAddress, NotAllowed, RateLimitOptions } from './shared/options.js'
import { type FrameworkAdapter, RequestLimiter, withStatus } from './shared/request-limiter.js'
import type { OwnResponse } from './shared/responses.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * The decision of `tollgate/fastify`. If you set another `requestProperty`, declare that
     * property yourself.
     */
    rateLimit?: Decision
  }
}

type FastifyArgs = [request: FastifyRequest, reply: FastifyReply]

/** The options of {@link rateLimit}. */
export type FastifyRateLimitOptions<K = string, N extends string = string> = RateLimitOptions<K, N, FastifyArgs> &
  KeyOrAddress<K, FastifyArgs> & {
    /**
     * Answers a refused request, in place of `statusCode` and `message`. If it sends no reply, the
     * request continues.
     */
    readonly handler?: (request: FastifyRequest, reply: FastifyReply, decision: NotAllowed<N>) => Awaitable<unknown>
    /**
     * Called if no decision could be made. If it sends no reply, the request continues. Default:
     * throws the error, with status 503.
     */
    readonly onError?: (error: unknown, request: FastifyRequest, reply: FastifyReply) => Awaitable<unknown>
  }

/** The options of the plugin: those of {@link rateLimit}, for limiters with keys of any type. */
export type FastifyPluginOptions =
  | FastifyRateLimitOptions
  | FastifyRateLimitOptions<{ readonly [part: string]: string }>

/** A hook for `onRequest` or for a later hook before the route's handler. */
export type FastifyRateLimitHook = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

const ADAPTER: FrameworkAdapter<FastifyArgs> = {
  name: 'tollgate/fastify',
  readBarrier: currentReadBarrier,
  addressOf: ({ ip }) => ip,
  // Fastify sets `ips` if it is configured to trust a proxy.
  isProxyUntrusted: (request) => hasForwardedFor(request) && request.ips === undefined,
  signalOf: (_, reply) => closeSignal(reply.raw),
  attach: (property, decision, request) => attachDecision(request, property, decision),
}

/**
 * A hook that limits the requests of single routes: use it as `onRequest`, or as `preHandler` if
 * the key needs the body.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * app.post('/login', { preHandler: rateLimit({ limiter, key: ({ body }) => body.account }) }, login)
 */
export function rateLimit<K, N extends string>(options: FastifyRateLimitOptions<K, N>): FastifyRateLimitHook {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options', 'write rateLimit({ limiter })')
  const requestLimiter = new RequestLimiter('rateLimit', options, ADAPTER)
  const { handler, onError } = options
  return async (request, reply) => {
    const args: FastifyArgs = [request, reply]
    const outcome = await requestLimiter.check(args)
    applyOutcome(requestLimiter, outcome, args, reply.raw, replyHeaders(reply))
    if (outcome.kind === 'fail') {
      if (onError === undefined) {
        throw withStatus(outcome.error)
      }
      await onError(outcome.error, request, reply)
    } else if (outcome.kind === 'refuse') {
      const decision = outcome.decision as NotAllowed<N>
      if (handler !== undefined) {
        await handler(request, reply, decision)
      } else {
        send(reply, await requestLimiter.refusalFor(decision, args))
      }
    } else if (outcome.kind === 'invalid' && !reply.sent) {
      send(reply, outcome.response)
    }
    return reply.sent ? reply : undefined
  }
}

function send(reply: FastifyReply, { status, message, type }: OwnResponse): void {
  const mediaType = typeof message === 'string' ? 'text/plain' : (type ?? 'application/json')
  reply.code(status).type(`${mediaType}; charset=utf-8`).send(message)
}

const plugin: FastifyPluginAsync<FastifyPluginOptions> = async (fastify, options) => {
  const { requestProperty = 'rateLimit' } = options
  const hook = rateLimit(options as FastifyRateLimitOptions)
  if (!fastify.hasRequestDecorator(requestProperty)) {
    // Declared once, so that all requests have the same shape.
    fastify.decorateRequest(requestProperty, undefined)
  }
  fastify.addHook('onRequest', hook)
}

/**
 * Limits all requests of the instance in which it is registered, and of its children.
 *
 * @example
 * await app.register(rateLimit, { limiter: new RateLimiter(gcra({ limit: 100, period: '1m' })) })
 */
export default Object.assign(plugin, {
  // The effect of fastify-plugin: the hook belongs to the instance that registers it.
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'tollgate',
  [Symbol.for('plugin-meta')]: { name: 'tollgate', fastify: '5.x' },
})
