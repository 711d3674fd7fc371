import { TollgateError, type TollgateErrorCode } from '../api/error.js'
import { suggestionFor } from './suggestion.js'

/** A value as it may stand in a message: short, and on one line. */
export function shown(value: unknown): string {
  if (typeof value === 'string') {
    return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)
  }
  if (typeof value === 'number' || typeof value === 'boolean' || value === undefined || value === null) {
    return String(value)
  }
  if (typeof value === 'bigint') {
    return `${value}n`
  }
  return Array.isArray(value) ? 'an array' : `a ${typeof value}`.replace('a object', 'an object')
}

/**
 * The error for an option whose value breaks its rule.
 *
 * @param advice - How to mend it, where that can be guessed.
 */
export function invalid(
  code: TollgateErrorCode,
  option: string,
  rule: string,
  value: unknown,
  advice?: string,
): TollgateError {
  return new TollgateError(code, `${option} ${rule}, got ${shown(value)}${advice === undefined ? '' : `: ${advice}`}`)
}

/** How many options are listed besides the one that was probably meant. */
const SHORT = 8

/**
 * Takes a value as an options object of exactly these names.
 *
 * @param where - Whose options they are, for the message.
 */
export function optionsOf<const Names extends readonly string[]>(
  code: TollgateErrorCode,
  where: string,
  value: unknown,
  names: Names,
): { readonly [Name in Names[number]]?: unknown } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const listed = names.length > SHORT ? [...names.slice(0, SHORT), '…'] : names
    throw invalid(code, where, `takes an object of options (${listed.join(', ')})`, value)
  }
  for (const name of Object.keys(value)) {
    if (!names.includes(name)) {
      const meant = suggestionFor(name, names)
      const all = `t takes ${names.join(', ')}`
      const told =
        meant === undefined ? `i${all}` : `did you mean ${shown(meant)}?${names.length > SHORT ? '' : ` I${all}`}`
      throw new TollgateError(code, `${where} has no option ${shown(name)}; ${told}`)
    }
  }
  return value
}

/** Takes a value as a whole number from `least` to `most`. */
export function wholeNumber(
  code: TollgateErrorCode,
  option: string,
  value: unknown,
  least = 1,
  most: number = Number.MAX_SAFE_INTEGER,
): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most) {
    return value
  }
  const upTo = most === Number.MAX_SAFE_INTEGER ? '2^53 - 1' : String(most)
  const advice = typeof value === 'string' ? 'give a number, not a text' : undefined
  throw invalid(code, option, `must be a whole number from ${least} to ${upTo}`, value, advice)
}

/** Takes a value as a yes or no. */
export function trueOrFalse(code: TollgateErrorCode, option: string, value: unknown): boolean {
  if (typeof value === 'boolean') {
    return value
  }
  throw invalid(code, option, 'must be true or false', value)
}

/** What prefixes and names of policies and stores look like. */
const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,31}$/

/** Takes a value as a name. */
export function nameOf(option: string, value: unknown, code: TollgateErrorCode = 'INVALID_OPTION'): string {
  if (typeof value === 'string' && NAME.test(value)) {
    return value
  }
  throw invalid(
    code,
    option,
    `must match ${NAME.source}`,
    value,
    'begin with a letter, and use letters, digits, _, . and -',
  )
}

/**
 * Throws if a function is given more arguments than it takes: what is surplus would be ignored, and was meant to do
 * something.
 *
 * @param given - The `arguments.length` of the function: a rest parameter would stand in its type, too.
 * @param rule - The function and what it takes, for the message.
 * @param advice - How to mend it, where that can be guessed.
 */
export function checkCount(given: number, most: number, rule: string, advice?: string): void {
  if (given > most) {
    const count = `${given} ${given === 1 ? 'argument' : 'arguments'}`
    throw new TollgateError('INVALID_OPTION', `${rule}, got ${count}${advice === undefined ? '' : `: ${advice}`}`)
  }
}

/** Runs what may throw a native error, and throws one of ours for it. */
export function translated<T>(code: TollgateErrorCode, subject: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    const rule = (error as Error).message
    throw new TollgateError(code, `${subject} ${rule}`)
  }
}
