import { canSettle, unsettledError } from '../api/can-settle.js'
import type { NotAllowed } from '../api/decision.js'
import type { AbortSignalLike } from '../api/wait.js'
import { eitherSignal } from '../client/signals.js'
import { type FrameworkAdapter, RequestLimiter, type RequestOutcome } from '../middleware/shared/request-limiter.js'
import { CLIENT_GONE, messageText } from '../middleware/shared/responses.js'
import { isStoreFailure } from '../middleware/shared/store-failure.js'
import { checkAbsent, withoutHttp } from '../middleware/shared/without-http.js'
import type { Policy } from '../policies/policy.js'
import type { PolicySet } from '../policies/policy-set.js'
import type { AuthInfoLike, ToolCall } from './options.js'
import { type HeldToolPermit, type PermitLimiter, Permits } from './permits.js'
import { defaultKeyFor, principalOf } from './principal.js'
import { type RefusedToolResult, refusalOfDecision, refusedResult, textOf } from './refusal.js'

/** A handler of requests, as the SDK calls it. A handler with a schema of its own receives the parameters alone. */
export type Handler = (request: ToolRequestLike, context: SdkContext) => unknown

interface ToolParams {
  readonly name?: unknown
  readonly arguments?: ToolCall['arguments'] | undefined
}

interface ToolRequestLike extends ToolParams {
  readonly method?: unknown
  readonly params?: ToolParams
}

/** The parts of the context that are read: of version 2 of the SDK, and of version 1. */
interface SdkContext {
  readonly mcpReq?: { readonly signal: AbortSignalLike }
  readonly http?: { readonly authInfo?: AuthInfoLike }
  readonly signal?: AbortSignalLike
  readonly authInfo?: AuthInfoLike
}

interface GivenOptions {
  readonly limiter?: PermitLimiter
  readonly key?: unknown
  readonly message?: unknown
  readonly onError?: (error: unknown, call: ToolCall) => unknown
  readonly refundWhen?: unknown
}

type Args = [call: ToolCall]

/** The limit of the handlers of `tools/call`. */
export class HandlerLimiter {
  readonly #limiter: RequestLimiter<Args>
  readonly #onError: GivenOptions['onError']
  readonly #hasMessage: boolean
  readonly #permitOf = new WeakMap<ToolCall, HeldToolPermit>()

  constructor(options: unknown) {
    checkAbsent('limitTools', options, ['requestProperty'], 'a request of the protocol has no properties')
    const given = (options ?? {}) as GivenOptions
    const { limiter, key, message, onError, refundWhen } = given
    const policies = Object.values<Policy>(limiter?.policies ?? {})
    const takesPermits = policies.some(({ algorithm }) => algorithm === 'concurrency')
    if (takesPermits && refundWhen !== undefined) {
      checkSettles(policies)
    }
    const permits = takesPermits ? new Permits(limiter as PermitLimiter) : undefined
    const adapter: FrameworkAdapter<Args> = {
      name: 'tollgate/mcp',
      isHttp: false,
      takesPermits,
      // The limits of a server make a call each, of one context.
      requestOf: ({ context }) => context,
      isGone: ({ signal }) => signal.aborted,
      signalOf: ({ signal }) => signal,
      attach: (_, decision, call) => {
        const permit = permits?.of(decision)
        if (permit !== undefined) {
          this.#permitOf.set(call, permit)
        }
      },
    }
    const own = limiter?.policies && {
      key: key ?? defaultKeyFor(limiter.policies),
      ...(permits !== undefined && { limiter: permits.limiter }),
    }
    const checked = withoutHttp('limitTools', options, 'a refusal is the result of a call, with isError: true')
    this.#limiter = new RequestLimiter(
      'limitTools',
      own === undefined ? checked : { ...(checked as object), ...own },
      adapter,
    )
    this.#onError = onError
    this.#hasMessage = message !== undefined
  }

  /** The same handler, which is called only for calls that are admitted. */
  wrap(handler: Handler): Handler {
    return async (request, context) => {
      const call = toolCallOf(request, context)
      try {
        const outcome = await this.#limiter.check([call])
        const answer = outcome.kind === 'pass' ? undefined : await this.#answerTo(outcome, call)
        return answer ?? (await this.#run(handler, request, context, call, outcome))
      } finally {
        // If it fails, the permit expires.
        await this.#permitOf
          .get(call)
          ?.release()
          .catch(() => {})
      }
    }
  }

  /** Runs the handler, and refunds its call if `refundWhen` says so. */
  async #run(
    handler: Handler,
    request: ToolRequestLike,
    context: SdkContext,
    call: ToolCall,
    outcome: RequestOutcome,
  ): Promise<unknown> {
    const decision = 'decision' in outcome ? outcome.decision : undefined
    const { signal, unlink } = eitherSignal(call.signal, this.#permitOf.get(call)?.signal)
    let status = 500
    try {
      const result = await handler(request, signal === call.signal ? context : withSignal(context, signal))
      status = (result as { readonly isError?: unknown } | undefined)?.isError === true ? 500 : 200
      return result
    } finally {
      unlink()
      if (decision !== undefined && this.#limiter.mayRefund) {
        const { aborted } = call.signal
        await this.#limiter.refundAtEnd(decision, [call], aborted, aborted ? undefined : status)
      }
    }
  }

  /** The result of a call that does not run its tool; `undefined` if it runs nevertheless. */
  async #answerTo(outcome: Exclude<RequestOutcome, { readonly kind: 'pass' }>, call: ToolCall): Promise<unknown> {
    switch (outcome.kind) {
      case 'gone':
        // The SDK sends nothing for an aborted request.
        throw new Error(messageText(CLIENT_GONE.message))
      case 'refuse':
        return this.#refusal(outcome.decision, call)
      case 'invalid': {
        const refusal = { status: 'invalid', retryAfterMs: null } as const
        const { message } = (outcome.answer ?? {}) as { readonly message?: unknown }
        return refusedResult(message === undefined ? textOf(refusal) : messageText(message), refusal)
      }
      case 'fail': {
        if (this.#onError !== undefined) {
          return this.#onError(outcome.error, call)
        }
        if (!isStoreFailure(outcome.error)) {
          throw outcome.error
        }
        const refusal = { status: 'unavailable', retryAfterMs: null } as const
        return refusedResult(textOf(refusal), refusal)
      }
    }
  }

  async #refusal(decision: NotAllowed, call: ToolCall): Promise<RefusedToolResult> {
    const refusal = refusalOfDecision(decision)
    if (!this.#hasMessage) {
      return refusedResult(textOf(refusal), refusal)
    }
    return refusedResult(messageText((await this.#limiter.refusalFor(decision, [call])).message), refusal)
  }
}

/** Throws if the units of permits cannot be given back. */
function checkSettles(policies: readonly Policy[]): void {
  const policySet = { policies: policies.map((policy) => ({ policy })) } as unknown as PolicySet
  if (!canSettle(policySet)) {
    throw unsettledError('limitTools: refundWhen', policySet)
  }
}

function toolCallOf(request: ToolRequestLike, context: SdkContext): ToolCall {
  const { name, arguments: given = {} } = request.params ?? request
  const authInfo = context.http?.authInfo ?? context.authInfo
  return {
    tool: String(name),
    arguments: given,
    principal: principalOf(authInfo),
    authInfo,
    signal: context.mcpReq?.signal ?? context.signal ?? new AbortController().signal,
    context,
  }
}

/** The context with a signal that is also aborted if the permit of the call is lost. */
function withSignal(context: SdkContext, signal: AbortSignalLike | undefined): SdkContext {
  const { mcpReq } = context
  return mcpReq === undefined
    ? ({ ...context, signal } as SdkContext)
    : ({ ...context, mcpReq: { ...mcpReq, signal } } as SdkContext)
}
