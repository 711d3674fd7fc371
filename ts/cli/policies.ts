import { readFileSync } from 'node:fs'
import { RateLimiter } from '../api/rate-limiter.js'
import { isPolicyLike, type Policy, policyOf } from '../policies/policy.js'
import type { Policies } from '../policies/policy-set.js'
import { checked, failedOutside, wrongUsage } from './failure.js'
import { optionsFromText, textOfPolicy } from './policy-text.js'

/** What a limiter is made of, under the name by which reports speak of it. */
export interface NamedPolicy {
  readonly name: string
  readonly policy: Policy | Policies
}

/** Makes a policy of options; one that only has a shape, and gets its numbers later, is made otherwise. */
export type Maker = (options: { algorithm: string; [option: string]: unknown }, where: string) => Policy

export const exactly: Maker = (options, where) => checked(where, () => policyOf(options, 'the policy'))

/** The policies that `--policy` gives, each named by its text, as tollgate writes it. */
export function policiesFromTexts(texts: readonly string[], make: Maker = exactly): NamedPolicy[] {
  return texts.map((text) => {
    const where = `--policy ${JSON.stringify(text)}`
    const policy = make(optionsFromText(text, where), where)
    return { name: textOfPolicy(policy), policy }
  })
}

/**
 * The policies of a JSON file: an object of policies by name. Each is a text as for `--policy`, an object with its
 * `algorithm` and numbers, or an object of several of these by name, which decide together.
 *
 * @throws {CommandFailure} that says where in the file the flaw is.
 */
export function policiesFromFile(file: string, make: Maker = exactly): NamedPolicy[] {
  const all = objectOf(parsed(file), `${file} must be an object of policies by name`)
  const entries = Object.entries(all)
  if (entries.length === 0) {
    throw wrongUsage(`${file} has no policy`)
  }
  return entries.map(([name, value]) => ({ name, policy: oneOrSeveral(value, `${file}: ${name}`, make) }))
}

/** What a limiter is made of, in a line or in one for each policy. */
export function textsOf(policy: Policy | Policies): string[] {
  if (isPolicyLike(policy)) {
    return [textOfPolicy(policy as Policy)]
  }
  return Object.entries(policy as Policies).map(([name, one]) => `${name}: ${textOfPolicy(one)}`)
}

/** What one limiter is made of: a text, an object with its `algorithm`, or an object of these by name. */
export function oneOrSeveral(value: unknown, where: string, make: Maker = exactly): Policy | Policies {
  if (typeof value === 'string' || isPolicyLike(value)) {
    return one(value, where, make)
  }
  const rule = `${where} must be a text such as "gcra limit=100 period=1m", an object with an algorithm, or an object of these by name`
  const parts = Object.entries(objectOf(value, rule))
  const policies = Object.fromEntries(parts.map(([name, part]) => [name, one(part, `${where}.${name}`, make)]))
  // What only all of them together can break: their number, their names, their kinds of keys.
  checked(where, () => void new RateLimiter(policies).close())
  return policies
}

function one(value: unknown, where: string, make: Maker): Policy {
  if (typeof value === 'string') {
    return make(optionsFromText(value, where), where)
  }
  return make(value as { algorithm: string }, where)
}

/** What a file of JSON holds. */
export function parsed(file: string): unknown {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw failedOutside(`${file}: ${code === 'ENOENT' ? 'there is no such file' : message}`)
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    throw wrongUsage(`${file} is no JSON: ${(error as Error).message}`)
  }
}

function objectOf(value: unknown, rule: string): object {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value
  }
  throw wrongUsage(rule)
}
