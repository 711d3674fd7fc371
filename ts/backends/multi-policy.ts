import type { Decision, PolicyNumbers } from '../api/decision.js'
import { BOOKING_LENGTH, type Booking, type Performed } from './operation.js'
import { ANSWER_LENGTH, STATUSES, unboxed } from './response.js'

/**
 * Decisions that tell of several limits by name: `src/abi/response.rs` is the other end.
 *
 * Such an answer begins with six doubles, too: code, time, how far on the limits' numbers begin, the number of
 * the limit that it speaks of, the units of an operation, reset after. Each limit has four: limit, remaining, retry after (below 0 if it
 * never can admit the cost), reset after.
 */
const LIMIT_LENGTH = 4

/** The doubles of an answer that tells of so many limits. */
export function lengthOf(limits: number): number {
  return ANSWER_LENGTH + limits * LIMIT_LENGTH
}

/** Added to the code of such a decision. */
const SEVERAL = 8

/** The decision on these limits that stands in `answers` from `start` on, or `undefined` for a failure. */
export function severalAt(answers: Float64Array, start: number, names: readonly string[]): Decision | undefined {
  const code = (answers[start] as number) - SEVERAL
  const status = code < 0 ? undefined : STATUSES[code]
  if (status === undefined) {
    return undefined
  }
  const policies: Record<string, PolicyNumbers> = {}
  let at = start + (answers[start + 2] as number)
  for (const name of names) {
    const retryAfterMs = unboxed(answers[at + 2] as number)
    policies[name] = {
      limit: unboxed(answers[at] as number),
      remaining: unboxed(answers[at + 1] as number),
      retryAfterMs: retryAfterMs < 0 ? null : retryAfterMs,
      resetAfterMs: unboxed(answers[at + 3] as number),
    }
    at += LIMIT_LENGTH
  }
  const policy = names[answers[start + 3] as number] as string
  const { limit, remaining, retryAfterMs } = policies[policy] as PolicyNumbers
  return {
    allowed: code < 2,
    status,
    policy,
    limit,
    remaining,
    retryAfterMs: status === 'impossible' ? null : retryAfterMs,
    resetAfterMs: unboxed(answers[start + 5] as number),
    policies,
    at: answers[start + 1] as number,
    source: 'store',
  } as Decision
}

/** What became of the operation whose answer stands in `answers` from `start` on, or `undefined` for a failure. */
export function performedAt(answers: Float64Array, start: number, names: readonly string[]): Performed | undefined {
  const decision = severalAt(answers, start, names)
  return decision === undefined ? undefined : { decision, units: answers[start + 4] as number }
}

/**
 * What became of the booking under so many policies whose answer stands in `answers` from `start` on, or
 * `undefined` for a failure. Behind the limits' numbers stands what was booked.
 */
export function bookingAt(
  answers: Float64Array,
  start: number,
  names: readonly string[],
  policies: number,
): Booking | undefined {
  const performed = performedAt(answers, start, names)
  if (performed === undefined) {
    return undefined
  }
  const { decision, units } = performed
  const at = start + (answers[start + 2] as number) + names.length * LIMIT_LENGTH
  const booked = decision.allowed ? answers.slice(at, at + policies * BOOKING_LENGTH) : undefined
  return { decision, waitUs: units, booked }
}
