import { TollgateError, type TollgateErrorCode } from '../api/error.js'
import { suggestionFor } from './suggestion.js'

/** A value as it appears in a message: short, and on one line. */
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
  const name = typeof value === 'object' ? classOf(value) : typeof value
  return `${/^[aeio]/i.test(name) ? 'an' : 'a'} ${name}`
}

/** The built-in class of an object, such as `Promise`; `'object'` for others, and `'array'`. */
function classOf(value: object): string {
  const tag = Object.prototype.toString.call(value).slice('[object '.length, -1)
  return tag === 'Object' || tag === 'Array' ? tag.toLowerCase() : tag
}

/** Whether an object was written as `{ … }`, in any realm: it has no class. */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** The fix for a value that is a promise of the right one. */
function adviceOnPromise(value: unknown): string | undefined {
  return typeof value === 'object' && value !== null && 'then' in value ? 'await it' : undefined
}

/** The error for an option whose value breaks its rule. `advice` is how to fix it. */
export function invalid(
  code: TollgateErrorCode,
  option: string,
  rule: string,
  value: unknown,
  advice: string | undefined = adviceOnPromise(value),
): TollgateError {
  return new TollgateError(code, `${option} ${rule}, got ${shown(value)}${advice === undefined ? '' : `: ${advice}`}`)
}

/** Messages list all options only up to this number. */
const MAX_LISTED = 8

/** Checks that a value is an object with no other options than these. `adviceOn` tells how to fix another name. */
export function optionsOf<const Names extends readonly string[]>(
  code: TollgateErrorCode,
  where: string,
  value: unknown,
  names: Names,
  adviceOn: (name: string) => string | undefined = () => undefined,
): { readonly [Name in Names[number]]?: unknown } {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  const given = isObject ? Object.keys(value) : []
  // A promise or a `Map` without options is a mistake, and not an absence of options.
  if (!isObject || (given.length === 0 && classOf(value) !== 'object')) {
    const listed = names.length > MAX_LISTED ? [...names.slice(0, MAX_LISTED), '…'] : names
    throw invalid(code, where, `takes an object of options (${listed.join(', ')})`, value)
  }
  for (const name of given) {
    if (!names.includes(name)) {
      const meant = suggestionFor(name, names)
      const all = `t takes ${names.join(', ')}`
      const fix = adviceOn(name)
      const advice =
        meant === undefined
          ? (fix ?? `i${all}`)
          : `did you mean ${shown(meant)}?${names.length > MAX_LISTED ? '' : ` I${all}`}${fix === undefined ? '' : ` ${fix}`}`
      throw new TollgateError(code, `${where} has no option ${shown(name)}; ${advice}`)
    }
  }
  return value
}

export function wholeNumber(
  code: TollgateErrorCode,
  option: string,
  value: unknown,
  min = 1,
  max: number = Number.MAX_SAFE_INTEGER,
): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) {
    return value
  }
  const upTo = max === Number.MAX_SAFE_INTEGER ? '2^53 - 1' : String(max)
  const advice = typeof value === 'string' ? 'pass a number, not a string' : undefined
  throw invalid(code, option, `must be a whole number from ${min} to ${upTo}`, value, advice)
}

export function trueOrFalse(code: TollgateErrorCode, option: string, value: unknown): boolean {
  if (typeof value === 'boolean') {
    return value
  }
  throw invalid(code, option, 'must be true or false', value)
}

/** Checks a text that must be one of several. */
export function oneOf<const T extends string>(
  code: TollgateErrorCode,
  option: string,
  value: unknown,
  texts: readonly T[],
): T {
  if ((texts as readonly unknown[]).includes(value)) {
    return value as T
  }
  throw invalid(code, option, `must be ${texts.map((text) => `'${text}'`).join(' or ')}`, value)
}

/** Checks a function that may be absent. */
export function optionalFunction<F>(option: string, value: unknown): F | undefined {
  return value === undefined ? undefined : functionOf<F>(option, value)
}

/** Checks a function. */
export function functionOf<F>(option: string, value: unknown): F {
  if (typeof value === 'function') {
    return value as F
  }
  throw invalid('INVALID_OPTION', option, 'must be a function', value)
}

/** The rule for names of policies, stores and so on. */
const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,31}$/

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

/** The rule for prefixes. Keys separate the parts of their names by colons, too. */
const PREFIX = /^[A-Za-z](?:[A-Za-z0-9_.:-]{0,62}[A-Za-z0-9_.-])?$/

export function prefixOf(value: unknown, option = 'prefix'): string {
  if (typeof value === 'string' && PREFIX.test(value)) {
    return value
  }
  const isEndingInColon = typeof value === 'string' && PREFIX.test(value.replace(/:+$/, ''))
  const advice = isEndingInColon
    ? 'leave out the colon at the end, which keys add themselves'
    : 'begin with a letter, and use up to 64 letters, digits, _, ., - and :'
  throw invalid('INVALID_OPTION', option, `must match ${PREFIX.source}`, value, advice)
}

/** Throws if a function has surplus arguments: the caller meant something by them. */
export function checkCount(argumentCount: number, max: number, rule: string, advice?: string): void {
  if (argumentCount > max) {
    const count = `${argumentCount} ${argumentCount === 1 ? 'argument' : 'arguments'}`
    throw new TollgateError('INVALID_OPTION', `${rule}, got ${count}${advice === undefined ? '' : `: ${advice}`}`)
  }
}

/** Runs a function, and converts its native errors into a `TollgateError`. */
export function translated<T>(code: TollgateErrorCode, name: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    const rule = (error as Error).message
    throw new TollgateError(code, `${name} ${rule}`)
  }
}
