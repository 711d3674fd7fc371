import { GLOBAL } from '../../policies/key-dimension.js'
import type { Policy } from '../../policies/policy.js'
import { type Compound, compoundOf, type Policies } from '../../policies/policy-set.js'
import { checked, wrongUsage } from '../failure.js'
import { oneOrSeveral, parsed } from '../policies.js'
import { optionsFromText, policyFromText } from '../policy-text.js'

/** The options that say what a limiter enforces. */
export interface PolicyOptions {
  readonly policy?: string
  readonly policies?: string
}

/** What a limiter enforces: as `RateLimiter` takes it, and checked. */
export interface Enforced {
  readonly policies: Policy | Policies
  readonly compound: Compound
}

/** What `--policy` or `--policies` says; `undefined` if neither is given. */
export function enforcedOf({ policy, policies }: PolicyOptions): Enforced | undefined {
  if (policy !== undefined && policies !== undefined) {
    throw wrongUsage('--policy and --policies exclude each other')
  }
  if (policy !== undefined) {
    return enforced('--policy', policyFromText(policy, '--policy'))
  }
  return policies === undefined ? undefined : enforced(policies, oneOrSeveral(parsed(policies), policies))
}

/** The same, where it must be given. */
export function neededEnforced(options: PolicyOptions, command: string): Enforced {
  const given = enforcedOf(options)
  if (given === undefined) {
    const why = 'a key lies in Redis under the name and the algorithm of its policy'
    throw wrongUsage(`${command} needs the limiter's --policy, or --policies: ${why}`)
  }
  return given
}

function enforced(where: string, policies: Policy | Policies): Enforced {
  return { policies, compound: checked(where, () => compoundOf(policies)) }
}

/**
 * A key as calls name it: a string; or an object of parts, each given as `kind=key` (what counts all calls together as
 * `global`), if the policies have a `per`.
 */
export function keyOf(
  given: readonly string[],
  compound: Compound | undefined,
): string | Record<string, string | true> {
  const subjects = compound?.subjects
  if (subjects === undefined) {
    const [key = '', ...more] = given
    if (more.length > 0) {
      throw wrongUsage('--key is given twice: only policies with a per have several')
    }
    return key
  }
  const parts = given.map((text): readonly [string, string | true] => {
    if (text === GLOBAL && subjects.includes(GLOBAL)) {
      return [GLOBAL, true]
    }
    const [, subject = '', key = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? []
    if (subject === GLOBAL || !subjects.includes(subject)) {
      const kinds = subjects.map((name) => (name === GLOBAL ? name : `${name}=…`))
      throw wrongUsage(`--key must be one of ${kinds.join(', ')}: the policies' per`)
    }
    return [subject, key]
  })
  return Object.fromEntries(parts)
}

/** The numbers of an override, as `limiter.override` takes them: `limit=500 burst=50`; of several policies behind a name. */
export function numbersOf(given: readonly string[], { isSingle, policies }: Compound): object {
  if (!isSingle) {
    const named = given.map((text) => {
      const { algorithm: name, ...numbers } = optionsFromText(text, '--numbers')
      return [name, numbers] as const
    })
    return Object.fromEntries(named)
  }
  const { policy } = policies[0] as (typeof policies)[number]
  const { algorithm: _, ...numbers } = optionsFromText(`${policy.algorithm} ${given.join(' ')}`, '--numbers')
  return numbers
}
