/** The part of a socket of Node.js that shows whether its client has gone. */
export interface NodeSocket {
  readonly destroyed?: boolean
  readonly writable?: boolean
  readonly remoteAddress?: string | undefined
  readonly localAddress?: string | undefined
  readonly readyState?: unknown
  once?(event: 'close', listener: () => void): unknown
}

/** The part of a stream of `node:http2` that shows whether its client has gone. */
interface Http2Stream {
  readonly rstCode: number
  readonly destroyed: boolean
  readonly closed: boolean
  readonly aborted: boolean
  readonly headersSent: boolean
  readonly writableFinished: boolean
  once(event: 'close', listener: () => void): unknown
}

/** The part of a `node:http` or `node:http2` response that shows whether its client has gone. */
export interface NodeExchange {
  readonly writableEnded?: boolean
  readonly closed?: boolean
  readonly destroyed?: boolean
  /** `null` while earlier responses of a pipelined connection are not sent. */
  readonly socket?: NodeSocket | null
  readonly req?: { readonly socket?: NodeSocket | null }
  /** Of `node:http2` only. */
  readonly stream?: unknown
  once(event: 'finish' | 'close', listener: () => void): unknown
}

/**
 * Whether a value is a response of Node.js. A stub of a service on Cloudflare Workers has each property that is read, as
 * a function.
 */
export function isExchange(value: unknown): value is NodeExchange {
  const { writableEnded, once } = (value ?? {}) as Partial<NodeExchange>
  return typeof writableEnded === 'boolean' && typeof once === 'function'
}

/**
 * Whether a request can no longer get an answer: it was answered, or its client has gone. Over HTTP/2 only the stream
 * of the response is closed. A pipelined response does not show it while it has no socket.
 */
export function isClientGone(response: NodeExchange): boolean {
  const stream = streamOf(response)
  if (stream !== undefined) {
    // The writable side of a HEAD request has ended before its answer.
    return response.writableEnded === true || stream.closed || stream.destroyed
  }
  const socket = response.socket ?? response.req?.socket
  // Node ends the socket of a client that has ended its own side.
  const isClosed = socket?.destroyed || socket?.writable === false || response.closed || response.destroyed
  return response.writableEnded === true || isClosed === true
}

/**
 * Whether a connection was reset although its streams are still open: it no longer has a remote address. A unix socket
 * has no local address either. A socket of HTTP/2 may be closed before its streams, and then has neither.
 */
export function isReset(socket: NodeSocket | null | undefined): boolean {
  return socket?.remoteAddress === undefined && (socket?.localAddress !== undefined || socket?.readyState === 'closed')
}

/** Calls `ended` when a response was sent (`false`) or its client has gone before (`true`), perhaps several times. */
export function onEnd(response: NodeExchange, ended: (aborted: boolean) => void): void {
  const stream = streamOf(response)
  if (stream !== undefined) {
    // The events of the response are the same for both ends, and a HEAD request may have none.
    stream.once('close', () => ended(!stream.headersSent || stream.aborted || !stream.writableFinished))
    return
  }
  response.once('finish', () => ended(false))
  response.once('close', () => ended(true))
  const socket = response.req?.socket
  if (response.socket === null && socket?.once !== undefined) {
    // Without a socket the response emits no event for a client that disconnects.
    const listeners = closeListenersOf(socket)
    const onClose = () => ended(true)
    listeners.add(onClose)
    response.once('close', () => listeners.delete(onClose))
  }
}

/** A signal that is aborted when the client disconnects before it has the response. */
export function closeSignal(response: NodeExchange): AbortSignal {
  const controller = new AbortController()
  if (isClientGone(response)) {
    controller.abort()
  } else {
    // Also called after the whole response, when nothing waits for the signal.
    onEnd(response, () => controller.abort())
  }
  return controller.signal
}

/** A signal that is aborted when the client disconnects, and not by a response that was sent. */
export function disconnectSignal(response: NodeExchange): AbortSignal {
  const controller = new AbortController()
  let isSent = response.writableEnded === true
  if (!isSent && isClientGone(response)) {
    controller.abort()
  } else {
    onEnd(response, (aborted) => {
      isSent ||= !aborted
      if (!isSent) {
        controller.abort()
      }
    })
  }
  return controller.signal
}

/** The signals of connections. All messages of a connection share one signal, and so one listener. */
const signals = new WeakMap<object, AbortSignal>()

/** A signal that is aborted when a connection has gone. `listen` gets the function to call then. */
export function connectionSignal(
  connection: object,
  isGone: boolean,
  listen: (abort: () => void) => unknown,
): AbortSignal {
  const existing = signals.get(connection)
  if (existing !== undefined) {
    return existing
  }
  const controller = new AbortController()
  signals.set(connection, controller.signal)
  if (isGone) {
    controller.abort()
  } else {
    listen(() => controller.abort())
  }
  return controller.signal
}

/** The stream of an exchange over HTTP/2, also of its request. */
export function streamOf({ stream }: Pick<NodeExchange, 'stream'>): Http2Stream | undefined {
  return typeof (stream as Partial<Http2Stream> | undefined)?.rstCode === 'number' ? (stream as Http2Stream) : undefined
}

/** The functions to call when sockets close. All pipelined responses of a socket share one listener. */
const closeListeners = new WeakMap<NodeSocket, Set<() => void>>()

function closeListenersOf(socket: NodeSocket): Set<() => void> {
  const existing = closeListeners.get(socket)
  if (existing !== undefined) {
    return existing
  }
  const listeners = new Set<() => void>()
  closeListeners.set(socket, listeners)
  socket.once?.('close', () => {
    for (const listener of listeners) {
      listener()
    }
  })
  return listeners
}
