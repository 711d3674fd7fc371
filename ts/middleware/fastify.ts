/**
 * Rate limiting for Fastify 4 (from 4.10) and 5.
 *
 * @module tollgate/fastify
 */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Decision, NotAllowed } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import { checkCount, invalid } from '../input/options.js'
import { attachDecision } from './shared/attach.js'
import { mergedOptions } from './shared/merged-options.js'
import { closeSignal, isClientGone, isReset, onEnd } from './shared/node-client.js'
import { applyOutcome, currentReadBarrier, forwardedIn, replyHeaders } from './shared/node-response.js'
import type { AnyCost, Awaitable, CostRequired, KeyFunction, KeyOrAddress, RateLimitOptions } from './shared/options.js'
import { type FrameworkAdapter, RequestLimiter } from './shared/request-limiter.js'
import type { OwnResponse } from './shared/responses.js'
import { errorForFramework } from './shared/store-failure.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The decision of `tollgate/fastify`. If you set another `requestProperty`, declare that property yourself. */
    rateLimit?: Decision
  }

  interface FastifyContextConfig {
    /** Options of the route that replace those of the plugin, or `false` for a route without a limit. */
    rateLimit?: FastifyRouteOptions | false
  }
}

type FastifyArgs = [request: FastifyRequest, reply: FastifyReply]

/** The options of {@link rateLimit}. */
export type FastifyRateLimitOptions<K = string, N extends string = string, U = number> = RateLimitOptions<
  K,
  N,
  FastifyArgs,
  never,
  U
> &
  CostRequired<U> &
  KeyOrAddress<K, FastifyArgs> & {
    /** Answers a refused request, in place of `statusCode` and `message`. Without a reply, the request continues. */
    readonly handler?: (request: FastifyRequest, reply: FastifyReply, decision: NotAllowed<N>) => Awaitable<unknown>
    /**
     * Called if no decision could be made. If it sends no reply, the request continues. Default: throws the error; if
     * the store failed, one of status 503, whose `cause` is the failure.
     */
    readonly onError?: (error: unknown, request: FastifyRequest, reply: FastifyReply) => Awaitable<unknown>
  }

/** The options of the plugin: those of {@link rateLimit}, for limiters with keys of any type. */
export type FastifyPluginOptions =
  | FastifyRateLimitOptions<string, string, AnyCost>
  | FastifyRateLimitOptions<{ readonly [part: string]: string }, string, AnyCost>

/** The options of a route, as `config.rateLimit`. Without a `limiter`, the plugin's limiter decides. */
export type FastifyRouteOptions = Partial<
  RateLimitOptions<FastifyKey, string, FastifyArgs, never, AnyCost> &
    Pick<FastifyRateLimitOptions, 'handler' | 'onError'> & {
      /** Makes the key of a request. Default: the plugin's function. */
      readonly key: KeyFunction<FastifyKey, FastifyArgs>
    }
>

/** A key of any limiter. */
export type FastifyKey = string | { readonly [part: string]: string }

/** A hook for `onRequest` or for a later hook before the route's handler. */
export type FastifyRateLimitHook = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

const ADAPTER: FrameworkAdapter<FastifyArgs> = {
  name: 'tollgate/fastify',
  readBarrier: currentReadBarrier,
  addressOf: ({ ip }) => ip,
  forwardedOf: ({ raw }) => forwardedIn(raw),
  isGone: (_, { raw }) => isClientGone(raw),
  isReset: ({ raw }) => isReset(raw.socket),
  signalOf: (_, reply) => closeSignal(reply.raw),
  attach: (property, decision, request) => attachDecision(request, property, decision),
}

/**
 * A hook that limits the requests of single routes: use it as `onRequest`, or as `preHandler` if the key needs the
 * body.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * app.post('/login', { preHandler: rateLimit({ limiter, key: ({ body }) => body.account }) }, login)
 */
export function rateLimit<K, N extends string, U = number>(
  options: FastifyRateLimitOptions<K, N, U>,
): FastifyRateLimitHook {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options', 'write rateLimit({ limiter })')
  const requestLimiter = new RequestLimiter('rateLimit', options, ADAPTER)
  const { handler, onError } = options
  return async (request, reply) => {
    const args: FastifyArgs = [request, reply]
    const outcome = await requestLimiter.check(args)
    applyOutcome(requestLimiter, outcome, args, reply.raw, replyHeaders(reply))
    if (outcome.kind === 'fail') {
      if (onError === undefined) {
        throw errorForFramework(outcome.error)
      }
      await onError(outcome.error, request, reply)
    } else if (outcome.kind === 'refuse') {
      const decision = outcome.decision as NotAllowed<N>
      if (handler !== undefined) {
        await handler(request, reply, decision)
      } else {
        await send(reply, await requestLimiter.refusalFor(decision, args))
      }
    } else if (outcome.kind === 'invalid' && !reply.sent) {
      await send(reply, outcome.response)
    }
    if (outcome.kind !== 'pass' && !reply.sent && (outcome.kind === 'gone' || isClientGone(reply.raw))) {
      // Fastify does not count a reply to a client that has gone as sent, and would run the route.
      reply.hijack()
    }
    return reply.sent ? reply : undefined
  }
}

/** Sends a response. Resolves when it was sent, perhaps after hooks that take time, or when the client has gone. */
async function send(reply: FastifyReply, { status, message, type }: OwnResponse): Promise<void> {
  const mediaType = typeof message === 'string' ? 'text/plain' : (type ?? 'application/json')
  reply.code(status).type(`${mediaType}; charset=utf-8`).send(message)
  if (!isClientGone(reply.raw)) {
    await new Promise<boolean>((resolve) => onEnd(reply.raw, resolve))
  }
}

const plugin: FastifyPluginAsync<FastifyPluginOptions> = async (fastify, options) => {
  const { requestProperty = 'rateLimit' } = options
  const common = rateLimit(options as FastifyRateLimitOptions)
  /** The hooks of routes with their own options, by these options. */
  const hooks = new WeakMap<object, FastifyRateLimitHook>()
  const hookFor = (own: FastifyRouteOptions, route: string): FastifyRateLimitHook => {
    const hook = hooks.get(own) ?? routeHook(options as FastifyRateLimitOptions, own, route)
    hooks.set(own, hook)
    return hook
  }
  if (!fastify.hasRequestDecorator(requestProperty)) {
    // Declared once, so that all requests have the same shape.
    fastify.decorateRequest(requestProperty, undefined)
  }
  // Options of routes that are registered from now on are checked at once.
  fastify.addHook('onRoute', ({ config, method, url }) => {
    const own = config?.rateLimit
    if (own !== undefined && own !== false) {
      hookFor(own, `${[method].flat().join(', ')} ${url}`)
    }
  })
  fastify.addHook('onRequest', async (request, reply) => {
    // A request to an unknown route has no configuration.
    const own = request.routeOptions.config?.rateLimit
    return own === false ? undefined : (own === undefined ? common : hookFor(own, request.url))(request, reply)
  })
}

/** The hook of a route with its own options. `route` is its method and path, for messages. */
function routeHook(common: FastifyRateLimitOptions, own: FastifyRouteOptions, route: string): FastifyRateLimitHook {
  if (typeof own !== 'object' || own === null) {
    throw invalid('INVALID_OPTION', `${route}: config.rateLimit`, 'must be an object of options, or false', own)
  }
  try {
    return rateLimit(mergedOptions(common, own as Partial<FastifyRateLimitOptions>))
  } catch (error) {
    const { message } = error as Error
    throw new TollgateError('INVALID_OPTION', `${route}: config.${message}`, { cause: error })
  }
}

/**
 * Limits all requests of the instance in which it is registered, and of its children. A route may replace options, or
 * have no limit, with `config: { rateLimit: … }`.
 *
 * @example
 * await app.register(rateLimit, { limiter: new RateLimiter(gcra({ limit: 100, period: '1m' })) })
 */
export default Object.assign(plugin, {
  // As fastify-plugin does: the hook belongs to the instance that registers it.
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'tollgate',
  [Symbol.for('plugin-meta')]: { name: 'tollgate', fastify: '^4.10.0 || 5.x' },
})
