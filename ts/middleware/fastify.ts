/**
 * Rate limiting for Fastify 5.
 *
 * @module tollgate/fastify
 */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Decision } from '../api/decision.js'
import { checkCount } from '../input/options.js'
import { follow, headersOf, isForwarded, readTogether } from './shared/node-response.js'
import type { Awaitable, KeyOrAddress, Message, NotAllowed, RateLimitOptions } from './shared/options.js'
import { Gate, type Host, withStatus } from './shared/request-limiter.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The decision of `tollgate/fastify`; of another property's name, say so in a declaration of your own. */
    rateLimit?: Decision
  }
}

type Args = [request: FastifyRequest, reply: FastifyReply]

/** The options of {@link rateLimit}. */
export type FastifyRateLimitOptions<K = string, N extends string = string> = RateLimitOptions<K, N, Args> &
  KeyOrAddress<K, Args> & {
    /** Answers a refused request, in place of `statusCode` and `message`. One that is not answered goes on. */
    readonly handler?: (request: FastifyRequest, reply: FastifyReply, decision: NotAllowed<N>) => Awaitable<unknown>
    /**
     * Answers a request on which no decision could be made; one that is not answered goes on. Default: throws the
     * error, with a status of 503.
     */
    readonly onError?: (error: unknown, request: FastifyRequest, reply: FastifyReply) => Awaitable<unknown>
  }

/** The options of the plugin: those of {@link rateLimit}, for limiters of any keys. */
export type FastifyPluginOptions =
  | FastifyRateLimitOptions
  | FastifyRateLimitOptions<{ readonly [part: string]: string }>

/** A hook for `onRequest` or another of the hooks before a route's handler. */
export type FastifyRateLimitHook = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

const HOST: Host<Args> = {
  name: 'tollgate/fastify',
  goesOn: readTogether,
  addressOf: ({ ip }) => ip,
  // Fastify lists the proxies if it was told to trust any.
  isProxyUntrusted: (request) => isForwarded(request) && request.ips === undefined,
  mark: (property, decision, request) => {
    ;(request as unknown as Record<string, unknown>)[property] = decision
  },
}

/**
 * A hook that limits requests, for single routes: as `onRequest`, or as `preHandler` if the key needs the body.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * app.post('/login', { preHandler: rateLimit({ limiter, key: ({ body }) => body.account }) }, login)
 */
export function rateLimit<K, N extends string>(options: FastifyRateLimitOptions<K, N>): FastifyRateLimitHook {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options', 'write rateLimit({ limiter })')
  const gate = new Gate('rateLimit', options, HOST)
  const { handler, onError } = options
  return async (request, reply) => {
    const args: Args = [request, reply]
    const outcome = await gate.check(args)
    follow(gate, outcome, args, reply.raw, headersOf(reply))
    if (outcome.what === 'fail') {
      if (onError === undefined) {
        throw withStatus(outcome.error)
      }
      await onError(outcome.error, request, reply)
    } else if (outcome.what === 'refuse') {
      const decision = outcome.decision as NotAllowed<N>
      if (handler !== undefined) {
        await handler(request, reply, decision)
      } else {
        send(reply, gate.statusCode, await gate.messageFor(decision, args))
      }
    } else if (outcome.what === 'invalid' && !reply.sent) {
      send(reply, outcome.status, outcome.message)
    }
    return reply.sent ? reply : undefined
  }
}

function send(reply: FastifyReply, status: number, message: Message): void {
  const type = typeof message === 'string' ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8'
  reply.code(status).type(type).send(message)
}

const plugin: FastifyPluginAsync<FastifyPluginOptions> = async (fastify, options) => {
  const { requestProperty = 'rateLimit' } = options
  const hook = rateLimit(options as FastifyRateLimitOptions)
  if (!fastify.hasRequestDecorator(requestProperty)) {
    // Declared once, so that all requests have one shape.
    fastify.decorateRequest(requestProperty, undefined)
  }
  fastify.addHook('onRequest', hook)
}

/**
 * Limits all requests of the instance that it is registered in, and of its children.
 *
 * @example
 * await app.register(rateLimit, { limiter: new RateLimiter(gcra({ limit: 100, period: '1m' })) })
 */
export default Object.assign(plugin, {
  // What fastify-plugin does: the hook is the registering instance's own.
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'tollgate',
  [Symbol.for('plugin-meta')]: { name: 'tollgate', fastify: '5.x' },
})
