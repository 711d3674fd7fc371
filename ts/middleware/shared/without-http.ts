import { TollgateError } from '../../api/error.js'
import type { RateLimitOptions } from './options.js'

/** The options that describe an HTTP response; `handler` answers it. */
const HTTP_OPTIONS = ['headers', 'statusCode', 'storeFailureStatusCode', 'problemDetails', 'handler'] as const

/**
 * The options of middlewares whose protocol sends errors in place of HTTP responses.
 *
 * @typeParam A - The arguments of users' functions.
 */
export type MessageRateLimitOptions<K, N extends string, A extends readonly unknown[]> = Omit<
  RateLimitOptions<K, N, A, never>,
  'headers' | 'statusCode' | 'storeFailureStatusCode' | 'problemDetails'
>

/**
 * The options for a `RequestLimiter` that writes no HTTP response.
 *
 * @param where - The name of the middleware's function, for messages.
 * @param fact - Says how the middleware refuses, for messages.
 * @throws {TollgateError} `INVALID_OPTION` if one of the options describes an HTTP response.
 */
export function withoutHttp(where: string, options: unknown, fact: string): unknown {
  checkAbsent(where, options, HTTP_OPTIONS, fact)
  // The limiter itself rejects values of other types.
  const isOptions = typeof options === 'object' && options !== null && 'limiter' in options
  return isOptions ? { ...options, headers: false } : options
}

/**
 * Checks that options have none of these names.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 */
export function checkAbsent(where: string, options: unknown, names: readonly string[], fact: string): void {
  const name = names.find((name) => (options as Record<string, unknown> | null | undefined)?.[name] !== undefined)
  if (name !== undefined) {
    throw new TollgateError('INVALID_OPTION', `${where}: ${name} cannot be given: ${fact}`)
  }
}
