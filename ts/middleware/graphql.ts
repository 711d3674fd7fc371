/**
 * Rate limiting for GraphQL: GraphQL Yoga and other servers of Envelop, and Apollo Server 5.
 *
 * @module tollgate/graphql
 */
import type { DocumentNode, GraphQLSchema } from 'graphql'
import { checkCount } from '../input/options.js'
import type { GraphQLErrorLike, GraphqlRateLimitOptions } from './graphql/operation-limiter.js'
import { OperationLimiter } from './graphql/operation-limiter.js'

export { type ComplexityOptions, complexityOf, type GraphqlOperation } from './graphql/complexity.js'
export type { GraphQLErrorLike, GraphqlCall, GraphqlRateLimitOptions } from './graphql/operation-limiter.js'
export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'

/** The part of Envelop's payload before an operation that the plugin uses. */
export interface EnvelopPayload {
  /** The arguments of `execute` or `subscribe`. */
  readonly args: {
    readonly document: DocumentNode
    readonly schema: GraphQLSchema
    readonly contextValue?: unknown
    readonly variableValues?: { readonly [name: string]: unknown } | null | undefined
    readonly operationName?: string | null | undefined
  }
  /** Ends the operation with a result. */
  setResultAndStopExecution(result: { readonly errors: readonly Error[] }): void
}

/** The part of Envelop's payload after an operation that the plugin uses. */
export interface EnvelopDonePayload {
  /** The result, or a stream of results. */
  readonly result: object
}

/** The hook of Envelop after an operation. */
export interface EnvelopDoneHook {
  /** Refunds the operation if `refundWhen` says so. */
  onExecuteDone(payload: EnvelopDonePayload): Promise<void>
}

/** The plugin of {@link useRateLimit}. */
export interface EnvelopPlugin {
  /** Limits queries and mutations. */
  onExecute(payload: EnvelopPayload): Promise<EnvelopDoneHook | undefined>
  /** Limits subscriptions when they start. */
  onSubscribe(payload: EnvelopPayload): Promise<undefined>
}

/** The part of Apollo's request context that the plugin uses. */
export interface ApolloRequestContext {
  readonly document: DocumentNode
  readonly schema: GraphQLSchema
  readonly contextValue: unknown
  readonly operationName: string | null
  readonly request: { readonly variables?: { readonly [name: string]: unknown } }
}

/** The part of Apollo's response that the plugin uses. */
export interface ApolloResponseContext {
  readonly response: { readonly body: { readonly kind: string } }
}

/** Apollo's hooks for one request. */
export interface ApolloRequestHooks {
  /** Limits the operation. */
  didResolveOperation(context: ApolloRequestContext): Promise<void>
  /** Refunds the operation if `refundWhen` says so. */
  willSendResponse(context: ApolloResponseContext): Promise<void>
}

/** The plugin of {@link rateLimitPlugin}. */
export interface ApolloPlugin {
  /** Apollo calls it for each request. */
  requestDidStart(): Promise<ApolloRequestHooks>
}

/**
 * Limits the operations of a GraphQL Yoga server, or of another one with Envelop. A refused operation has
 * one error with `extensions.code` `'TOO_MANY_REQUESTS'` and `extensions.retryAfterMs`; Yoga answers it
 * with status 429 and the rate limit headers. An operation whose cost can never fit has the code
 * `'PAYLOAD_TOO_LARGE'`, status 413 and a `retryAfterMs` of `null`. The decision is the context's `rateLimit`.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * createYoga({ schema, plugins: [useRateLimit({ limiter, key: ({ context }) => context.userId, cost: complexityOf })]
 * })
 */
export function useRateLimit<K, N extends string, C, U = number>(
  options: GraphqlRateLimitOptions<K, N, C, U>,
): EnvelopPlugin {
  checkCount(arguments.length, 1, 'useRateLimit takes an object of options')
  const limiter = new OperationLimiter('useRateLimit', options, (headers) => Object.fromEntries(headers))
  const check = async (payload: EnvelopPayload) => {
    const { document, schema, contextValue: context, variableValues: variables, operationName } = payload.args
    const { error, onEnd } = await limiter.check({ document, schema, context, variables, operationName })
    if (error === undefined) {
      return { onExecuteDone: async ({ result }: EnvelopDonePayload) => onEnd?.(errorsIn(result)) }
    }
    payload.setResultAndStopExecution({ errors: [error] })
    return undefined
  }
  return {
    onExecute: check,
    async onSubscribe(payload) {
      await check(payload)
      return undefined
    },
  }
}

/**
 * {@link useRateLimit} for Apollo Server.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * new ApolloServer({ schema, plugins: [rateLimitPlugin({ limiter, key: ({ context }) => context.userId, cost:
 * complexityOf })] })
 */
export function rateLimitPlugin<K, N extends string, C, U = number>(
  options: GraphqlRateLimitOptions<K, N, C, U>,
): ApolloPlugin {
  checkCount(arguments.length, 1, 'rateLimitPlugin takes an object of options')
  const limiter = new OperationLimiter('rateLimitPlugin', options, (headers) => headers)
  return {
    async requestDidStart() {
      let onEnd: ((errors: readonly GraphQLErrorLike[] | undefined) => Promise<void>) | undefined
      return {
        async didResolveOperation({ document, schema, contextValue: context, operationName, request: { variables } }) {
          const checked = await limiter.check({ document, schema, context, variables, operationName })
          if (checked.error !== undefined) {
            throw checked.error
          }
          onEnd = checked.onEnd
        },
        async willSendResponse({ response: { body } }) {
          await onEnd?.(errorsIn('singleResult' in body ? body.singleResult : body))
        },
      }
    },
  }
}

/** The errors in a result of an operation. A stream of results has no errors yet. */
function errorsIn(result: unknown): readonly GraphQLErrorLike[] | undefined {
  return (result as { readonly errors?: readonly GraphQLErrorLike[] } | null | undefined)?.errors
}
