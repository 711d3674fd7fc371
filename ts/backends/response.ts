import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import { MAX_KEY_BYTES, notAStringError } from '../input/keys.js'
import { utf8Length } from '../input/utf8.js'
import { FAILURE_CODES, STATUS_CODES } from './protocol.js'

/**
 * The doubles of one response: code, time, limit, remaining, retry after, reset after, capacity, next
 * after, retry time, reset time. Of an allowed call they have the mark of the key instead of the
 * retry after. `src/abi/response.rs` writes them.
 */
export const RESPONSE_LENGTH = 10

/** The statuses of decisions, by code. The code of a failure is negative. */
export const STATUSES = ['allowed', 'allowed-last', 'refused', 'impossible', 'blocked'] as const

/** The same number, stored inline if it is a small integer: saves seven boxes per decision. */
export function smallInteger(number: number): number {
  const small = number | 0
  return small === number ? small : number
}

const { allowed: ALLOWED, allowedLast: ALLOWED_LAST, impossible: IMPOSSIBLE } = STATUS_CODES

/**
 * The decision at `start` of `responses`; `undefined` for a failure.
 *
 * Both literals have the same properties in the same order, so JavaScript engines keep one hidden
 * class. The first one has constants for values that never vary, and takes 20 ns less.
 */
export function decisionAt(responses: Float64Array, start: number): Decision<'default'> | undefined {
  const code = responses[start] as number
  const at = responses[start + 1] as number
  const limit = smallInteger(responses[start + 2] as number)
  const remaining = smallInteger(responses[start + 3] as number)
  const resetAfterMs = smallInteger(responses[start + 5] as number)
  const capacity = smallInteger(responses[start + 6] as number)
  const used = capacity - remaining
  // Rounded once: a sum of rounded times could be 1 too large.
  const retryAt = Math.ceil(responses[start + 8] as number)
  const resetAt = Math.ceil(responses[start + 9] as number)
  const isAllowed = code === ALLOWED || code === ALLOWED_LAST
  const mark = isAllowed ? (responses[start + 4] as number) : 0
  if (mark !== 0) {
    return markedDecisionAt(responses, start)
  }
  if (code === ALLOWED) {
    return {
      allowed: true,
      status: 'allowed',
      policy: 'default',
      limit,
      capacity,
      used,
      remaining,
      retryAfterMs: 0,
      nextAfterMs: 0,
      resetAfterMs,
      policies: { default: { limit, capacity, used, remaining, retryAfterMs: 0, nextAfterMs: 0, resetAfterMs } },
      at,
      retryAt,
      resetAt,
      source: 'store',
    }
  }
  const status = code < STATUSES.length ? STATUSES[code] : undefined
  if (status === undefined) {
    return undefined
  }
  const retryAfterMs = code === IMPOSSIBLE ? null : smallInteger(responses[start + 4] as number)
  const nextAfterMs = smallInteger(responses[start + 7] as number)
  return {
    allowed: code < 2,
    status,
    policy: 'default',
    limit,
    capacity,
    used,
    remaining,
    retryAfterMs,
    nextAfterMs,
    resetAfterMs,
    policies: { default: { limit, capacity, used, remaining, retryAfterMs, nextAfterMs, resetAfterMs } },
    at,
    retryAt: retryAfterMs === null ? null : retryAt,
    resetAt,
    source: 'store',
  } as Decision<'default'>
}

/** {@link decisionAt} of a key with a mark. */
function markedDecisionAt(responses: Float64Array, start: number): Decision<'default'> | undefined {
  const unmarked = responses.slice(start, start + RESPONSE_LENGTH)
  unmarked[4] = 0
  const decision = decisionAt(unmarked, 0)
  return decision && withMarks(decision, { default: responses[start + 4] as number })
}

/** Adds marks to a decision. Not to a copy: the metadata of copied decisions takes 10 µs. */
export function withMarks<D extends Decision>(decision: D, marks: NonNullable<D['marks']>): D {
  return Object.assign(decision, { marks })
}

/** The error for the failure at `start` of `responses`. */
export function errorAt(responses: Float64Array, start: number, key: unknown): TollgateError {
  return errorOfCode(responses[start] as number, key)
}

/** The error for a failure's code. It reports the key's type or length, never its text. */
export function errorOfCode(code: number, key: unknown): TollgateError {
  switch (code) {
    case FAILURE_CODES.notAString:
      return notAStringError(key)
    case FAILURE_CODES.emptyKey:
      return new TollgateError('INVALID_KEY', 'key must not be empty')
    case FAILURE_CODES.keyTooLong: {
      const length = utf8Length(key as string)
      return new TollgateError('INVALID_KEY', `key must be at most ${MAX_KEY_BYTES} bytes of UTF-8, got ${length}`)
    }
    case FAILURE_CODES.illFormedKey:
      return new TollgateError('INVALID_KEY', 'key must be a well-formed string, got one with a lone surrogate')
    case FAILURE_CODES.sharedBucket: {
      const rule = 'the store holds maxKeys keys and this one shares its count with others, so it cannot be reset alone'
      return new TollgateError('STORE_FULL', rule)
    }
    case FAILURE_CODES.noCapacity: {
      const rule = 'the store holds maxKeys keys and has no room to block or override one more'
      return new TollgateError('STORE_FULL', rule)
    }
    case FAILURE_CODES.tooManyHolds: {
      const rule = 'the key has 10,000 open reservations and remembered ids'
      return new TollgateError('STORE_FULL', `${rule}: settle them earlier, or give a shorter ttl and idTtl`)
    }
    default:
      return new TollgateError('STORE_ERROR', `the engine failed (code ${code}): please report this`)
  }
}
