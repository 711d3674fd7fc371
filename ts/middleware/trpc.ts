/**
 * Rate limiting for tRPC 11.
 *
 * @module tollgate/trpc
 */
import { TRPCError, type TRPCMiddlewareFunction } from '@trpc/server'
import { getHTTPStatusCodeFromError } from '@trpc/server/http'
import type { Decision, NotAllowed } from '../api/decision.js'
import { checkCount } from '../input/options.js'
import { isReplaceable } from './shared/attach.js'
import type { CostRequired, KeyRequired } from './shared/options.js'
import { type FrameworkAdapter, RequestLimiter } from './shared/request-limiter.js'
import { CLIENT_GONE, messageText, refusalCodeOf } from './shared/responses.js'
import { isStoreFailure } from './shared/store-failure.js'
import { type MessageRateLimitOptions, withoutHttp } from './shared/without-http.js'

export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'
export type { MessageRateLimitOptions } from './shared/without-http.js'

/** A call of a procedure, as tRPC passes it to middlewares, without `next`. */
export type TrpcCall<C, M, O, I> = Omit<Parameters<TRPCMiddlewareFunction<C, M, O, unknown, I>>[0], 'next'>

/** The options of {@link rateLimit}. `key` is required, because tRPC itself does not know the client's address. */
export type TrpcRateLimitOptions<
  K,
  N extends string,
  R,
  P extends string = 'rateLimit',
  U = number,
> = MessageRateLimitOptions<K, N, [call: R], U> &
  CostRequired<U> &
  KeyRequired<K, [call: R]> & {
    /** The name of the context's property that holds the decision. Default: `'rateLimit'`. */
    readonly requestProperty?: P
    /**
     * Called if no decision could be made. Throws, or returns nothing to let the call pass. Default: throws a
     * `TRPCError` with code `SERVICE_UNAVAILABLE` if the store failed; other errors are thrown unchanged.
     */
    readonly onError?: (error: unknown, call: R) => void | PromiseLike<void>
  }

/** The `cause` of the `TRPCError` of a refused call. */
export class RateLimitError extends Error {
  override readonly name = 'RateLimitError'
  /** The refusal. */
  readonly decision: NotAllowed

  /** @internal */
  constructor(message: string, decision: NotAllowed) {
    super(message)
    this.decision = decision
  }
}

/** The codes of calls without a valid key, by the status that `onInvalidInput` gives. */
const BAD_REQUESTS: { readonly [status: number]: TRPCError['code'] } = {
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  422: 'UNPROCESSABLE_CONTENT',
}

type AnyCall = TrpcCall<object, object, object, unknown>

const ADAPTER: FrameworkAdapter<[call: AnyCall]> = {
  name: 'tollgate/trpc',
  // All calls of a batch share a context. Only this function belongs to one call.
  requestOf: ({ getRawInput }) => getRawInput,
  isGone: ({ signal }) => signal?.aborted === true,
  signalOf: ({ signal }) => signal ?? new AbortController().signal,
  // The decision goes to the context of the procedure.
  attach: () => {},
}

/**
 * Limits the calls of procedures. A refused call fails with a `TRPCError` with code
 * `TOO_MANY_REQUESTS`, or `PAYLOAD_TOO_LARGE` if its cost can never fit, whose `cause` is a
 * {@link RateLimitError}. The decision is `ctx.rateLimit`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const limited = t.procedure.use(rateLimit({ limiter, key: ({ ctx }) => ctx.userId }))
 */
export function rateLimit<C, M, O, I, K, N extends string, P extends string = 'rateLimit', U = number>(
  options: TrpcRateLimitOptions<K, N, TrpcCall<C, M, O, I>, P, U>,
): TRPCMiddlewareFunction<C, M, O, { [Name in P]?: Decision<N> }, I> {
  checkCount(arguments.length, 1, 'rateLimit takes an object of options', 'write rateLimit({ limiter, key })')
  const fact = 'a refusal is a TRPCError with code TOO_MANY_REQUESTS'
  const requestLimiter = new RequestLimiter('rateLimit', withoutHttp('rateLimit', options, fact), ADAPTER)
  const { onError, requestProperty: property = 'rateLimit' as P } = options
  return async ({ next, ...call }) => {
    const args: [AnyCall] = [call as unknown as AnyCall]
    const outcome = await requestLimiter.check(args)
    switch (outcome.kind) {
      case 'gone':
        throw new TRPCError({ code: 'CLIENT_CLOSED_REQUEST', message: messageText(CLIENT_GONE.message) })
      case 'fail':
        if (onError === undefined) {
          throw failureOf(outcome.error)
        }
        await onError(outcome.error, call)
        return next({ ctx: {} })
      case 'invalid': {
        const { status, message } = outcome.response
        throw new TRPCError({ code: BAD_REQUESTS[status] ?? 'BAD_REQUEST', message: messageText(message) })
      }
      case 'refuse': {
        const message = messageText((await requestLimiter.refusalFor(outcome.decision, args)).message)
        throw new TRPCError({
          code: refusalCodeOf(outcome.decision),
          message,
          cause: new RateLimitError(message, outcome.decision),
        })
      }
    }
    const { decision } = outcome
    if (decision === undefined) {
      return next({ ctx: {} })
    }
    // In shadow mode the decision of an earlier middleware may be a refusal.
    // A router may have no context.
    const earlier = (call.ctx as Record<string, unknown> | undefined)?.[property]
    const result = await next({ ctx: isReplaceable(earlier, decision) ? { [property]: decision } : {} })
    if (requestLimiter.mayRefund) {
      const isAborted = call.signal?.aborted === true
      const status = result.ok ? 200 : getHTTPStatusCodeFromError(result.error)
      await requestLimiter.refundAtEnd(decision, args, isAborted, isAborted ? undefined : status)
    }
    // The type of tRPC has no other way to name the added property.
    return result as never
  }
}

/** The error for a call without a decision. Errors of the program are thrown unchanged. */
function failureOf(error: unknown): unknown {
  return isStoreFailure(error)
    ? new TRPCError({ code: 'SERVICE_UNAVAILABLE', message: 'Service Unavailable', cause: error })
    : error
}
