/**
 * Rate limiting for Socket.IO 4: of connections and of events.
 *
 * @module tollgate/socket.io
 */
import type { NotAllowed } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import { checkCount } from '../input/options.js'
import { attachDecision } from './shared/attach.js'
import { connectionSignal, isReset } from './shared/node-client.js'
import type { Awaitable, CostRequired, KeyOrAddress, RateLimitOptions } from './shared/options.js'
import { type FrameworkAdapter, RequestLimiter, type RequestOutcome } from './shared/request-limiter.js'
import { CLIENT_GONE, messageText, UNAVAILABLE } from './shared/responses.js'
import { isStoreFailure } from './shared/store-failure.js'
import { checkAbsent } from './shared/without-http.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

/** The part of a socket on the server that the functions use. */
export interface SocketLike {
  readonly handshake: {
    readonly address: string
    readonly headers: { readonly [name: string]: unknown }
    readonly auth: { readonly [name: string]: unknown }
  }
  /** The decision is a property of it. */
  readonly data: object
  readonly conn: SocketConnection
  /** Whether the socket has disconnected, although others may use its connection. */
  readonly disconnected?: boolean
  /** Calls a function for each event of the client. */
  use(limit: (event: SocketEvent, next: (error?: Error) => void) => void): unknown
}

/** The connection of a socket. */
export interface SocketConnection {
  readonly readyState: string
  /** The request that opened the connection. */
  readonly request?: { readonly socket?: object | null }
  /** Calls a function when the connection is closed. */
  once(event: 'close', listener: () => void): unknown
}

/** An event of a client: its name, its values and, last, the function that acknowledges it. */
export type SocketEvent = [name: string, ...values: unknown[]]

/** The options of both functions, for the arguments `A` of users' functions. */
export type SocketOptions<K, N extends string, A extends readonly unknown[], U = number> = Omit<
  RateLimitOptions<K, N, A, never, U>,
  'headers' | 'problemDetails' | 'refundWhen'
> &
  CostRequired<U> &
  KeyOrAddress<K, A> & {
    /**
     * Called if no decision could be made. Throws, or returns nothing to let the connection or the event pass. Default:
     * it fails with status 503 if the store failed; otherwise with status 500, or with the error that a function has
     * thrown.
     */
    readonly onError?: (error: unknown, ...args: A) => Awaitable<void>
  }

/** The options of {@link limitConnections}. */
export type ConnectionLimitOptions<
  K = string,
  N extends string = string,
  S extends SocketLike = SocketLike,
  U = number,
> = SocketOptions<K, N, [socket: S], U>

/** The options of {@link limitEvents}. The arguments of its functions are the socket and the event. */
export type EventLimitOptions<
  K = string,
  N extends string = string,
  S extends SocketLike = SocketLike,
  U = number,
> = SocketOptions<K, N, [socket: S, event: SocketEvent], U> & {
  /** Answers a refused event, in place of the error and the acknowledgement. */
  readonly handler?: (socket: S, event: SocketEvent, decision: NotAllowed<N>) => Awaitable<void>
}

/** The `data` of an error, and the acknowledgement of a refused event that expects one. */
export interface SocketRefusal {
  /** As of HTTP: 429, 400, 413, 503 or 500. */
  readonly status: number
  /** The message of the refusal. */
  readonly message: unknown
  /** As in the decision; `undefined` without a decision. */
  readonly retryAfterMs?: number | null
}

/** The options that have no effect here. */
const ABSENT = ['headers', 'problemDetails', 'refundWhen', 'handler'] as const

const CONNECTIONS: FrameworkAdapter<[socket: SocketLike]> = {
  name: 'tollgate/socket.io',
  addressOf: ({ handshake }) => handshake.address,
  // The address of a handshake is the address of the nearest proxy.
  forwardedOf: ({ handshake }) => ({ forwardedFor: handshake.headers['x-forwarded-for'], peer: handshake.address }),
  isGone: ({ conn }) => conn.readyState === 'closing' || conn.readyState === 'closed',
  isReset: ({ conn }) => isReset(conn.request?.socket),
  signalOf: (socket) => {
    const { conn } = socket
    return connectionSignal(socket, conn.readyState === 'closed', (abort) => conn.once('close', abort))
  },
  attach: (property, decision, { data }) => attachDecision(data, property, decision),
}

const EVENTS: FrameworkAdapter<[socket: SocketLike, event: SocketEvent]> = {
  ...CONNECTIONS,
  requestOf: (_, event) => event,
  isGone: (socket) => socket.disconnected === true || CONNECTIONS.isGone(socket),
  // In place of the decision of the event before.
  attach: (property, decision, { data }) => void Object.assign(data, { [property]: decision }),
}

/**
 * Limits connections, by the client's address unless there is a `key`. A refused client gets `connect_error` with
 * {@link SocketRefusal} as `error.data`. The decision is `socket.data.rateLimit`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * io.use(limitConnections({ limiter }))
 */
export function limitConnections<K, N extends string, S extends SocketLike = SocketLike, U = number>(
  options: ConnectionLimitOptions<K, N, S, U>,
): (socket: S, next: (error?: Error) => void) => void {
  checkCount(arguments.length, 1, 'limitConnections takes an object of options', 'write limitConnections({ limiter })')
  const requestLimiter = limiterOf('limitConnections', options, ABSENT, CONNECTIONS)
  return (socket, next) => {
    const args: [S] = [socket]
    const check = async () => {
      const outcome = await requestLimiter.check(args)
      const refusal = await refusalOf(requestLimiter, outcome, args, options.onError)
      next(refusal && errorOf(refusal))
    }
    // The client gets the message of the error.
    check().catch((error) => next(TollgateError.is(error) ? errorOf(PROGRAM_ERROR) : error))
  }
}

/**
 * Limits the events that clients send, by their address unless there is a `key`. A refused event does not reach its
 * listeners. If it expects an acknowledgement, that is {@link SocketRefusal}; otherwise the socket emits `error` on the
 * server, with it as `error.data`. The decision on the latest event is `socket.data.rateLimit`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * io.on('connection', limitEvents({ limiter }))
 */
export function limitEvents<K, N extends string, S extends SocketLike = SocketLike, U = number>(
  options: EventLimitOptions<K, N, S, U>,
): (socket: S) => void {
  checkCount(arguments.length, 1, 'limitEvents takes an object of options', 'write limitEvents({ limiter })')
  const requestLimiter = limiterOf('limitEvents', options, ABSENT.slice(0, -1), EVENTS)
  const { handler, onError } = options
  return (socket) => {
    socket.use((event, next) => {
      const args: [S, SocketEvent] = [socket, event]
      const check = async () => {
        const outcome = await requestLimiter.check(args)
        if (outcome.kind === 'gone') {
          return
        }
        if (outcome.kind === 'refuse' && handler !== undefined) {
          return handler(socket, event, outcome.decision as NotAllowed<N>)
        }
        const refusal = await refusalOf(requestLimiter, outcome, args, onError)
        if (refusal === undefined) {
          next()
        } else if (!acknowledge(event, refusal)) {
          next(errorOf(refusal))
        }
      }
      check().catch((error) => {
        acknowledge(event, PROGRAM_ERROR)
        // The socket emits it on the server.
        next(error)
      })
    })
  }
}

function limiterOf<A extends readonly unknown[]>(
  where: string,
  options: unknown,
  absent: readonly string[],
  adapter: FrameworkAdapter<A>,
): RequestLimiter<A> {
  checkAbsent(where, options, absent, 'messages of Socket.IO are no HTTP responses')
  return new RequestLimiter(where, options, adapter)
}

/** The refusal of a connection or an event; `undefined` if it passes. */
async function refusalOf<A extends readonly unknown[]>(
  requestLimiter: RequestLimiter<A>,
  outcome: RequestOutcome,
  args: A,
  onError: ((error: unknown, ...args: A) => Awaitable<void>) | undefined,
): Promise<SocketRefusal | undefined> {
  switch (outcome.kind) {
    case 'pass':
      return undefined
    case 'gone':
      return CLIENT_GONE
    case 'invalid':
      return { status: outcome.response.status, message: outcome.response.message }
    case 'fail':
      if (onError !== undefined) {
        await onError(outcome.error, ...args)
        return undefined
      }
      if (!isStoreFailure(outcome.error)) {
        throw outcome.error
      }
      return UNAVAILABLE
    case 'refuse': {
      const { message, status } = await requestLimiter.refusalFor(outcome.decision, args)
      return { status, message, retryAfterMs: outcome.decision.retryAfterMs }
    }
  }
}

/** The answer to a client for an error of the program. */
const PROGRAM_ERROR: SocketRefusal = { status: 500, message: 'Internal Server Error' }

/** Answers an event, and returns whether it expects an answer. Without one its client would wait. */
function acknowledge(event: SocketEvent, answer: SocketRefusal): boolean {
  const respond: unknown = event.at(-1)
  if (typeof respond !== 'function') {
    return false
  }
  respond(answer)
  return true
}

function errorOf(data: SocketRefusal): Error {
  return Object.assign(new Error(messageText(data.message)), { data })
}
