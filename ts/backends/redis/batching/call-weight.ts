import type { Policy } from '../../../policies/policy.js'
import type { Compound } from '../../../policies/policy-set.js'

/**
 * How much longer Redis takes for a decision than for one under a policy that keeps a count or a time
 * (`npm run bench -- algorithms`).
 */
const WEIGHTS: Partial<Record<Policy['algorithm'], number>> = {
  slidingWindow: 4,
  slidingLog: 8,
  slidingLogs: 10,
}

/** How long Redis takes for a call, in decisions under a simple policy. */
export function weightOf({ policies }: Compound): number {
  return policies.reduce((sum, { policy }) => sum + (WEIGHTS[policy.algorithm] ?? 1), 0)
}
