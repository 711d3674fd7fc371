import type { Decision, NotAllowed } from '../api/decision.js'
import type { TollgateError } from '../api/error.js'

/** The SDK finds its errors by these symbols, in any version of its packages. */
const SDK_MARKS = [Symbol.for('vercel.ai.error'), Symbol.for('vercel.ai.error.AI_APICallError')]

/** Marks the errors of this package, which are no answers of a provider. */
const REFUSAL = Symbol.for('tollgate.modelCallRefusal')

/** The SDK's retries ignore a longer time in the headers, and try again after two seconds. */
const MAX_RETRY_MS = 60_000

interface CallErrorDetails {
  readonly statusCode: number
  readonly responseHeaders?: { readonly [name: string]: string }
  readonly isRetryable: boolean
  readonly cause: Decision | TollgateError
}

/** An error that the SDK takes for its `APICallError`. */
class ModelCallError extends Error {
  override readonly name = 'AI_APICallError'
  readonly url = 'tollgate:'
  readonly requestBodyValues = {}
  readonly statusCode: number
  readonly responseHeaders: { readonly [name: string]: string }
  readonly responseBody = undefined
  readonly isRetryable: boolean
  readonly data = undefined

  constructor(message: string, { statusCode, responseHeaders = {}, isRetryable, cause }: CallErrorDetails) {
    super(message, { cause })
    this.statusCode = statusCode
    this.responseHeaders = responseHeaders
    this.isRetryable = isRetryable
    for (const mark of [...SDK_MARKS, REFUSAL]) {
      Object.defineProperty(this, mark, { value: true })
    }
  }
}

/** The error for a refused call. The SDK's retries wait for the time in its headers. */
export function refusedCallError(decision: NotAllowed): Error {
  const { retryAfterMs, source, policy, status } = decision
  const under = policy === 'default' ? '' : ` under ${policy}`
  if (source === 'none') {
    const message = 'the call was not sent: the store of the rate limiter is down, and onStoreFailure refuses calls'
    return new ModelCallError(message, { statusCode: 503, isRetryable: false, cause: decision })
  }
  if (retryAfterMs === null) {
    const fix = 'reserve less (maxOutputTokens, estimate), or raise the limit'
    const message = `the call was not sent: its estimate never fits${under}, at most ${decision.capacity} do; ${fix}`
    return new ModelCallError(message, { statusCode: 413, isRetryable: false, cause: decision })
  }
  const reason = status === 'blocked' ? 'the key is blocked' : 'its estimate does not fit'
  return new ModelCallError(`the call was not sent: ${reason}${under}; it may be sent in ${retryAfterMs} ms`, {
    statusCode: 429,
    responseHeaders: {
      'retry-after-ms': String(retryAfterMs),
      'retry-after': String(Math.ceil(retryAfterMs / 1_000)),
    },
    isRetryable: retryAfterMs < MAX_RETRY_MS,
    cause: decision,
  })
}

/** The error for a call on which the limiter could not decide. It is not sent, and the SDK does not try again. */
export function undecidedCallError(error: TollgateError): Error {
  const message = `the call was not sent: the rate limiter could not decide (${error.code}: ${error.message})`
  return new ModelCallError(message, { statusCode: 503, isRetryable: false, cause: error })
}

/** Whether an error is a refusal of this package, perhaps of another middleware. */
export function isOwnRefusal(error: unknown): boolean {
  try {
    return typeof error === 'object' && error !== null && REFUSAL in error
  } catch {
    // Its members cannot be read.
    return false
  }
}
