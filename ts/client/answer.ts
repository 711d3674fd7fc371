import { isExhausted, retryInfoOf } from './grpc-status.js'
import { delayOfLimits, headerMapOf, retryAfterOf, serverLimitsOf } from './server-limits.js'

export type AttemptResult =
  | { readonly isError: false; readonly value: unknown }
  | { readonly isError: true; readonly error: unknown }

export interface Answer {
  /** The HTTP status; `undefined` without an HTTP answer. */
  readonly status: number | undefined
  /** Whether the server has refused the call because of its limits. */
  readonly isRefusal: boolean
  /** The time that callers should wait, in milliseconds, if the server names one. */
  readonly delayMs: number | undefined
  /** The time until all limits that the server calls empty have units again, in milliseconds. */
  readonly emptyMs: number | undefined
}

export const NO_ANSWER: Answer = { status: undefined, isRefusal: false, delayMs: undefined, emptyMs: undefined }

/**
 * Finds the answer in a result: a `Response`, or an error of an HTTP client, which has a status and headers, itself or
 * in its `response`; or an error of gRPC. A result whose members cannot be read has no answer.
 *
 * @param wallMs - Epoch milliseconds, for times of answers without a `Date`.
 */
export function answerOf(result: AttemptResult, wallMs: number): Answer {
  try {
    const source: unknown = result.isError ? result.error : result.value
    let bareStatus: number | undefined
    for (const place of placesOf(source, result.isError)) {
      const status = statusOf(place)
      const headers = fieldOf(place, 'headers') ?? fieldOf(place, 'responseHeaders')
      if (status !== undefined && headers !== undefined) {
        return httpAnswer(status, headers, source, wallMs)
      }
      bareStatus ??= status
    }
    // A value that is not an answer may have a status of its own.
    if (result.isError && bareStatus !== undefined) {
      return httpAnswer(bareStatus, undefined, source, wallMs)
    }
    const isRefusal = result.isError && isExhausted(source)
    return isRefusal ? { ...NO_ANSWER, isRefusal, delayMs: retryInfoOf(source) } : NO_ANSWER
  } catch {
    return NO_ANSWER
  }
}

/**
 * The objects that may be the answer. Many errors have the status of the answer, but its headers only in `response`. The
 * AWS SDK has `$response` and `$metadata`. An error may wrap another one as its `cause`.
 */
function* placesOf(source: unknown, isError: boolean): Generator<unknown> {
  yield source
  for (const name of ['response', '$response', '$metadata']) {
    yield fieldOf(source, name)
  }
  if (isError) {
    yield* placesOf(fieldOf(source, 'cause'), false)
  }
}

function statusOf(place: unknown): number | undefined {
  for (const name of ['status', 'statusCode', 'httpStatusCode']) {
    const status = fieldOf(place, name)
    if (typeof status === 'number') {
      return status
    }
  }
  return undefined
}

/** Refusals are 429, 503 with a time to wait, and 403 with one or with an empty limit, which GitHub and others send. */
function httpAnswer(status: number, given: unknown, source: unknown, wallMs: number): Answer {
  const headers = headerMapOf(given)
  const limits = serverLimitsOf(headers, wallMs)
  const retryAfterMs = retryAfterOf(headers, wallMs) ?? (status === 429 ? retryInfoOf(source) : undefined)
  const delayMs = retryAfterMs ?? delayOfLimits(limits, status === 429 || status === 503)
  const isRefusal = status === 429 || ((status === 503 || status === 403) && delayMs !== undefined)
  return { status, isRefusal, delayMs, emptyMs: delayOfLimits(limits, false) }
}

/** The body of a result of `fetch`, of any implementation. */
export function bodyOf(result: AttemptResult): object | undefined {
  try {
    const body = result.isError ? undefined : fieldOf(result.value, 'body')
    return typeof body === 'object' && body !== null ? body : undefined
  } catch {
    return undefined
  }
}

/** Frees the connection of a response that nobody reads. */
export function discard(result: AttemptResult): void {
  try {
    const body = bodyOf(result)
    const cancel = fieldOf(body, 'cancel')
    if (typeof cancel === 'function') {
      Promise.resolve(cancel.call(body)).catch(() => {})
    }
  } catch {
    // A body that cannot be cancelled ends by itself.
  }
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
