/** A server and a client of the SDK, without the SDK. */

import { MemoryStore, type Policies, type Policy, RateLimiter } from '../../ts/index.js'
import { limitTools } from '../../ts/mcp/index.js'
import { TestClock } from '../../ts/testing/index.js'
import { anything } from '../failure.js'

type Handler = (request: object, context: object) => unknown

/** The methods of `Server` that are used. */
export class FakeServer {
  fallbackRequestHandler: Handler | undefined = undefined
  readonly #handlers = new Map<string, Handler>()

  setRequestHandler(method: string, handler: Handler): void {
    this.#handlers.set(method, handler)
  }

  assertCanSetRequestHandler(method: string): void {
    if (this.#handlers.has(method)) {
      throw new Error(`A request handler for ${method} already exists`)
    }
  }

  async call(method: string, params: object, context: object): Promise<unknown> {
    return (this.#handlers.get(method) ?? this.fallbackRequestHandler)?.({ method, params }, context)
  }
}

export interface Result {
  readonly content: readonly { readonly text: string }[]
  readonly isError?: boolean
  readonly _meta?: { readonly 'tollgate/refusal': { readonly status: string; readonly retryAfterMs: number | null } }
}

export const answer = (text = 'ran'): Result => ({ content: [{ text }] })

/** The context of a call by a user. */
export function contextOf(user?: string, signal: AbortSignal = new AbortController().signal) {
  const authInfo = { clientId: 'agent', scopes: [], extra: { sub: user } }
  return { mcpReq: { signal, id: 1 }, ...(user !== undefined && { http: { authInfo } }) }
}

/** A limiter, and a server that it limits, whose only tool is `run`. */
export function setUp(
  policies: Policy | Policies | object,
  run: (params: { readonly name: string }, context: object) => unknown = () => answer(),
  options: { readonly [name: string]: unknown } = {},
) {
  const clock = new TestClock()
  const isLimiter = 'peek' in policies
  const limiter = isLimiter ? policies : new RateLimiter(anything(policies), { store: new MemoryStore({ clock }) })
  const server = new FakeServer()
  limitTools(anything({ limiter, ...options }))({ server })
  server.setRequestHandler(
    'tools/call',
    anything(({ params }: { params: { name: string } }, context: object) => run(params, context)),
  )
  const call = (context: object = contextOf('ann'), name = 'search', args: object = {}) =>
    server.call('tools/call', { name, arguments: args }, context) as Promise<Result>
  return { clock, server, call, limiter: limiter as RateLimiter<Policy> }
}

export const statusOf = (result: Result) => result._meta?.['tollgate/refusal'].status ?? 'ran'
