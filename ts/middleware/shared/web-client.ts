import {
  closeSignal,
  disconnectSignal,
  isClientGone,
  isExchange,
  isReset,
  type NodeExchange,
  type NodeSocket,
} from './node-client.js'

/** The exchange of Node.js behind a Web request. `@hono/node-server` passes it with the request, as `env`. */
interface NodeBindings {
  readonly incoming?: { readonly socket?: NodeSocket | null }
  readonly outgoing: NodeExchange
}

/**
 * Whether a Web request can no longer get an answer. With the exchange of Node.js its signal is not read: it is not
 * aborted if the connection of a pipelined request is reset, and reading it creates a whole `Request`.
 */
export function isWebClientGone(request: Request, env: unknown): boolean {
  const bindings = bindingsIn(env)
  return bindings === undefined ? request.signal?.aborted === true : isClientGone(bindings.outgoing)
}

/** Whether the connection of a Web request was reset, although {@link isWebClientGone} is still false. */
export function isWebClientReset(env: unknown): boolean {
  return isReset(bindingsIn(env)?.incoming?.socket)
}

/** A signal that is aborted when a Web request can no longer get an answer. */
export function webCloseSignal(request: Request, env: unknown): AbortSignal {
  const bindings = bindingsIn(env)
  return bindings === undefined ? request.signal : closeSignal(bindings.outgoing)
}

/** A signal that is aborted when the client of a Web request disconnects before it has the response. */
export function webDisconnectSignal(request: Request, env: unknown): AbortSignal | undefined {
  const bindings = bindingsIn(env)
  return bindings === undefined ? request.signal : disconnectSignal(bindings.outgoing)
}

function bindingsIn(env: unknown): NodeBindings | undefined {
  const { outgoing, server } = (env ?? {}) as { readonly outgoing?: unknown; readonly server?: Partial<NodeBindings> }
  if (isExchange(outgoing)) {
    return env as NodeBindings
  }
  // Where the development server of Vite passes it.
  return isExchange(server?.outgoing) ? (server as NodeBindings) : undefined
}
