import { TollgateError } from '../api/error.js'
import type { Answer, AttemptResult } from './answer.js'

/** The statuses after which an idempotent call is sent again. 529: Anthropic's servers are overloaded. */
const TRANSIENT = new Set([408, 425, 429, 500, 502, 503, 504, 529])

/** The codes of errors in the network, of Node.js and its HTTP clients. */
const NETWORK_ERROR = /^(ECONN|ETIMEDOUT$|EPIPE$|EAI_AGAIN$|ENOTFOUND$|EHOSTUNREACH$|ENETUNREACH$|UND_ERR_)/

/** The methods that RFC 9110, section 9.2.2, calls idempotent. */
const IDEMPOTENT_METHODS = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/**
 * Whether a call may be sent again. A server that refuses a call has not processed it; 503 is not always a refusal.
 * After any other failure the server may have processed it, so only an idempotent call is sent again.
 */
export function mayRetry(result: AttemptResult, { status, isRefusal }: Answer, isIdempotent: boolean): boolean {
  if (isRefusal && status !== 503) {
    return true
  }
  if (status !== undefined) {
    return isIdempotent && TRANSIENT.has(status)
  }
  return isIdempotent && result.isError && isTransientError(result.error)
}

/** An error whose members cannot be read is of no known kind. */
function isTransientError(error: unknown): boolean {
  try {
    return isTimeout(error) || isNetworkError(error)
  } catch {
    return false
  }
}

/** Whether an attempt took too long, by the client's limit or by an `AbortSignal.timeout` of its function. */
function isTimeout(error: unknown): boolean {
  const { name } = (typeof error === 'object' && error !== null ? error : {}) as { readonly name?: unknown }
  return name === 'TimeoutError' || (TollgateError.is(error) && error.code === 'ATTEMPT_TIMEOUT')
}

function isNetworkError(error: unknown): boolean {
  const { code, cause } = (typeof error === 'object' && error !== null ? error : {}) as {
    readonly code?: unknown
    readonly cause?: { readonly code?: unknown } | null
  }
  return [code, cause?.code].some((own) => typeof own === 'string' && NETWORK_ERROR.test(own)) || isFetchError(error)
}

/** `fetch` rejects with a `TypeError` if the request failed; these are its messages by platform. */
function isFetchError(error: unknown): boolean {
  return (
    error instanceof TypeError && /fetch failed|failed to fetch|networkerror|load failed|network/i.test(error.message)
  )
}

/** The delay before a retry, from half of the longest to the longest, in milliseconds. */
export function backoffMs(retry: number, { minDelay, maxDelay }: { minDelay: number; maxDelay: number }): number {
  const longest = Math.min(maxDelay, minDelay * 2 ** Math.min(retry - 1, 50))
  return Math.ceil(longest * (0.5 + Math.random() / 2))
}

/** Whether a request is idempotent by its method, or by a key that the server compares. */
export function isIdempotentRequest(method: string, hasIdempotencyKey: boolean): boolean {
  return hasIdempotencyKey || IDEMPOTENT_METHODS.has(method.toUpperCase())
}
