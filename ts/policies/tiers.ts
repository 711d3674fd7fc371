import { TollgateError } from '../api/error.js'
import { checkCount, invalid, nameOf, shown } from '../input/options.js'
import { meterOf } from './meter.js'
import { isPolicyLike, limitNamesOf, type Policy, policyOf } from './policy.js'

/**
 * A policy whose numbers depend on the caller's tier, such as a plan: one policy for each tier, all of one algorithm.
 * It is plain data, as a {@link Policy} is.
 *
 * @typeParam P - The type of the policies.
 * @typeParam T - The names of the tiers.
 *
 * @example
 * const plans: TieredPolicy<GcraPolicy, 'free' | 'pro'> = tiers({
 *   free: gcra({ limit: 10, period: '1m' }),
 *   pro: gcra({ limit: 1_000, period: '1m' }),
 * })
 */
export interface TieredPolicy<P extends Policy = Policy, T extends string = string> {
  readonly tiers: { readonly [Tier in T]: P }
}

export const MAX_TIERS = 1_000

/**
 * A policy whose numbers depend on the caller's tier. Each call names its tier: `take(key, { tier: 'pro' })`.
 *
 * All tiers count on the key's one state. Used units stay charged when a key changes its tier.
 *
 * **Law:** a key that is called under one tier obeys the law of that tier's policy; a key that is called under several
 * tiers, the law with the largest numbers among them.
 *
 * @param tiers - 1 to 1,000 policies by name (letters, digits, `_`, `.` and `-`, up to 32, starting
 * with a letter). They have the same algorithm, `per` and `meter`, and differ in numbers only.
 * @throws {TollgateError} `INVALID_POLICY`
 *
 * @example
 * const limiter = new RateLimiter(
 *   tiers({
 *     free: gcra({ limit: 10, period: '1m' }),
 *     pro: gcra({ limit: 1_000, period: '1m' }),
 *   }),
 * )
 * await limiter.take('user:42', { tier: 'pro' })
 */
export function tiers<P extends Policy, const T extends string>(
  tiers: { readonly [Tier in T]: P },
): TieredPolicy<P, NoInfer<T>> {
  checkCount(arguments.length, 1, 'tiers takes an object of policies', 'write tiers({ free: gcra(…), pro: gcra(…) })')
  return tieredPolicyOf({ tiers }) as TieredPolicy<P, T>
}

export function isTieredLike(value: unknown): value is { readonly tiers: unknown } {
  return typeof value === 'object' && value !== null && 'tiers' in value && !isPolicyLike(value.tiers)
}

/** Checks a policy with tiers. `where` names the value in messages. */
export function tieredPolicyOf(value: { readonly tiers: unknown }, where = 'tiers'): TieredPolicy {
  const { tiers, ...others } = value
  const [other] = Object.keys(others)
  if (other !== undefined) {
    throw new TollgateError('INVALID_POLICY', `${where} takes only tiers, got ${shown(other)}`)
  }
  if (typeof tiers !== 'object' || tiers === null || Array.isArray(tiers)) {
    throw invalid('INVALID_POLICY', where, 'must be an object of policies by tier', tiers)
  }
  const entries = Object.entries(tiers)
  if (entries.length < 1 || entries.length > MAX_TIERS) {
    throw new TollgateError('INVALID_POLICY', `${where} must be 1 to ${MAX_TIERS} policies, got ${entries.length}`)
  }
  const checked = entries.map(([tier, policy]) => {
    nameOf(`${where}: the name of a tier`, tier, 'INVALID_POLICY')
    return [tier, policyOf(policy, `${where}.${tier}`)] as const
  })
  const [[firstTier, first]] = checked as [readonly [string, Policy]]
  for (const [tier, policy] of checked) {
    const difference = differenceOf(first, policy)
    if (difference !== undefined) {
      const [name, own, others] = difference
      const values = `${name} is ${shown(own)} in ${firstTier} and ${shown(others)} in ${tier}`
      throw new TollgateError(
        'INVALID_POLICY',
        `${where} must differ in numbers only: ${values}; use a limiter for each`,
      )
    }
  }
  return Object.freeze({ tiers: Object.freeze(Object.fromEntries(checked)) })
}

/** The first way in which two policies differ, except by numbers. */
export function differenceOf(
  one: Policy,
  other: Policy,
): readonly [name: string, one: unknown, other: unknown] | undefined {
  const [names, otherNames] = [one, other].map((policy) => limitNamesOf(policy)?.join(', '))
  if (one.algorithm === other.algorithm && names !== otherNames) {
    return ['the names of the limits', names ?? 'none', otherNames ?? 'none']
  }
  const compared = ['algorithm', 'per', 'layout', 'refillMode', 'countRefused', 'every', 'timeZone'] as const
  for (const name of compared) {
    const [own, others] = [one, other].map((policy) => Reflect.get(policy, name) as unknown)
    if (own !== others) {
      return [name, own, others]
    }
  }
  const [meter, otherMeter] = [meterOf(one), meterOf(other)]
  if (meter !== otherMeter) {
    return ['meter', meter, otherMeter]
  }
  // The number may differ, but calls of a policy without one must name the meter.
  const isDifferent = (one.defaultCost === undefined) !== (other.defaultCost === undefined)
  return isDifferent ? ['defaultCost', one.defaultCost, other.defaultCost] : undefined
}
