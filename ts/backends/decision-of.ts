import type { Decision, PolicyNumbers } from '../api/decision.js'

/** The numbers of one policy, with those that follow from others. */
export function numbersOf(
  limit: number,
  capacity: number,
  remaining: number,
  retryAfterMs: number | null,
  resetAfterMs: number,
): PolicyNumbers {
  return { limit, capacity, used: capacity - remaining, remaining, retryAfterMs, resetAfterMs }
}

/**
 * A decision with the numbers of its reported policy, and the times that follow from them.
 *
 * All decisions are made here or by `decisionAt`. They have the same properties in the same order,
 * so JavaScript engines keep one hidden class for all of them.
 *
 * @param reported - The numbers of the policy that the decision reports.
 * @param resetAfterMs - The time until the key is fresh under all policies.
 */
export function decisionOf(
  status: Decision['status'],
  policy: string,
  { limit, capacity, used, remaining }: PolicyNumbers,
  retryAfterMs: number | null,
  resetAfterMs: number,
  policies: { readonly [name: string]: PolicyNumbers },
  at: number,
  source: Decision['source'],
): Decision {
  return {
    allowed: status === 'allowed' || status === 'allowed-last',
    status,
    policy,
    limit,
    capacity,
    used,
    remaining,
    retryAfterMs,
    resetAfterMs,
    policies,
    at,
    retryAt: retryAfterMs === null ? null : wholeTime(at, retryAfterMs),
    resetAt: wholeTime(at, resetAfterMs),
    source,
  } as Decision
}

/** The time some milliseconds after another, in whole epoch milliseconds, rounded up. */
export function wholeTime(at: number, ms: number): number {
  return Math.ceil(at + ms)
}
