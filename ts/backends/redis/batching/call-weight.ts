import type { Policy } from '../../../policies/policy.js'
import type { PolicySet } from '../../../policies/policy-set.js'

/** The time that Redis takes, relative to a policy with one count or time (`npm run bench -- algorithms`). */
const WEIGHTS: Partial<Record<Policy['algorithm'], number>> = {
  slidingWindow: 4,
  slidingLog: 8,
  slidingLogs: 10,
}

export function callWeightOf({ policies }: PolicySet): number {
  return policies.reduce((sum, { policy }) => sum + (WEIGHTS[policy.algorithm] ?? 1), 0)
}
