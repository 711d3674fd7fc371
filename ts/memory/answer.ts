import type { Decision } from '../decision.js'
import { TollgateError } from '../error.js'

/**
 * The doubles of one answer: code, time, limit, remaining, retry after, reset after. The other end
 * is `src/binding/answer.rs`.
 */
export const ANSWER_LENGTH = 6

/** The codes of the answers that are decisions; a failure's code is negative. */
enum Code {
  Allowed = 0,
  AllowedLast = 1,
  Refused = 2,
  Impossible = 3,
}

/**
 * The decision that stands in `answers` from `start` on, or `undefined` for a failure.
 *
 * Every branch makes an object of the same shape: engines keep one hidden class for all decisions.
 */
export function decisionAt(answers: Float64Array, start: number): Decision<'default'> | undefined {
  const at = answers[start + 1] as number
  const limit = answers[start + 2] as number
  const remaining = answers[start + 3] as number
  const retryAfterMs = answers[start + 4] as number
  const resetAfterMs = answers[start + 5] as number
  switch (answers[start]) {
    case Code.Allowed:
      return {
        allowed: true,
        status: 'allowed',
        policy: 'default',
        limit,
        remaining,
        retryAfterMs: 0,
        resetAfterMs,
        policies: { default: { limit, remaining, retryAfterMs: 0, resetAfterMs } },
        at,
        source: 'store',
      }
    case Code.AllowedLast:
      return {
        allowed: true,
        status: 'allowed-last',
        policy: 'default',
        limit,
        remaining,
        retryAfterMs: 0,
        resetAfterMs,
        policies: { default: { limit, remaining, retryAfterMs: 0, resetAfterMs } },
        at,
        source: 'store',
      }
    case Code.Refused:
      return {
        allowed: false,
        status: 'refused',
        policy: 'default',
        limit,
        remaining,
        retryAfterMs,
        resetAfterMs,
        policies: { default: { limit, remaining, retryAfterMs, resetAfterMs } },
        at,
        source: 'store',
      }
    case Code.Impossible:
      return {
        allowed: false,
        status: 'impossible',
        policy: 'default',
        limit,
        remaining,
        retryAfterMs: null,
        resetAfterMs,
        policies: { default: { limit, remaining, retryAfterMs: null, resetAfterMs } },
        at,
        source: 'store',
      }
    default:
      return undefined
  }
}

/** The error for the failure that stands in `answers` at `start`. */
export function failureAt(answers: Float64Array, start: number, key: unknown): TollgateError {
  return failureOf(answers[start] as number, key)
}

/** The error for a failure's code. It tells the key's type or length, never its text. */
export function failureOf(code: number, key: unknown): TollgateError {
  switch (code) {
    case -1:
      return new TollgateError('INVALID_KEY', `key must be a string, got ${key === null ? 'null' : typeof key}`)
    case -2:
      return new TollgateError('INVALID_KEY', 'key must not be empty')
    case -3: {
      const length = Buffer.byteLength(key as string)
      return new TollgateError('INVALID_KEY', `key must be at most 1024 bytes of UTF-8, got ${length}`)
    }
    case -4:
      return new TollgateError('INVALID_KEY', 'key must be a well-formed string, got one with a lone surrogate')
    default:
      return new TollgateError('STORE_ERROR', `the engine failed (code ${code}): please report this`)
  }
}
