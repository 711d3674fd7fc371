import type { ClientOptions, RefusalOf } from '../client/options.js'
import { OutgoingClient } from '../client/outgoing-client.js'
import { checkCount, invalid, optionsOf } from '../input/options.js'
import type { ToolCallLimitOptions, ToolClient, ToolRequest } from './options.js'
import { refusedForMs } from './refusal.js'

const OPTIONS = [
  'limiter',
  'key',
  'cost',
  'tier',
  'maxWait',
  'maxQueued',
  'ageing',
  'attemptTimeout',
  'retries',
  'shouldRetry',
  'refusalOf',
  'usageOf',
  'clock',
] as const

type CallTool = (request: ToolRequest, options?: { readonly signal?: AbortSignal }) => Promise<unknown>

/**
 * Returns a function that limits `callTool` of a client, and returns the client. Call it once, and its function for
 * each client that shares the limit.
 *
 * Each call waits for its turn, for `maxWait` at most; then it rejects with `WAIT_TOO_LONG` and is not sent. If the
 * server refuses a call and names a time, the key is blocked in the limiter for this time, so that all processes pause,
 * and the call is sent again, up to `retries`. It names it as {@link limitTools} does, as `retryAfterMs` in the `data` of
 * a JSON-RPC error, by HTTP, or as `refusalOf` finds it. After other failures a call is not sent again.
 *
 * See `docs/mcp.md#a-client`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const limited = limitToolCalls({ limiter, key: 'search.example.com' })
 * const client = limited(new Client({ name: 'agent', version: '1.0.0' }))
 */
export function limitToolCalls<K, N extends string, T extends string = never, C = number>(
  options: ToolCallLimitOptions<K, N, T, C>,
): <S extends ToolClient>(client: S) => S {
  checkCount(arguments.length, 1, 'limitToolCalls takes an object of options', 'write limitToolCalls(options)(client)')
  const { key, cost, tier, refusalOf, ...others } = optionsOf('INVALID_OPTION', 'limitToolCalls', options, OPTIONS)
  if (key === undefined) {
    throw invalid('INVALID_OPTION', 'key', 'must be given, or a function of a call that makes it', key)
  }
  const outgoing = new OutgoingClient({
    ...others,
    refusalOf: refusalOf === undefined ? refusedForMs : eitherRefusal(refusalOf as RefusalOf),
  } as unknown as ClientOptions<unknown>)
  const callOf = async (request: ToolRequest) => {
    const units = await valueFor(cost, request)
    const own = await valueFor(tier, request)
    return {
      key: await valueFor(key, request),
      ...(units !== undefined && { cost: units }),
      ...(own !== undefined && { tier: own }),
    }
  }
  return (client) => {
    const limited = (client ?? {}) as unknown as { callTool?: CallTool; getNegotiatedProtocolVersion?: unknown }
    const callTool = limited.callTool?.bind(client)
    if (callTool === undefined || limited.getNegotiatedProtocolVersion === undefined) {
      throw invalid('INVALID_OPTION', 'client', 'must be a Client of version 2 of the SDK', client)
    }
    limited.callTool = async (request, given) => {
      const call = { ...(await callOf(request)), ...(given?.signal !== undefined && { signal: given.signal }) }
      return outgoing.schedule(({ signal }) => callTool(request, { ...given, signal }), call as never)
    }
    return client
  }
}

function valueFor(value: unknown, request: ToolRequest): unknown {
  return typeof value === 'function' ? value(request) : value
}

function eitherRefusal(refusalOf: RefusalOf): RefusalOf {
  return async (answer) => (await refusalOf(answer)) ?? refusedForMs(answer)
}
