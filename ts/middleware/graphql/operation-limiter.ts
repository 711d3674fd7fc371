import { GraphQLError, type GraphQLErrorExtensions } from 'graphql'
import { Warnings } from '../../platform/warning.js'
import { attachDecision } from '../shared/attach.js'
import type { Awaitable, CostRequired, KeyRequired, RateLimitOptions } from '../shared/options.js'
import { type FrameworkAdapter, RequestLimiter } from '../shared/request-limiter.js'
import { CLIENT_GONE, messageText, type OwnResponse, refusalCodeOf, UNAVAILABLE } from '../shared/responses.js'
import { isStoreFailure } from '../shared/store-failure.js'
import { checkAbsent } from '../shared/without-http.js'
import type { GraphqlOperation } from './complexity.js'
import { clientIn, isOperationGone, operationSignal } from './operation-client.js'

/** An operation that is about to run. `C` is the context of the server. */
export interface GraphqlCall<C = unknown> extends GraphqlOperation {
  /** The context that resolvers get. */
  readonly context: C
}

/** The options of `useRateLimit` and `rateLimitPlugin`. `key` is required, because each server has its own context. */
export type GraphqlRateLimitOptions<K = string, N extends string = string, C = unknown, U = number> = Omit<
  RateLimitOptions<K, N, [call: GraphqlCall<C>], never, U>,
  'problemDetails'
> &
  CostRequired<U> &
  KeyRequired<K, [call: GraphqlCall<C>]> & {
    /**
     * Called if no decision could be made. Throws, or returns nothing to let the operation run. Default: a
     * `GraphQLError` with code `SERVICE_UNAVAILABLE` and status 503 if the store failed, whose `cause` is the failure;
     * other errors are thrown unchanged.
     */
    readonly onError?: (error: unknown, call: GraphqlCall<C>) => Awaitable<void>
  }

export interface CheckedOperation {
  /** The error of an operation that does not run. */
  readonly error: GraphQLError | undefined
  /** Refunds the units of an operation that has run. Absent without `refundWhen`. */
  readonly onEnd?: ((errors: readonly GraphQLErrorLike[] | undefined) => Promise<void>) | undefined
}

/** An error in the result of an operation. */
export interface GraphQLErrorLike {
  readonly extensions?: { readonly http?: { readonly status?: unknown } } | undefined
}

const ADAPTER: FrameworkAdapter<[call: GraphqlCall]> = {
  name: 'tollgate/graphql',
  // Servers create a context for each operation, also of a batch.
  requestOf: (call) => contextOf(call) ?? call,
  isGone: ({ context }) => isOperationGone(clientIn(context)),
  signalOf: ({ context }) => operationSignal(clientIn(context)),
  attach: (property, decision, call) => {
    const context = contextOf(call)
    if (context !== undefined) {
      attachDecision(context, property, decision)
    }
  },
}

export class OperationLimiter {
  readonly #requestLimiter: RequestLimiter<[call: GraphqlCall]>
  readonly #onError: ((error: unknown, call: GraphqlCall) => Awaitable<void>) | undefined
  readonly #headersForm: (headers: ReadonlyMap<string, string>) => unknown
  readonly #warnings = new Warnings()

  /**
   * @param where - The name of the plugin's function, for messages.
   * @param headersForm - Converts the headers of an error into those that the server expects.
   */
  constructor(where: string, options: unknown, headersForm: (headers: ReadonlyMap<string, string>) => unknown) {
    checkAbsent(where, options, ['problemDetails', 'handler'], 'a refusal is a GraphQLError')
    this.#requestLimiter = new RequestLimiter(where, options, ADAPTER)
    this.#onError = (options as { readonly onError?: (error: unknown, call: GraphqlCall) => Awaitable<void> }).onError
    this.#headersForm = headersForm
  }

  async check(call: GraphqlCall): Promise<CheckedOperation> {
    const args: [GraphqlCall] = [call]
    const outcome = await this.#requestLimiter.check(args)
    const headers = new Map<string, string>()
    this.#requestLimiter.write(outcome, (name, value) => headers.set(name, value))
    switch (outcome.kind) {
      case 'gone':
        return { error: this.#errorOf('CLIENT_CLOSED_REQUEST', CLIENT_GONE, headers) }
      case 'pass': {
        const { decision } = outcome
        if (decision === undefined || !this.#requestLimiter.mayRefund) {
          return { error: undefined }
        }
        this.#checkClient(call)
        const onEnd = async (errors: readonly GraphQLErrorLike[] | undefined) => {
          const isGone = ADAPTER.isGone(call)
          await this.#requestLimiter.refundAtEnd(decision, args, isGone, isGone ? undefined : statusOf(errors))
        }
        return { error: undefined, onEnd }
      }
      case 'fail':
        return { error: await this.#failureOf(outcome.error, call) }
      case 'invalid':
        return { error: this.#errorOf('BAD_REQUEST', outcome.response, headers) }
      case 'refuse': {
        const { decision } = outcome
        const { retryAfterMs } = decision
        const response = await this.#requestLimiter.refusalFor(decision, args)
        return { error: this.#errorOf(refusalCodeOf(decision), response, headers, { retryAfterMs }) }
      }
    }
  }

  /** Warns if `refundWhen` cannot distinguish an operation whose client has disconnected. */
  #checkClient({ context }: GraphqlCall): void {
    if (clientIn(context) === undefined) {
      this.#warnings.once(
        'TOLLGATE_UNSEEN_CLIENT',
        `${ADAPTER.name}: refundWhen does not see that a client has disconnected: the context of an operation has no ` +
          'request and no response\nAdd them to the context: context: async ({ req, res }) => ({ req, res }). Without ' +
          'them the result of an operation decides alone',
      )
    }
  }

  async #failureOf(error: unknown, call: GraphqlCall): Promise<GraphQLError | undefined> {
    if (this.#onError !== undefined) {
      await this.#onError(error, call)
      return undefined
    }
    if (!isStoreFailure(error)) {
      throw error
    }
    const failure = this.#errorOf('SERVICE_UNAVAILABLE', UNAVAILABLE, new Map())
    // Servers send an `originalError` or its stack to clients, depending on NODE_ENV.
    return Object.defineProperty(failure, 'cause', { value: error, configurable: true, writable: true })
  }

  #errorOf(
    code: string,
    { message, status }: OwnResponse,
    headers: ReadonlyMap<string, string>,
    members: object = {},
  ): GraphQLError {
    const http = { status, headers: this.#headersForm(headers) }
    // Each server declares the type of `http`.
    const extensions = { code, ...members, http } as GraphQLErrorExtensions
    return new GraphQLError(messageText(message), { extensions })
  }
}

function statusOf(errors: readonly GraphQLErrorLike[] | undefined): number {
  const [error] = errors ?? []
  const status = error?.extensions?.http?.status
  return error === undefined ? 200 : typeof status === 'number' ? status : 500
}

function contextOf({ context }: GraphqlCall): object | undefined {
  return typeof context === 'object' && context !== null ? context : undefined
}
