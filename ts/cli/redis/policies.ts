import { statesOf } from '../../backends/redis/policy-registry.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import type { Policy } from '../../policies/policy.js'
import { type Policies, type PolicySet, policySetOf } from '../../policies/policy-set.js'
import { asUsageError, usageError } from '../failure.js'
import { policyOrSet, readJson } from '../policies.js'
import { parsePolicyOptions, parsePolicyText } from '../policy-text.js'

/** The options with a limiter's policies. */
export interface PolicyOptions {
  readonly policy?: string
  readonly policies?: string
}

/** A limiter's policies: as `RateLimiter` takes them, and as a validated policy set. */
export interface LimiterConfig {
  readonly policies: Policy | Policies
  readonly policySet: PolicySet
}

/** The policies of `--policy` or `--policies`; `undefined` if neither is given. */
export function configOf({ policy, policies }: PolicyOptions): LimiterConfig | undefined {
  if (policy !== undefined && policies !== undefined) {
    throw usageError('--policy and --policies exclude each other')
  }
  if (policy !== undefined) {
    return config('--policy', parsePolicyText(policy, '--policy'))
  }
  return policies === undefined ? undefined : config(policies, policyOrSet(readJson(policies), policies))
}

/**
 * The policies that limiters have registered for a prefix in the last 90 minutes.
 *
 * @param command - The name of the command that needs them.
 * @param needsNumbers - Whether the command needs their numbers, besides names and algorithms.
 * @throws {CommandFailure} if none are registered, or several that differ.
 */
export function registeredConfig(
  texts: readonly string[],
  prefix: string,
  command: string,
  needsNumbers: boolean,
): LimiterConfig {
  const text = texts.at(-1)
  const needs = `${command} needs the limiter's --policy, or --policies`
  if (text === undefined) {
    const why = `no limiter with the prefix ${prefix} has registered its policies in the last 90 minutes`
    throw usageError(`${needs}: ${why}`)
  }
  const kinds = needsNumbers ? texts : texts.map((one) => statesOf(one).join('; '))
  const other = kinds.find((kind) => kind !== kinds.at(-1))
  if (other !== undefined) {
    throw usageError(`${needs}: limiters with the prefix ${prefix} have used "${other}" and "${kinds.at(-1)}"`)
  }
  if (needsNumbers && /\b(tier|lease)=/.test(text)) {
    throw usageError(`${needs}: the numbers of ${prefix} depend on the tier or on leases`)
  }
  const policies = new Map<string, string>()
  for (const named of text.split('; ')) {
    const [, name = '', policy = ''] = /^([^:]*): (.*)$/.exec(named) ?? []
    if (!policies.has(name)) {
      policies.set(name, policy.replace(/ (lease|tier)=\S+/g, ''))
    }
  }
  const where = `the registered policies of ${prefix}`
  const single = policies.size === 1 ? policies.get('default') : undefined
  return config(
    where,
    single === undefined ? policyOrSet(Object.fromEntries(policies), where) : parsePolicyText(single, where),
  )
}

function config(where: string, policies: Policy | Policies): LimiterConfig {
  return { policies, policySet: asUsageError(where, () => policySetOf(policies)) }
}

/**
 * A key as calls pass it: a string; or, if the policies have a `per`, an object of parts, each
 * given as `dimension=key`. A dimension that counts all calls together is given as `global`.
 */
export function keyOf(
  given: readonly string[],
  policySet: PolicySet | undefined,
): string | Record<string, string | true> {
  const dimensions = policySet?.dimensions
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
  return Object.fromEntries(parts)
}

/**
 * Parses the numbers of an override for `limiter.override`: `limit=500 burst=50`. For several
 * policies, the policy's name comes first.
 */
export function numbersOf(given: readonly string[], { isSingle, policies }: PolicySet): object {
  if (!isSingle) {
    const named = given.map((text) => {
      const { algorithm: name, ...numbers } = parsePolicyOptions(text, '--numbers')
      return [name, numbers] as const
    })
    return Object.fromEntries(named)
  }
  const { policy } = policies[0] as (typeof policies)[number]
  const { algorithm: _, ...numbers } = parsePolicyOptions(`${policy.algorithm} ${given.join(' ')}`, '--numbers')
  return numbers
}
