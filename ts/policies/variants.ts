import { shown } from '../input/options.js'
import type { PolicyEntry, PolicySet } from './policy-set.js'
import { differenceOf } from './tiers.js'

/**
 * The first way in which the policies of two limiters differ, except by numbers, as a part of a message; `undefined` for
 * variants of each other. Each list has the policies by tier.
 */
export function differenceBetween(own: readonly PolicySet[], others: readonly PolicySet[]): string | undefined {
  return (
    changedNames('the tiers', own.map(tierOf), others.map(tierOf)) ??
    own
      .map((policySet, tier) => differenceInTier(policySet, others[tier] as PolicySet))
      .find((text) => text !== undefined)
  )
}

function differenceInTier(one: PolicySet, other: PolicySet): string | undefined {
  const names = changedNames('the names of policies', namesOf(one), namesOf(other))
  if (names !== undefined) {
    return names
  }
  for (const [index, { name, policy }] of one.policies.entries()) {
    const difference = differenceOf(policy, (other.policies[index] as PolicyEntry).policy)
    if (difference !== undefined) {
      const [option, before, now] = difference
      return `${option}${one.isSingle ? '' : ` of policies.${name}`} was ${shown(before)} and is now ${shown(now)}`
    }
  }
  return undefined
}

function changedNames(what: string, before: readonly string[], now: readonly string[]): string | undefined {
  const [old, changed] = [before, now].map((names) => names.join(', '))
  return old === changed ? undefined : `${what} were ${old} and are now ${changed}`
}

const NONE = '(none)'

function tierOf({ tier }: PolicySet): string {
  return tier ?? NONE
}

function namesOf({ isSingle, policies }: PolicySet): readonly string[] {
  return isSingle ? [NONE] : policies.map(({ name }) => name)
}
