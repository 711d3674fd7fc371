import { isDeepStrictEqual } from 'node:util'
import { checkBareNumbers } from '../input/duration.js'
import { DURATIONS, optionTexts, RATES, shortDuration } from '../input/policy-text.js'
import { type Policy, policyOf } from '../policies/policy.js'
import { asUsageError, usageError } from './failure.js'

/** The format of a policy text. It resembles the call in a program. */
export const POLICY_TEXT_RULE = "an algorithm and its numbers, such as 'gcra limit=100 period=1m burst=20'"

/**
 * Parses a policy in one line: the name of the algorithm's function and its options, `name=value`. An option inside an
 * object has a name with dots, `limits.short.limit=10`. An amount per duration may be written as a rate:
 * `refill=10/1s`, `leak=5/1s`, `limits.short=10/1s`.
 */
export function parsePolicyText(text: string, where: string): Policy {
  return asUsageError(where, () => policyOf(parsePolicyOptions(text, where)))
}

/** The options of a policy text with its `algorithm`, not validated. */
export function parsePolicyOptions(text: string, where: string): { algorithm: string; [option: string]: unknown } {
  const [algorithm = '', ...words] = text.trim().split(/\s+/)
  if (algorithm === '' || algorithm.includes('=')) {
    throw usageError(`${where} must be ${POLICY_TEXT_RULE}`)
  }
  const options = { algorithm }
  for (const word of words) {
    const [, name, value] = /^([A-Za-z][\w.-]*)=(.+)$/.exec(word) ?? []
    if (name === undefined || value === undefined || name.split('.').includes('__proto__')) {
      throw usageError(`${where}: ${JSON.stringify(word)} must be name=value: a policy is ${POLICY_TEXT_RULE}`)
    }
    setOption(options, name.split('.'), value, where)
  }
  try {
    checkBareNumbers('INVALID_POLICY', `${where}: `, options)
  } catch (error) {
    throw usageError((error as Error).message)
  }
  return options
}

function setOption(options: object, path: readonly string[], text: string, where: string): void {
  let target = options as Record<string, unknown>
  for (const part of path.slice(0, -1)) {
    const inner = Object.hasOwn(target, part) ? target[part] : {}
    if (typeof inner !== 'object' || inner === null) {
      throw usageError(`${where}: ${path.join('.')} has a value already`)
    }
    target[part] = inner
    target = inner as Record<string, unknown>
  }
  const last = path.at(-1) as string
  if (Object.hasOwn(target, last)) {
    throw usageError(`${where}: ${path.join('.')} is given twice`)
  }
  target[last] = readValue(text, RATES[path[0] as string])
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

/** Formats a policy in one line, without options that have their default value, as {@link parsePolicyText} reads it. */
export function formatPolicyText(policy: Policy): string {
  const { algorithm, ...options } = policy
  const words = Object.entries(options)
    .filter(([name]) => !isDefault(policy, name))
    .flatMap(([name, value]) => optionTexts(name, value))
  return [algorithm, ...words].join(' ')
}

/** Formats a policy as the call in a program, without options that have their default value. */
export function formatPolicyCode(policy: Policy): string {
  const { algorithm, ...options } = policy
  const given = Object.entries(options).filter(([name]) => !isDefault(policy, name))
  return `${algorithm}(${literal(Object.fromEntries(given), '')})`
}

function literal(value: unknown, name: string): string {
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(([inner, one]) => `${propertyName(inner)}: ${literal(one, inner)}`)
    return `{ ${entries.join(', ')} }`
  }
  if (typeof value === 'number' && !DURATIONS.includes(name)) {
    return String(value)
  }
  return typeof value === 'boolean' ? String(value) : quoted(typeof value === 'number' ? shortDuration(value) : value)
}

function propertyName(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) ? name : quoted(name)
}

function quoted(value: unknown): string {
  return `'${String(value).replaceAll(/['\\]/g, '\\$&')}'`
}

/** Whether a policy is the same without one option. */
function isDefault(policy: Policy, name: string): boolean {
  const others = Object.entries(policy).filter(([other]) => other !== name)
  try {
    return isDeepStrictEqual(policyOf(Object.fromEntries(others)), policy)
  } catch {
    return false
  }
}
