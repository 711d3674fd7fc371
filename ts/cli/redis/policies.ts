import { type Compound, compoundOf, type Policies } from '../../compound.js'
import { isPolicyLike, type Policy } from '../../policy.js'
import { checked, wrongUsage } from '../failure.js'
import { optionsFromText, policyFromText } from '../policy-text.js'
import { fileOf } from './place.js'

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
  return policies === undefined ? undefined : enforced('--policies', policiesIn(policies))
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

function enforced(where: string, policies: unknown): Enforced {
  const compound = checked(where, () => compoundOf(policies))
  return { policies: policies as Policy | Policies, compound }
}

/** A file's policies: JSON of one, or of several by name; each as a limiter takes it, or in one line. */
function policiesIn(path: string): unknown {
  const where = `--policies: ${JSON.stringify(path)}`
  let value: unknown
  try {
    value = JSON.parse(fileOf('--policies', path))
  } catch (error) {
    if (error instanceof SyntaxError) {
      throw wrongUsage(`${where} is no JSON: ${error.message}`)
    }
    throw error
  }
  if (isPolicyLike(value) || typeof value === 'string') {
    return policyIn(value, where)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw wrongUsage(`${where} must be a policy, or an object of policies by name`)
  }
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, policyIn(one, `${where}: ${name}`)]))
}

function policyIn(value: unknown, where: string): unknown {
  return typeof value === 'string' ? policyFromText(value, where) : value
}

/** A key as calls name it: a string; or an object of parts, each given as `kind=key`, if the policies have a `per`. */
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
    const [, subject = '', key = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? []
    if (!subjects.includes(subject)) {
      throw wrongUsage(`--key must be one of ${subjects.map((name) => `${name}=…`).join(', ')}: the policies' per`)
    }
    return [subject, subject === 'global' ? true : key]
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
