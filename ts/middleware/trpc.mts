/** `tollgate/trpc` for `import`: the same module, with the types that tRPC declares for `import`. */
import type { TRPCMiddlewareFunction } from '@trpc/server'
import type { Decision } from '../api/decision.js'
import { type TrpcCall, type TrpcRateLimitOptions, rateLimit as untypedRateLimit } from './trpc.js'

export type * from './trpc.js'
export { ipKey, RateLimitError } from './trpc.js'

/**
 * Limits the calls of procedures. A refused call fails with a `TRPCError` with code
 * `TOO_MANY_REQUESTS`, whose `cause` is a `RateLimitError`. The decision is `ctx.rateLimit`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const limited = t.procedure.use(rateLimit({ limiter, key: ({ ctx }) => ctx.userId }))
 */
// TypeScript infers the new context only from a type of the same file of tRPC.
export const rateLimit: <C, M, O, I, K, N extends string, P extends string = 'rateLimit'>(
  options: TrpcRateLimitOptions<K, N, TrpcCall<C, M, O, I>, P>,
) => TRPCMiddlewareFunction<C, M, O, { [Name in P]?: Decision<N> }, I> = untypedRateLimit as never
