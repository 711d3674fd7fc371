import type { ExecutionContext } from '@nestjs/common'
import { TollgateError } from '../../api/error.js'
import { attachDecision } from '../shared/attach.js'
import { closeSignal, isClientGone, isReset } from '../shared/node-client.js'
import { currentReadBarrier, type FastifyReplyLike, forwardedIn, type NodeResponse } from '../shared/node-response.js'
import type { FrameworkAdapter } from '../shared/request-limiter.js'
import { clientSignal, isDisconnected, requestIn, responseIn } from './contexts.js'
import type { AnyNestOptions, NestArgs } from './options.js'

const OPTIONS = ['requestOf', 'responseOf', 'scope', 'limiters']

/** The decisions on a context that is not HTTP, by the names of their properties. */
const decisions = new WeakMap<ExecutionContext, object>()

/**
 * Attaches the decisions on a context that is not HTTP, in place of those of earlier messages of the socket. Called
 * when the handler is about to run: other messages may be decided meanwhile, and those that are refused change
 * nothing.
 */
export function attachAtLast(context: ExecutionContext, options: AnyNestOptions): void {
  const own = decisions.get(context)
  if (own !== undefined) {
    Object.assign(requestIn(context, options), own)
  }
}

export function adapterFor(options: AnyNestOptions): FrameworkAdapter<NestArgs> {
  const requestOf = (context: ExecutionContext) => requestIn(context, options)
  return {
    name: 'tollgate/nest',
    optionNames: OPTIONS,
    readBarrier: currentReadBarrier,
    checkRequest: (context) => {
      if (context.getType() !== 'http') {
        checkContext(context, options)
      }
    },
    addressOf: (context) => {
      const { ip } = requestOf(context)
      if (ip === undefined && context.getType() !== 'http') {
        const rule = `the request of a ${context.getType()} context has no ip`
        throw new TollgateError('INVALID_KEY', `key cannot be made: ${rule}: give key, which returns its address`)
      }
      return ip
    },
    forwardedOf: (context) => {
      const { app, headers = {}, socket } = requestOf(context)
      return forwardedIn({ headers, socket }, typeof app?.get === 'function' ? app.get('trust proxy') : undefined)
    },
    // A socket has many messages, and an operation many resolvers. Each has a context.
    requestOf: (context) => (context.getType() === 'http' ? requestOf(context) : context),
    isGone: (context) => isGoneFrom(context, options),
    isReset: (context) => context.getType() === 'http' && isReset(requestOf(context).socket),
    signalOf: (context) => {
      const response = responseIn(context, options)
      return response === undefined ? clientSignal(requestOf(context)) : closeSignal(rawOf(response))
    },
    attach: (property, decision, context) => {
      if (context.getType() === 'http') {
        attachDecision(requestOf(context), property, decision)
      } else {
        const own = decisions.get(context) ?? {}
        decisions.set(context, own)
        attachDecision(own, property, decision)
      }
    },
    ...(options.scope === 'handler' && {
      scopedKey: (key: string, context: ExecutionContext) => `${nameOf(context)}:${key}`,
    }),
  }
}

/** Whether the client of a context has gone, or has its answer. */
function isGoneFrom(context: ExecutionContext, options: AnyNestOptions): boolean {
  try {
    const response = responseIn(context, options)
    return response === undefined ? isDisconnected(requestIn(context, options)) : isClientGone(rawOf(response))
  } catch {
    // `checkRequest` reports it.
    return false
  }
}

/** The name of a handler: `UsersController.login`. */
export function nameOf(context: ExecutionContext): string {
  return `${context.getClass().name}.${context.getHandler().name}`
}

/** The `node:http` response of a framework's response. */
export function rawOf(response: NodeResponse | FastifyReplyLike): NodeResponse {
  return 'raw' in response ? response.raw : response
}

function checkContext(context: ExecutionContext, options: AnyNestOptions): void {
  if (options.refundWhen !== undefined) {
    const rule = `refundWhen cannot be given for a ${context.getType()} context, because its end is unknown`
    const advice = 'set it for HTTP routes with @RateLimit({ refundWhen }), or call limiter.refund in the handler'
    throw new TollgateError('INVALID_OPTION', `RateLimit: ${rule}: ${advice}`)
  }
  requestIn(context, options)
  responseIn(context, options)
}
