import type { LimiterBackend } from '../backends/limiter-backend.js'
import type { Charge, OperationResult, RefundOperation } from '../backends/operation.js'
import type { Units } from '../backends/units.js'
import { microsOf } from '../input/duration.js'
import { Keys } from '../input/keys.js'
import { invalid, shown } from '../input/options.js'
import type { PolicySet } from '../policies/policy-set.js'
import type { Decision, PolicyNumbers } from './decision.js'
import type { RefundCredit } from './decision-metadata.js'
import { TollgateError } from './error.js'

/** The key and the tier that the caller of a refund names. */
export interface RefundKey {
  readonly keys: Keys
  readonly tier: unknown
}

/** @throws {TollgateError} `INVALID_OPTION` unless the decision has this key and, if one is given, this tier. */
export function checkRefundKey({ key, tier }: RefundCredit, given: RefundKey | undefined): void {
  const own = typeof key === 'string' ? [key] : key.keys
  if (given !== undefined && own.some((one, index) => one !== given.keys.keys[index])) {
    throw new TollgateError('INVALID_OPTION', 'refund: key must be the key of the decision, got another')
  }
  if (given?.tier !== undefined && given.tier !== tier) {
    throw invalid('INVALID_OPTION', 'refund: tier', `must be ${shown(tier)}, the tier of the decision`, given.tier)
  }
}

/** The operation that refunds units of a decision on a call of `cost` units, of which `kept` stay charged. */
export function refundOperationFor(
  policySet: PolicySet,
  decision: Decision,
  units: Units,
  cost: Units,
  kept: Units,
): RefundOperation {
  return { kind: 'refund', source: decision.source, ...chargeFor(policySet, decision, units), cost, kept }
}

export function chargeFor({ policies, limits }: PolicySet, decision: Decision, units: Units): Charge {
  const { at, policies: numbers } = decision
  const atUs = microsOf(at)
  const resetAtUs = policies.map(() => atUs)
  const marks = policies.map(() => 0)
  const used = policies.map(() => 0)
  for (const { name, policy } of limits) {
    marks[policy] = decision.marks?.[name] ?? 0
    const { capacity, limit, remaining, resetAfterMs } = numbers[name] as PolicyNumbers
    // Without remaining units a bucket may be in debt, and shows only that it is empty.
    used[policy] = remaining > 0 ? capacity - remaining : Math.min(limit, capacity)
    resetAtUs[policy] = Math.max(resetAtUs[policy] as number, atUs + microsOf(resetAfterMs))
  }
  return { units, atUs, resetAtUs, marks, used }
}

export async function performRefund(
  backend: LimiterBackend,
  credit: RefundCredit,
  refund: RefundOperation,
): Promise<OperationResult> {
  const keys = typeof credit.key === 'string' ? new Keys([credit.key], undefined) : credit.key
  try {
    return await backend.execute(keys, refund)
  } catch (error) {
    if (!TollgateError.is(error) || error.charged === false) {
      credit.release(refund.units)
    }
    throw error
  }
}
