import { readFileSync } from 'node:fs'
import { RateLimiter } from '../api/rate-limiter.js'
import { isPolicyLike, type Policy, policyOf } from '../policies/policy.js'
import type { Policies } from '../policies/policy-set.js'
import { asUsageError, environmentError, usageError } from './failure.js'
import { formatPolicyText, parsePolicyOptions } from './policy-text.js'

/** The policies of one limiter, with a name for reports. */
export interface LimiterPolicies {
  readonly name: string
  readonly policy: Policy | Policies
}

/** Creates a policy from options. `suggest` has another factory, for policies that still lack a number. */
export type PolicyFactory = (options: { algorithm: string; [option: string]: unknown }, where: string) => Policy

export const makePolicy: PolicyFactory = (options, where) => asUsageError(where, () => policyOf(options, 'the policy'))

/** The policies of `--policy`. The name of each is its normalized text. */
export function policiesFromTexts(texts: readonly string[], make: PolicyFactory = makePolicy): LimiterPolicies[] {
  return texts.map((text) => {
    const where = `--policy ${JSON.stringify(text)}`
    const policy = make(parsePolicyOptions(text, where), where)
    return { name: formatPolicyText(policy), policy }
  })
}

/**
 * Reads the policies of a JSON file: an object of policies by name. Each is a text as for `--policy`, an object with
 * its `algorithm` and numbers, or an object of several policies by name, which decide together.
 */
export function policiesFromFile(file: string, make: PolicyFactory = makePolicy): LimiterPolicies[] {
  const all = objectOf(readJson(file), file, 'must be an object of policies by name')
  const entries = Object.entries(all)
  if (entries.length === 0) {
    throw usageError(`${file} has no policy`)
  }
  return entries.map(([name, value]) => ({ name, policy: policyOrSet(value, `${file}: ${name}`, make) }))
}

export function textLinesOf(policy: Policy | Policies): string[] {
  if (isPolicyLike(policy)) {
    return [formatPolicyText(policy as Policy)]
  }
  return Object.entries(policy as Policies).map(([name, one]) => `${name}: ${formatPolicyText(one)}`)
}

/** The policies of one limiter: a text, an object with its `algorithm`, or an object of these by name. */
export function policyOrSet(value: unknown, where: string, make: PolicyFactory = makePolicy): Policy | Policies {
  if (typeof value === 'string' || isPolicyLike(value)) {
    return policyFrom(value, where, make)
  }
  const parts = Object.entries(objectOf(value, where))
  const policies = Object.fromEntries(parts.map(([name, part]) => [name, policyFrom(part, `${where}.${name}`, make)]))
  // Checks the rules for all of them together: their number, their names and their key dimensions.
  asUsageError(where, () => void new RateLimiter(policies).close())
  return policies
}

export function policyFrom(value: unknown, where: string, make: PolicyFactory = makePolicy): Policy {
  if (typeof value === 'string') {
    return make(parsePolicyOptions(value, where), where)
  }
  return make(value as { algorithm: string }, where)
}

export function readJson(file: string): unknown {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw environmentError(`${file}: ${code === 'ENOENT' ? 'there is no such file' : message}`)
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    throw usageError(`${file} is not valid JSON: ${(error as Error).message}`)
  }
}

const ANY_RULE =
  'must be a string such as "gcra limit=100 period=1m", an object with an algorithm, or an object of these by name'

export function objectOf(value: unknown, where: string, rule = ANY_RULE): object {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value
  }
  throw usageError(`${where} ${rule}`)
}
