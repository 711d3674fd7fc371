import { policySetsText, statesOf } from '../../backends/redis/policy-registry.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import type { Policy } from '../../policies/policy.js'
import { type Policies, type PolicySet, policySetOf } from '../../policies/policy-set.js'
import { asUsageError, usageError } from '../failure.js'
import { policyOrSet, readJson } from '../policies.js'
import { parsePolicyOptions, parsePolicyText } from '../policy-text.js'
import { escapeControls } from '../terminal.js'

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

/** The option of tiers and of leases in a registered text. */
const VARIANT = / (lease|tier)=\S+/g

/**
 * Throws if limiters have registered policies with other numbers: a change under these numbers could
 * remove counts from the state of the key.
 *
 * @throws {CommandFailure}
 */
export function checkNumbers({ policySet }: LimiterConfig, texts: readonly string[], prefix: string): void {
  const registered = texts.flatMap((text) => text.replace(VARIANT, '').split('; '))
  const given = policySetsText([policySet]).split('; ')
  const other = given.find((text) => !registered.includes(text))
  if (registered.length > 0 && other !== undefined) {
    const used = [...new Set(registered)].map(quoted).join(' and ')
    const fix = 'omit --policy and --policies, or give these, or --force'
    throw usageError(`nothing was done: limiters with the prefix ${prefix} use ${used}, not ${quoted(other)}; ${fix}`)
  }
}

/**
 * The policies that limiters have registered for a prefix in the last 90 minutes.
 *
 * @param texts - The registered texts; at least one.
 * @param command - The name of the command that needs them.
 * @param needsNumbers - Whether the command needs their numbers, besides names and algorithms.
 * @throws {CommandFailure} if they differ.
 */
export function registeredConfig(
  texts: readonly [string, ...string[]],
  prefix: string,
  command: string,
  needsNumbers: boolean,
): LimiterConfig {
  const text = texts.at(-1) as string
  const needs = needOf(command)
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
      policies.set(name, policy.replace(VARIANT, ''))
    }
  }
  const where = `the registered policies of ${prefix}`
  const single = policies.size === 1 ? policies.get('default') : undefined
  return config(
    where,
    single === undefined ? policyOrSet(Object.fromEntries(policies), where) : parsePolicyText(single, where),
  )
}

function quoted(text: string): string {
  return `"${escapeControls(text)}"`
}

/** The need of a command, for messages. */
export function needOf(command: string): string {
  return `${command} needs the limiter's --policy, or --policies`
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
