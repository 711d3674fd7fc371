import { isDeepStrictEqual } from 'node:util'
import { warnOfShorts } from '../input/duration.js'
import { optionInWords, RATES } from '../input/policy-text.js'
import { type Policy, policyOf } from '../policies/policy.js'
import { checked, wrongUsage } from './failure.js'

/** Reads like the call in a program: `gcra({ limit: 100, period: '1m', burst: 20 })`. */
export const POLICY_TEXT_RULE = "an algorithm and its numbers, such as 'gcra limit=100 period=1m burst=20'"

/**
 * A policy that is written in one line: the algorithm's function and its options, `name=value`.
 *
 * What stands in an object has a name with a dot, `limits.short.limit=10`; or, for an amount for a length of time, it is
 * written as one: `refill=10/1s`, `leak=5/1s`, `limits.short=10/1s`.
 *
 * @param where - Where the text stands, for the message.
 * @throws {CommandFailure} with the rule that is broken.
 */
export function policyFromText(text: string, where: string): Policy {
  return checked(where, () => policyOf(optionsFromText(text, where)))
}

/** What {@link policyFromText} takes for the policy's options, unchecked, with the `algorithm`. */
export function optionsFromText(text: string, where: string): { algorithm: string; [option: string]: unknown } {
  const [algorithm = '', ...words] = text.trim().split(/\s+/)
  if (algorithm === '' || algorithm.includes('=')) {
    throw wrongUsage(`${where} must be ${POLICY_TEXT_RULE}`)
  }
  const options = { algorithm }
  for (const word of words) {
    const [, name, value] = /^([A-Za-z][\w.-]*)=(.+)$/.exec(word) ?? []
    if (name === undefined || value === undefined || name.split('.').includes('__proto__')) {
      throw wrongUsage(`${where}: ${JSON.stringify(word)} must be name=value: a policy is ${POLICY_TEXT_RULE}`)
    }
    put(options, name.split('.'), value, where)
  }
  warnOfShorts(`${where}: `, options)
  return options
}

/** Puts a value where its name's parts say. */
function put(options: object, path: readonly string[], text: string, where: string): void {
  let place = options as Record<string, unknown>
  for (const part of path.slice(0, -1)) {
    const inner = Object.hasOwn(place, part) ? place[part] : {}
    if (typeof inner !== 'object' || inner === null) {
      throw wrongUsage(`${where}: ${path.join('.')} has a value already`)
    }
    place[part] = inner
    place = inner as Record<string, unknown>
  }
  const last = path.at(-1) as string
  if (Object.hasOwn(place, last)) {
    throw wrongUsage(`${where}: ${path.join('.')} is given twice`)
  }
  place[last] = readValue(text, RATES[path[0] as string])
}

function readValue(text: string, rate: readonly [string, string] | undefined): unknown {
  const [, amount, length] = /^(\d+)\/(.+)$/.exec(text) ?? []
  if (rate !== undefined && length !== undefined) {
    return { [rate[0]]: Number(amount), [rate[1]]: scalarOf(length) }
  }
  return scalarOf(text)
}

function scalarOf(text: string): string | number | boolean {
  if (/^\d+(\.\d+)?$/.test(text)) {
    return Number(text)
  }
  return text === 'true' ? true : text === 'false' ? false : text
}

/** A policy in one line, without what is its default: what {@link policyFromText} reads. */
export function textOfPolicy(policy: Policy): string {
  const { algorithm, ...options } = policy
  const words = Object.entries(options)
    .filter(([name]) => !isDefault(policy, name))
    .flatMap(([name, value]) => optionInWords(name, value))
  return [algorithm, ...words].join(' ')
}

/** Whether the policy would be the same without an option. */
function isDefault(policy: Policy, name: string): boolean {
  const others = Object.entries(policy).filter(([other]) => other !== name)
  try {
    return isDeepStrictEqual(policyOf(Object.fromEntries(others)), policy)
  } catch {
    return false
  }
}
