import type { ExecutionContext } from '@nestjs/common'
import { TollgateError } from '../../api/error.js'
import { invalid } from '../../input/options.js'
import { connectionSignal, type NodeSocket } from '../shared/node-client.js'
import type { FastifyReplyLike, NodeRequest, NodeResponse } from '../shared/node-response.js'
import type { NestContextOptions } from './options.js'

/** The part of a connection that shows whether its client has gone. */
interface ClientConnection extends NodeSocket {
  /** Of a socket of Socket.IO, which has another event. */
  readonly disconnected?: boolean
  /** Of a WebSocket a number; of a socket of Node.js a text. */
  readonly readyState?: unknown
  once?(event: string, listener: () => void): unknown
}

/** The part of a request or of a client that the guard uses: of Express, Fastify or a socket. */
export interface NestRequest extends Partial<Pick<NodeRequest, 'headers'>>, ClientConnection {
  readonly ip?: string
  readonly app?: { get(setting: string): unknown }
  readonly socket?: (ClientConnection & { readonly remoteAddress?: string | undefined }) | null
}

/** The state of a WebSocket that is closing. */
const CLOSING = 2

export function requestIn(context: ExecutionContext, { requestOf }: NestContextOptions): NestRequest {
  const type = context.getType<string>()
  if (type === 'http') {
    return context.switchToHttp().getRequest<NestRequest>()
  }
  if (requestOf === undefined) {
    const advice = 'give requestOf, which returns its request, or exempt it with skip or @RateLimit(false)'
    throw new TollgateError('INVALID_OPTION', `RateLimit: requestOf is missing for a ${type} context: ${advice}`)
  }
  const request: unknown = requestOf(context)
  if (!isObject(request)) {
    throw invalid('INVALID_OPTION', 'RateLimit: requestOf', `must return the request of a ${type} context`, request)
  }
  return request
}

/** The response of a context; `undefined` if the guard writes no headers there. */
export function responseIn(
  context: ExecutionContext,
  { responseOf }: NestContextOptions,
): NodeResponse | FastifyReplyLike | undefined {
  if (context.getType() === 'http') {
    return context.switchToHttp().getResponse()
  }
  const response: unknown = responseOf?.(context)
  if (response === undefined || (isObject(response) && ('raw' in response || 'setHeader' in response))) {
    return response as NodeResponse | FastifyReplyLike | undefined
  }
  const rule = 'must return a response of Express, a reply of Fastify, or undefined'
  throw invalid('INVALID_OPTION', 'RateLimit: responseOf', rule, response)
}

/** Whether the client of a request has disconnected; `false` if its connection is unknown. */
export function isDisconnected(request: NestRequest): boolean {
  const { disconnected, destroyed, readyState } = request.socket ?? request
  return disconnected === true || destroyed === true || (typeof readyState === 'number' && readyState >= CLOSING)
}

/** A signal that is aborted when a client disconnects; never, if its connection is unknown. */
export function clientSignal(request: NestRequest): AbortSignal {
  const connection = request.socket ?? request
  const event = connection.disconnected === undefined ? 'close' : 'disconnect'
  return connectionSignal(connection, isDisconnected(request), (abort) => connection.once?.(event, abort))
}

/** Whether a value is an object, and not a promise of one, which is a mistake here. */
function isObject(value: unknown): value is NestRequest {
  return typeof value === 'object' && value !== null && !('then' in value)
}
