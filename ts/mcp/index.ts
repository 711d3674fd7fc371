/**
 * Limits for the tools of the Model Context Protocol, with its official TypeScript SDK: of a server and of a client.
 *
 * A server charges each call of a tool before the tool runs, by its authenticated principal. Needs neither Node.js nor
 * the addon.
 *
 * @module tollgate/mcp
 */
export type {
  Awaitable,
  CostRequired,
  InvalidInputAnswer,
  RefundWhen,
  RequestEnd,
} from '../middleware/shared/options.js'
export { limitToolCalls } from './limit-tool-calls.js'
export { limitTools } from './limit-tools.js'
export type {
  AuthInfoLike,
  KeyOrPrincipal,
  ProtocolServer,
  ToolCall,
  ToolCallLimitOptions,
  ToolClient,
  ToolKey,
  ToolLimiter,
  ToolLimitOptions,
  ToolRequest,
  ToolServer,
} from './options.js'
export type { RefusedToolResult, ToolRefusal } from './refusal.js'
