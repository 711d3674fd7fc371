import { TollgateError } from '../../api/error.js'
import { microsOf } from '../../input/duration.js'
import { algorithmOf, type Policy, policyOf } from '../../policies/policy.js'
import type { PolicyEntry, PolicySet } from '../../policies/policy-set.js'
import { MIN_LEASE_MS } from './local-options.js'

/**
 * The policies under which the store charges units that may be used up to `leaseMs` later.
 *
 * **Law:** they keep the law of the original policies. A unit that is used at x was charged between
 * x − L and x. So the units used in a span of length t were charged in a span of length t + L. The
 * store charges at most b + R · (t + L) units in it, at a rate R with a burst b. With
 * b = B − ⌈R · L⌉ these are at most B + R · t, the law of a burst B. Windows stay as they are: a unit
 * is used in the window that counts it.
 *
 * Tiers with a burst of at most B and a rate of at most R keep the law B + R · t of their mix. The store
 * charges under any of them at most b + R · (t + L) units in a span of t + L, with the largest reduced
 * burst b. So no tier's reduced burst is above B − ⌈R · L⌉.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 */
export function leasedPolicySet(policySet: PolicySet, leaseMs: number): PolicySet {
  const policies = policySet.policies.map((entry, index) => {
    const where = policySet.isSingle ? '' : `policies.${entry.name}: `
    return { ...entry, policy: leasedPolicy(entry.policy, leaseMs, where, tiersOf(policySet, index)) }
  })
  return { ...policySet, policies, leaseMs }
}

/** {@link leasedPolicySet} for the policies of an override; `undefined` for a policy without one. */
export function leasedOverride(
  policySet: PolicySet,
  policies: readonly (Policy | undefined)[],
  leaseMs: number,
): readonly (Policy | undefined)[] {
  return policies.map((policy, index) => {
    const name = policySet.isSingle ? '' : `${(policySet.policies[index] as PolicyEntry).name}: `
    return policy && leasedPolicy(policy, leaseMs, `override: ${name}`, tiersOf(policySet, index))
  })
}

function tiersOf({ allTiers = [] }: PolicySet, index: number): readonly Policy[] {
  return allTiers.map(({ policies }) => (policies[index] as PolicyEntry).policy)
}

function burstOf(policy: Policy): number {
  return 'debt' in policy ? policy.capacity : algorithmOf(policy).largestCost(policy)
}

function leasedPolicy(policy: Policy, leaseMs: number, where: string, tiers: readonly Policy[]): Policy {
  const { lease, rate } = algorithmOf(policy)
  const name = `${where}${policy.algorithm}`
  if (lease === undefined || ('refillMode' in policy && policy.refillMode === 'interval')) {
    const mode = lease === undefined ? '' : " with refillMode: 'interval'"
    const those = 'gcra, leakyBucket, tokenBucket with continuous refill, fixedWindow or calendarWindow'
    throw new TollgateError('INVALID_OPTION', `local.lease needs ${those}, got ${name}${mode}`)
  }
  if ('countRefused' in policy && policy.countRefused) {
    const rule = `cannot be used with countRefused (${name}): the store has to count every attempt`
    throw new TollgateError('INVALID_OPTION', `local.lease ${rule}`)
  }
  const numbers = rate?.(policy)
  const units = numbers === undefined ? 0 : unitsWithin(leaseMs, numbers.units, numbers.periodMs)
  const leased = lease(policy, numbers === undefined ? 0 : Math.max(units, unitsAmong(policy, tiers, leaseMs)))
  if (leased === undefined && numbers !== undefined) {
    const burst = burstOf(policy)
    const longestMs = Math.floor(((burst - 1) * numbers.periodMs) / numbers.units)
    const advice =
      longestMs < MIN_LEASE_MS
        ? 'choose a larger burst, or no lease'
        : `choose a larger burst, or a lease of at most ${longestMs}ms`
    const rule = `must be so short that fewer units than the burst come back in it`
    throw new TollgateError(
      'INVALID_OPTION',
      `local.lease ${rule}: in ${leaseMs}ms ${units} units come back, and the burst of ${name} is ${burst}; ${advice}`,
    )
  }
  return policyOf({ ...policy, ...leased })
}

function unitsAmong(policy: Policy, tiers: readonly Policy[], leaseMs: number): number {
  const all = [policy, ...tiers]
  const within = (one: Policy): number => {
    const numbers = algorithmOf(one).rate?.(one)
    return numbers === undefined ? 0 : unitsWithin(leaseMs, numbers.units, numbers.periodMs)
  }
  return burstOf(policy) - (Math.max(...all.map(burstOf)) - Math.max(...all.map(within)))
}

function unitsWithin(ms: number, units: number, periodMs: number): number {
  const [time, period] = [BigInt(microsOf(ms)), BigInt(microsOf(periodMs))]
  return Number((BigInt(units) * time + period - 1n) / period)
}
