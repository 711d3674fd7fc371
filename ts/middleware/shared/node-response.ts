import type { Decision } from '../../api/decision.js'
import { timers } from '../../platform/timers.js'
import type { ForwardedRequest } from './forwarded.js'
import { isClientGone, type NodeExchange, type NodeSocket, onEnd } from './node-client.js'
import type { RequestLimiter, RequestOutcome } from './request-limiter.js'

export interface NodeHeaders {
  getHeader(name: string): unknown
  setHeader(name: string, value: string | readonly string[]): unknown
}

/** The part of a `node:http` or `node:http2` response that middlewares use. */
export interface NodeResponse extends NodeHeaders, NodeExchange {
  readonly statusCode: number
  readonly headersSent: boolean
}

/** The part of a `node:http` or `node:http2` request that middlewares use. */
export interface NodeRequest {
  readonly headers: { readonly [name: string]: unknown }
  readonly socket?: (NodeSocket & { readonly remoteAddress?: string | undefined }) | null | undefined
}

/** The parts of a request by which {@link ForwardedRequest} is checked, with the framework's setting. */
export function forwardedIn({ headers, socket }: NodeRequest, trusted?: unknown): Omit<ForwardedRequest, 'client'> {
  return { forwardedFor: headers['x-forwarded-for'], peer: socket?.remoteAddress, trusted }
}

/** The part of a Fastify reply that middlewares use. Fastify keeps the headers itself until it sends them. */
export interface FastifyReplyLike {
  readonly raw: NodeResponse
  getHeader(name: string): unknown
  header(name: string, value: string | readonly string[]): unknown
}

export function replyHeaders(reply: FastifyReplyLike): NodeHeaders {
  return {
    getHeader: (name) => reply.getHeader(name),
    setHeader: (name, value) => reply.header(name, value),
  }
}

let readBarrier: Promise<void> | undefined

/**
 * Resolves when the event loop has read all input that had arrived. All requests of one tick share the promise.
 *
 * Requests that were read together continue together, and their responses are sent together. Both sides then wake up
 * less often, and an app under load serves more requests than with a limiter that answers each request as it is read.
 * And a client that has disconnected right after its request is known to be gone before the decision.
 */
export function currentReadBarrier(): Promise<void> {
  readBarrier ??= new Promise((resolve) => {
    timers.setImmediate(() => {
      readBarrier = undefined
      resolve()
    })
  })
  return readBarrier
}

/** Writes the headers of an outcome, and schedules the refund of `refundWhen` at the end of the response. */
export function applyOutcome<A extends readonly unknown[]>(
  requestLimiter: RequestLimiter<A>,
  outcome: RequestOutcome,
  args: A,
  response: NodeResponse,
  headers: NodeHeaders = response,
): void {
  if (!response.headersSent) {
    requestLimiter.write(outcome, (name, value, isList) => {
      const present = isList ? headers.getHeader(name) : undefined
      headers.setHeader(name, present === undefined ? value : `${present}, ${value}`)
    })
  }
  if (outcome.kind === 'pass' && outcome.decision !== undefined && requestLimiter.mayRefund) {
    refundAfter(requestLimiter, outcome.decision, args, response)
  }
}

function refundAfter<A extends readonly unknown[]>(
  requestLimiter: RequestLimiter<A>,
  decision: Decision,
  args: A,
  response: NodeResponse,
): void {
  let isEnded = false
  const end = (aborted: boolean) => {
    if (!isEnded) {
      isEnded = true
      const { headersSent, statusCode } = response
      void requestLimiter.refundAtEnd(decision, args, aborted, aborted && !headersSent ? undefined : statusCode)
    }
  }
  if (isClientGone(response)) {
    // Only in shadow mode. The response may emit no more events.
    end(!response.writableEnded)
  } else {
    onEnd(response, end)
  }
}
