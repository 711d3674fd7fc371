import type { Decision } from '../../api/decision.js'
import { timers } from '../../platform/timers.js'
import type { Gate, Outcome } from './request-limiter.js'

/** Where the fields of a response are kept. */
export interface NodeHeaders {
  getHeader(name: string): unknown
  setHeader(name: string, value: string): unknown
}

/** What is used of a response of `node:http` or `node:http2`. */
export interface NodeResponse extends NodeHeaders {
  readonly statusCode: number
  readonly headersSent: boolean
  readonly closed?: boolean
  readonly destroyed?: boolean
  once(event: 'finish' | 'close', listener: () => void): unknown
}

/** What is used of a request of `node:http` or `node:http2`. */
export interface NodeRequest {
  readonly headers: { readonly [name: string]: unknown }
}

/** Whether somebody on a request's way, or the client itself, names addresses. */
export function isForwarded({ headers }: NodeRequest): boolean {
  return headers['x-forwarded-for'] !== undefined
}

/** What is used of a reply of Fastify, which keeps the fields itself until it sends. */
export interface NodeReply {
  readonly raw: NodeResponse
  getHeader(name: string): unknown
  header(name: string, value: string): unknown
}

/** The fields of a reply. */
export function headersOf(reply: NodeReply): NodeHeaders {
  return {
    getHeader: (name) => reply.getHeader(name),
    setHeader: (name, value) => reply.header(name, value),
  }
}

let readEnd: Promise<void> | undefined

/**
 * Resolves when the event loop has read what had arrived: for all requests of one turn at once.
 *
 * Requests that were read together then go on together, and their responses leave together: fewer wake-ups on
 * either side, and an app under load serves more requests for it than with a limiter that answers each as it is
 * read. With nothing else to read it is over at once.
 */
export function readTogether(): Promise<void> {
  readEnd ??= new Promise((resolve) => {
    timers.setImmediate(() => {
      readEnd = undefined
      resolve()
    })
  })
  return readEnd
}

/**
 * Writes the fields of an outcome, and sees to it that units come back when the response has ended, as
 * `refundWhen` says.
 */
export function follow<A extends readonly unknown[]>(
  gate: Gate<A>,
  outcome: Outcome,
  args: A,
  response: NodeResponse,
  headers: NodeHeaders = response,
): void {
  if (!response.headersSent) {
    gate.write(outcome, (name, value, isList) => {
      const there = isList ? headers.getHeader(name) : undefined
      headers.setHeader(name, there === undefined ? value : `${there}, ${value}`)
    })
  }
  if (outcome.what === 'pass' && outcome.decision !== undefined && gate.refunds) {
    refundAfter(gate, outcome.decision, args, response)
  }
}

function refundAfter<A extends readonly unknown[]>(
  gate: Gate<A>,
  decision: Decision,
  args: A,
  response: NodeResponse,
): void {
  let isSettled = false
  const settle = (aborted: boolean) => {
    if (!isSettled) {
      isSettled = true
      void gate.settle(decision, { status: response.statusCode, aborted }, args)
    }
  }
  if (response.closed || response.destroyed) {
    // The client left while the decision was made: the events are over.
    settle(true)
  } else {
    response.once('finish', () => settle(false))
    response.once('close', () => settle(true))
  }
}
