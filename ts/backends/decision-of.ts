import type { Decision, PolicyNumbers } from '../api/decision.js'

/** The numbers of one policy, with those that follow from others. */
export function numbersOf(
  limit: number,
  capacity: number,
  remaining: number,
  retryAfterMs: number | null,
  nextAfterMs: number,
  resetAfterMs: number,
): PolicyNumbers {
  return { limit, capacity, used: capacity - remaining, remaining, retryAfterMs, nextAfterMs, resetAfterMs }
}

/** The times of a decision, over all policies. */
export interface DecisionTimes extends Pick<Decision, 'retryAfterMs' | 'nextAfterMs' | 'resetAfterMs'> {
  /** Default: from `retryAfterMs`, which may be 1 ms late. */
  readonly retryAt?: number | null
  /** Default: from `resetAfterMs`, which may be 1 ms late. */
  readonly resetAt?: number
}

/**
 * A decision with the numbers of its reported policy. All decisions are made here or by `decisionAt`, with the same
 * properties in the same order, so that JavaScript engines keep one hidden class for all of them.
 */
export function decisionOf(
  status: Decision['status'],
  policy: string,
  { limit, capacity, used, remaining }: PolicyNumbers,
  times: DecisionTimes,
  policies: { readonly [name: string]: PolicyNumbers },
  at: number,
  source: Decision['source'],
): Decision {
  const { retryAfterMs, nextAfterMs, resetAfterMs } = times
  const { retryAt = retryAfterMs === null ? null : wholeTime(at, retryAfterMs) } = times
  const { resetAt = wholeTime(at, resetAfterMs) } = times
  return {
    allowed: status === 'allowed' || status === 'allowed-last',
    status,
    policy,
    limit,
    capacity,
    used,
    remaining,
    retryAfterMs,
    nextAfterMs,
    resetAfterMs,
    policies,
    at,
    retryAt,
    resetAt,
    source,
  } as Decision
}

function wholeTime(at: number, ms: number): number {
  return Math.ceil(at + ms)
}
