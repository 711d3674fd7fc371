import { algorithmOf } from '../../../policies/policy.js'
import type { PolicySet } from '../../../policies/policy-set.js'
import type { POLICY_KINDS } from '../../protocol.js'

/** The time that Redis takes, relative to a policy with one count or time (`npm run bench -- algorithms`). */
const WEIGHTS: Partial<Record<keyof typeof POLICY_KINDS, number>> = {
  slidingWindowList: 4,
  slidingWindowHash: 4,
  slidingLog: 8,
  slidingLogs: 10,
}

export function callWeightOf({ policies }: PolicySet): number {
  return policies.reduce((sum, { policy }) => sum + (WEIGHTS[algorithmOf(policy).encode(policy)[0]] ?? 1), 0)
}
