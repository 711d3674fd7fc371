import type { Policy } from '../../../policies/policy.js'
import type { PolicySet } from '../../../policies/policy-set.js'

/**
 * How much longer Redis takes for a decision than under a policy that stores one count or time
 * (`npm run bench -- algorithms`).
 */
const WEIGHTS: Partial<Record<Policy['algorithm'], number>> = {
  slidingWindow: 4,
  slidingLog: 8,
  slidingLogs: 10,
}

/** The cost of a call to Redis, in units of a decision under a simple policy. */
export function callWeightOf({ policies }: PolicySet): number {
  return policies.reduce((sum, { policy }) => sum + (WEIGHTS[policy.algorithm] ?? 1), 0)
}
