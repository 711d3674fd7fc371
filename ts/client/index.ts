/**
 * A client for calls to other services: `tollgate/client`.
 *
 * Its limiter decides over all processes when calls may start, and how many run at a time. If the server refuses a
 * call, all processes pause for the time that it asks for. Needs neither Node.js nor the addon.
 *
 * @module tollgate/client
 */
export type {
  CallArguments,
  CallOptions,
  ClientEvents,
  ClientKey,
  ClientLimiter,
  ClientOptions,
  ClientStatus,
  ClosedCalls,
  CloseOptions,
  FetchArguments,
  FetchFunction,
  RefusalOf,
  RetryOptions,
  RunContext,
  ScheduleOptions,
  ShouldRetry,
  UsageNumbers,
  UsageOf,
} from './options.js'
export { OutgoingClient } from './outgoing-client.js'
