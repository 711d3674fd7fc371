import { policiesIn, policySetsText } from '../../backends/redis/policy-registry.js'
import { withoutWarnings } from '../../input/duration.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import { isPolicyLike, type Policy } from '../../policies/policy.js'
import { type Policies, type PolicySet, policySetsOf, type TieredPolicies } from '../../policies/policy-set.js'
import { isTieredLike } from '../../policies/tiers.js'
import { asUsageError, fromUniqueEntries, usageError } from '../failure.js'
import { objectOf, policyFrom, readJson } from '../policies.js'
import { parsePolicyOptions } from '../policy-text.js'
import { escapeControls, shellWord } from '../terminal.js'

export interface PolicyOptions {
  readonly policy?: string
  readonly policies?: string
  readonly tier?: string
}

/** A limiter's policies: as `RateLimiter` takes them, and as validated policy sets. */
export interface LimiterConfig {
  readonly policies: Policy | Policies | TieredPolicies
  /** The policies of each tier; without tiers one set for all calls. */
  readonly policySets: readonly PolicySet[]
  /** The first of them. All have the same names, algorithms and key dimensions. */
  readonly policySet: PolicySet
  /** The names of the tiers; empty without tiers. */
  readonly tiers: readonly string[]
}

/** The policies of `--policy` or `--policies`; `undefined` if neither is given. */
export function configOf({ policy, policies }: PolicyOptions): LimiterConfig | undefined {
  if (policy !== undefined && policies !== undefined) {
    throw usageError('--policy and --policies exclude each other')
  }
  if (policy !== undefined) {
    return configOfValue(policy, '--policy')
  }
  return policies === undefined ? undefined : configOfValue(readJson(policies), policies)
}

/** Policies by a text, an object with its `algorithm`, one with `tiers`, or an object of these by name. */
export function configOfValue(value: unknown, where: string): LimiterConfig {
  const policies = (
    typeof value === 'string' || isPolicyLike(value) || hasTiers(value)
      ? tieredFrom(value, where)
      : Object.fromEntries(
          Object.entries(objectOf(value, where)).map(([name, part]) => [name, tieredFrom(part, `${where}.${name}`)]),
        )
  ) as LimiterConfig['policies']
  const policySets = asUsageError(where, () => withoutWarnings(() => policySetsOf(policies)))
  const tiers = policySets.flatMap(({ tier }) => tier ?? [])
  return { policies, policySets, policySet: policySets[0] as PolicySet, tiers }
}

function hasTiers(value: unknown): value is { readonly tiers: object } {
  return isTieredLike(value) && typeof value.tiers === 'object'
}

function tieredFrom(value: unknown, where: string): unknown {
  if (!hasTiers(value)) {
    return policyFrom(value, where)
  }
  const { tiers, ...others } = value
  const own = Object.entries(objectOf(tiers, where)).map(([tier, one]) => [tier, policyFrom(one, `${where}.${tier}`)])
  return { ...others, tiers: Object.fromEntries(own) }
}

/** The policies of `--tier`, or of all calls; `undefined` if the limiter has tiers and none is given. */
export function policySetOfTier({ policySets, tiers }: LimiterConfig, tier: string | undefined): PolicySet | undefined {
  if (tier !== undefined && !tiers.includes(tier)) {
    const rule = tiers.length === 0 ? 'the limiter has no tiers' : `it must be ${listed(tiers)}`
    throw usageError(`--tier: ${rule}`)
  }
  return tiers.length === 0 ? policySets[0] : policySets.find((policySet) => policySet.tier === tier)
}

const MAX_LISTED = 20

/** The names of tiers, for messages: `one of free, pro`. */
export function listed(tiers: readonly string[]): string {
  const names = tiers.length > MAX_LISTED ? [...tiers.slice(0, MAX_LISTED), '…'] : tiers
  return `${tiers.length > 1 ? 'one of ' : ''}${names.join(', ')}`
}

/** Throws if limiters have registered other numbers: a change under these numbers could remove counts from the key. */
export function checkNumbers({ policySets }: LimiterConfig, texts: readonly string[], prefix: string): void {
  const registered = texts.flatMap((text) =>
    policiesIn(text)
      .replace(/ (?:lease|tier)=\S+/g, '')
      .split('; '),
  )
  const given = policySetsText(policySets)
    .replace(/ tier=\S+/g, '')
    .split('; ')
  const other = given.find((text) => !registered.includes(text))
  if (registered.length > 0 && other !== undefined) {
    const used = [...new Set(registered)].map(quoted).join(' and ')
    const fix = 'omit --policy and --policies, or give these, or --force'
    throw usageError(`nothing was done: limiters with the prefix ${prefix} use ${used}, not ${quoted(other)}; ${fix}`)
  }
}

export function quoted(text: string): string {
  return `"${escapeControls(text)}"`
}

/** The usage error for two keys of one dimension. */
export function keyGivenTwice(dimension: string): string {
  const part = dimension === GLOBAL ? GLOBAL : `${dimension}=…`
  return `--key ${part} is given twice: a call has one key for each per, so run the command once for each key`
}

/** A key as calls pass it. With dimensions, each part is given as `dimension=key`, or as `global`. */
export function keyOf(given: readonly string[], { dimensions }: PolicySet): string | Record<string, string | true> {
  if (dimensions === undefined) {
    const [key = '', ...more] = given
    if (more.length > 0) {
      throw usageError('--key is given twice: only policies with a per take several')
    }
    return key
  }
  const parts = given.map((text): readonly [string, string | true] => {
    if (text === GLOBAL && dimensions.includes(GLOBAL)) {
      return [GLOBAL, true]
    }
    const [, dimension = '', key = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? []
    if (dimension === GLOBAL || !dimensions.includes(dimension)) {
      const kinds = dimensions.map((name) => (name === GLOBAL ? name : `${name}=…`))
      throw usageError(`--key must be one of ${kinds.join(', ')}: the policies' per`)
    }
    return [dimension, key]
  })
  return fromUniqueEntries(parts, keyGivenTwice)
}

/** A stored key as a word of a shell that `--key` takes: see {@link keyOf}. */
export function keyWordOf({
  key,
  dimension,
}: {
  readonly key: string
  readonly dimension?: string | undefined
}): string {
  return shellWord(dimension === undefined ? key : dimension === GLOBAL ? GLOBAL : `${dimension}=${key}`)
}

/** Parses the numbers of an override: `limit=500 burst=50`. For several policies, the policy's name comes first. */
export function numbersOf(given: readonly string[], { isSingle, policies }: PolicySet): object {
  if (!isSingle) {
    const named = given.map((text) => {
      const { algorithm: name, ...numbers } = parsePolicyOptions(text, '--numbers')
      return [name, numbers] as const
    })
    return fromUniqueEntries(named, (name) => {
      return `--numbers '${name} …' is given twice: write all numbers of a policy in one text`
    })
  }
  const { policy } = policies[0] as (typeof policies)[number]
  const { algorithm: _, ...numbers } = parsePolicyOptions(`${policy.algorithm} ${given.join(' ')}`, '--numbers')
  return numbers
}
