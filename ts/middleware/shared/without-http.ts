import { TollgateError } from '../../api/error.js'
import type { RateLimitOptions } from './options.js'

/** The options of an HTTP response, and `handler`, which answers it. */
const HTTP_OPTIONS = ['headers', 'statusCode', 'storeFailureStatusCode', 'problemDetails', 'handler'] as const

/** The options of middlewares whose protocol sends errors in place of HTTP responses. */
export type MessageRateLimitOptions<K, N extends string, A extends readonly unknown[], U = number> = Omit<
  RateLimitOptions<K, N, A, never, U>,
  'headers' | 'statusCode' | 'storeFailureStatusCode' | 'problemDetails'
>

/** The options for a `RequestLimiter` that writes no HTTP response. `fact` says how the middleware refuses. */
export function withoutHttp(where: string, options: unknown, fact: string): unknown {
  checkAbsent(where, options, HTTP_OPTIONS, fact)
  // The limiter itself rejects values of other types.
  const isOptions = typeof options === 'object' && options !== null && 'limiter' in options
  return isOptions ? { ...options, headers: false } : options
}

export function checkAbsent(where: string, options: unknown, names: readonly string[], fact: string): void {
  const name = names.find((name) => (options as Record<string, unknown> | null | undefined)?.[name] !== undefined)
  if (name !== undefined) {
    throw new TollgateError('INVALID_OPTION', `${where}: ${name} cannot be given: ${fact}`)
  }
}
