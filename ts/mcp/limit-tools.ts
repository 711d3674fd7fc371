import { TollgateError } from '../api/error.js'
import { checkCount, invalid } from '../input/options.js'
import { type Handler, HandlerLimiter } from './handler-limiter.js'
import type { ProtocolServer, ToolLimitOptions, ToolServer } from './options.js'

const METHOD = 'tools/call'

interface LimitedServer {
  setRequestHandler: (...args: unknown[]) => unknown
  assertCanSetRequestHandler(method: string): void
  fallbackRequestHandler?: Handler | undefined
}

/** The limits of a server, in the order in which they decide. */
const LIMITERS = new WeakMap<object, HandlerLimiter[]>()

/**
 * Returns a function that limits the tools of a server, and returns the server: all tools, also those that are
 * registered later. Call it once, and its function for each server: a stateless server makes one for each request.
 *
 * A refused call does not run its tool. Its result has `isError: true`, a text that tells the model when to call again,
 * and `_meta['tollgate/refusal']` with the time in milliseconds.
 *
 * A function may be applied to a server on which others were: their limits decide in this order. It throws
 * `INVALID_OPTION` for a server that has a tool, or a handler for its calls, already: that would not be limited.
 *
 * See `docs/mcp.md#a-server`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const limited = limitTools({ limiter: new RateLimiter(gcra({ limit: 60, period: '1m' })) })
 * const server = limited(new McpServer({ name: 'search', version: '1.0.0' }))
 */
export function limitTools<K, N extends string, U = number>(
  options: ToolLimitOptions<K, N, U>,
): <S extends ToolServer>(server: S) => S {
  checkCount(arguments.length, 1, 'limitTools takes an object of options', 'write limitTools({ limiter })(server)')
  const limiter = new HandlerLimiter(options)
  return (server) => {
    limitServer(protocolOf(server), limiter)
    return server
  }
}

function protocolOf(value: unknown): LimitedServer {
  const { server = value } = (value ?? {}) as { readonly server?: unknown }
  const { setRequestHandler, assertCanSetRequestHandler } = (server ?? {}) as Partial<ProtocolServer>
  if (typeof setRequestHandler !== 'function' || typeof assertCanSetRequestHandler !== 'function') {
    throw invalid('INVALID_OPTION', 'server', 'must be an McpServer or a Server of the SDK', value)
  }
  return server as LimitedServer
}

function limitServer(server: LimitedServer, limiter: HandlerLimiter): void {
  checkEmpty(server)
  const known = LIMITERS.get(server)
  if (known !== undefined) {
    known.push(limiter)
    return
  }
  const limiters = [limiter]
  LIMITERS.set(server, limiters)
  const limited = (handler: Handler) => limiters.reduceRight((inner, outer) => outer.wrap(inner), handler)
  const setRequestHandler = server.setRequestHandler.bind(server)
  server.setRequestHandler = (...args) => {
    const handler = args.at(-1)
    const isTools = methodOf(args[0]) === METHOD && typeof handler === 'function'
    return setRequestHandler(...(isTools ? [...args.slice(0, -1), limited(handler as Handler)] : args))
  }
  // It gets the requests for which there is no handler: a proxy may answer all by it.
  let fallback: Handler | undefined
  Object.defineProperty(server, 'fallbackRequestHandler', {
    get: () => fallback,
    set: (handler: Handler | undefined) => {
      const ofTools = handler && limited(handler)
      fallback = handler && ((request, context) => (request.method === METHOD ? ofTools : handler)?.(request, context))
    },
  })
}

/** Throws if the server has a handler that would not be limited. */
function checkEmpty(server: LimitedServer): void {
  try {
    server.assertCanSetRequestHandler(METHOD)
    if (server.fallbackRequestHandler === undefined) {
      return
    }
  } catch {
    // It throws if there is a handler.
  }
  const fix = 'apply limitTools first, and leave capabilities.tools to registerTool'
  throw new TollgateError(
    'INVALID_OPTION',
    `limitTools: the server has tools already, which would have no limit; ${fix}`,
  )
}

/** The method of a handler: a name, or in version 1 of the SDK a schema. */
function methodOf(given: unknown): string {
  const { shape } = (given ?? {}) as { readonly shape?: { readonly method?: { readonly value?: unknown } } }
  const method = typeof given === 'string' ? given : shape?.method?.value
  if (typeof method !== 'string') {
    throw new TollgateError('INVALID_OPTION', 'limitTools: the method of a request handler cannot be read')
  }
  return method
}
