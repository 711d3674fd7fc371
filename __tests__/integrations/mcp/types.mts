/** The types of `tollgate/mcp` suit those of the SDK, of versions 2.0 and later and of its servers of version 1: `tsc` checks this file. */
import type { Client } from '@modelcontextprotocol/client'
import type { Client as Client20 } from '@modelcontextprotocol/client-2.0'
import type { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import type { McpServer as McpServer1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import type { AuthInfo, McpServer, Server, ServerContext } from '@modelcontextprotocol/server'
import type { McpServer as McpServer20 } from '@modelcontextprotocol/server-2.0'
import { concurrency, fixedWindow, gcra, RateLimiter, tiers } from '../../../ts/index.js'
import { type AuthInfoLike, limitToolCalls, limitTools, type RefusedToolResult } from '../../../ts/mcp/index.js'

const calls = gcra({ limit: 60, period: '1m' })
const limiter = new RateLimiter(calls)
const limited = limitTools({ limiter })
export const servers = (
  a: McpServer,
  b: McpServer20,
  c: McpServer1,
  d: Server,
): [McpServer, McpServer20, McpServer1, Server] => [limited(a), limited(b), limited(c), limited(d)]
export const auth = (info: AuthInfo): AuthInfoLike => info
/** A handler may return a refusal of its own. */
export const handler = (server: Server, refused: RefusedToolResult) =>
  server.setRequestHandler('tools/call', () => ({ ...refused, content: [...refused.content] }))

// The key, the tier and the cost have the types of the limiter.
limitTools({ limiter, key: ({ tool, principal }) => `${tool} ${principal}`, cost: 2 })
limitTools({ limiter, key: ({ context }) => String((context as ServerContext).mcpReq.id) })
limitTools({ limiter, onError: () => {}, message: ({ tool }, { retryAfterMs }) => `${tool} ${retryAfterMs}` })
limitTools({
  limiter: new RateLimiter({ calls, atOnce: concurrency({ limit: 5 }) }),
  delay: '5s',
  refundWhen: 'failed',
})
const parts = new RateLimiter({
  user: gcra({ limit: 9, period: '1m', per: 'principal' }),
  tool: { ...calls, per: 'tool' as const },
})
limitTools({ limiter: parts })
limitTools({ limiter: parts, key: ({ tool }) => ({ principal: 'ann', tool }) })
const teams = new RateLimiter({ ...parts.policies, team: gcra({ limit: 1, period: '1s', per: 'team' }) })
limitTools({ limiter: teams, key: ({ tool }) => ({ principal: 'ann', tool, team: 'search' }) })
// @ts-expect-error The default key has no part `team`.
limitTools({ limiter: teams })
const letters = new RateLimiter({ calls, letters: fixedWindow({ limit: 5, window: '1m', meter: 'letters' }) })
limitTools({ limiter: letters, cost: ({ arguments: { text } }) => ({ letters: String(text).length }) })
// @ts-expect-error Calls name the units of the meter.
limitTools({ limiter: letters })
// @ts-expect-error The limiter has no such meter.
limitTools({ limiter: letters, cost: () => ({ words: 5 }) })
const tiered = new RateLimiter({ calls: tiers({ free: calls, pro: calls }) })
limitTools({ limiter: tiered, tier: ({ authInfo }) => String(authInfo?.extra?.['plan']) })

const limitedCalls = limitToolCalls({ limiter, key: 'server', maxWait: '5s' })
export const clients = (a: Client, b: Client20): [Client, Client20] => [limitedCalls(a), limitedCalls(b)]
// @ts-expect-error A client of version 1 calls tools with other arguments.
export const client1 = (client: Client1) => limitedCalls(client)
limitToolCalls({
  limiter: letters,
  key: ({ name }) => name,
  cost: ({ arguments: given }) => ({ letters: Object.keys(given ?? {}).length }),
})
limitToolCalls({ limiter: tiered, key: 'server', tier: 'pro' })
// @ts-expect-error The limiter has no such tier.
limitToolCalls({ limiter: tiered, key: 'server', tier: 'gold' })
// @ts-expect-error Calls have a key.
limitToolCalls({ limiter })
