import {
  closeSignal,
  connectionSignal,
  isClientGone,
  isExchange,
  type NodeExchange,
  type NodeSocket,
  streamOf,
} from '../shared/node-client.js'

/** What shows that the client of an operation has gone. */
type OperationClient =
  | { readonly exchange: NodeExchange }
  /** The connection of a request over HTTP/1 whose response is unknown. */
  | { readonly socket: NodeSocket }
  | { readonly signal: AbortSignal }

/** A request of Node.js, of Express or Fastify, or a Web request. */
interface AnyRequest {
  /** Of Express. */
  readonly res?: unknown
  /** Of Fastify: the request of Node.js. */
  readonly raw?: AnyRequest
  /** Of HTTP/2. */
  readonly stream?: unknown
  readonly socket?: NodeSocket | null
  readonly signal?: AbortSignal
}

/** The members of contexts that servers and their users give operations. */
interface ServerContext {
  readonly res?: unknown
  readonly response?: unknown
  readonly reply?: { readonly raw?: unknown } | null
  /** Of `@hono/node-server`. */
  readonly outgoing?: unknown
  readonly req?: AnyRequest | null
  readonly request?: AnyRequest | null
  /** Of Koa. */
  readonly ctx?: unknown
}

/** Finds the client of an operation in its context; `undefined` if the context does not show it. */
export function clientIn(context: unknown): OperationClient | undefined {
  const { ctx } = (context ?? {}) as ServerContext
  return clientAmong(context) ?? clientAmong(ctx)
}

function clientAmong(members: unknown): OperationClient | undefined {
  const { res, response, reply, outgoing, req, request } = (members ?? {}) as ServerContext
  const exchange = [res, response, reply?.raw, outgoing, req?.res, request?.res].find(isExchange)
  return exchange === undefined ? (clientOf(req) ?? clientOf(request)) : { exchange }
}

function clientOf(request: AnyRequest | null | undefined): OperationClient | undefined {
  const { stream, socket, signal } = request?.raw ?? request ?? {}
  if (streamOf({ stream }) !== undefined) {
    return { exchange: { stream, once: () => {} } }
  }
  if (typeof socket?.once === 'function') {
    return { socket }
  }
  return typeof signal?.aborted === 'boolean' ? { signal } : undefined
}

export function isOperationGone(client: OperationClient | undefined): boolean {
  if (client === undefined) {
    return false
  }
  if ('exchange' in client) {
    return isClientGone(client.exchange)
  }
  return 'signal' in client ? client.signal.aborted : isEnded(client.socket)
}

/** A signal that is aborted when the client disconnects; never, if it is unknown. */
export function operationSignal(client: OperationClient | undefined): AbortSignal {
  if (client === undefined) {
    return new AbortController().signal
  }
  if ('exchange' in client) {
    return closeSignal(client.exchange)
  }
  if ('signal' in client) {
    return client.signal
  }
  const { socket } = client
  return connectionSignal(socket, isEnded(socket), (abort) => socket.once?.('close', abort))
}

/** Whether a connection can carry no more answers. Node ends the socket of a client that has ended its own side. */
function isEnded({ destroyed, writable }: NodeSocket): boolean {
  return destroyed === true || writable === false
}
