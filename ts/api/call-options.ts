import { type Duration, microsOf, millisOf, warnOfShort } from '../input/duration.js'
import { tagOf } from '../input/keys.js'
import { invalid, optionsOf, wholeNumber } from '../input/options.js'
import { TollgateError } from './error.js'

/** How a call on a key is to be made. */
export interface KeyOptions {
  /**
   * Over a Redis Cluster: what decides where the key is kept, instead of the key itself. Keys that are decided
   * together must be kept together. A text like a key; a key must always be given the same. Default: that of the
   * limiter, or the key itself.
   */
  readonly tag?: string
}

/** How a call is to be counted. */
export interface TakeOptions extends KeyOptions {
  /** The units that the call costs: a whole number from 1 (in `peek` from 0). Default: 1. */
  readonly cost?: number
}

/** How numbers of a key's own are to be kept. */
export interface OverrideOptions extends KeyOptions {
  /** How long they are in force: up to 142 years. */
  readonly ttl: Duration
}

/** What a call asks for. */
export interface Call {
  readonly units: number
  readonly tag: string | undefined
}

/** Takes a value as a cost or {@link TakeOptions}. */
export function callOf(method: string, cost: unknown, least: number): Call {
  if (cost === undefined) {
    return { units: 1, tag: undefined }
  }
  if (typeof cost !== 'object' || cost === null || Array.isArray(cost)) {
    return { units: wholeNumber('INVALID_COST', 'cost', cost, least), tag: undefined }
  }
  const options = optionsOf('INVALID_OPTION', method, cost, ['cost', 'tag'])
  const units = options.cost === undefined ? 1 : wholeNumber('INVALID_COST', 'cost', options.cost, least)
  return { units, tag: tagOf(options.tag) }
}

/** Takes a value as {@link KeyOptions}, and answers with the tag. */
export function tagIn(method: string, options: unknown): string | undefined {
  return options === undefined ? undefined : tagOf(optionsOf('INVALID_OPTION', method, options, ['tag']).tag)
}

/** Takes a value as a number of units. */
export function unitsOf(value: unknown): number {
  return wholeNumber('INVALID_COST', 'units', value)
}

/** The costs of several keys. */
export interface Calls {
  readonly costs: readonly number[]
  readonly tag: string | undefined
}

/** Takes a value as what `takeMany` may be given as the costs of so many keys. */
export function callsOf(cost: unknown, count: number): Calls {
  if (!Array.isArray(cost)) {
    const { units, tag } = callOf('takeMany', cost, 1)
    return { costs: new Array<number>(count).fill(units), tag }
  }
  if (cost.length !== count) {
    const rule = `must have a cost for each of the ${count} keys`
    throw new TollgateError('INVALID_COST', `costs ${rule}, got ${cost.length}`)
  }
  return { costs: cost.map((one) => wholeNumber('INVALID_COST', 'cost', one)), tag: undefined }
}

/** The longest time that the engine counts with: 2^52 microseconds. */
const LONGEST_US = 2 ** 52

/**
 * Takes a value as how long something is to last, in microseconds.
 *
 * @param method - Whose option it is, for a warning.
 */
export function lastingOf(method: string, option: string, value: unknown): number {
  const lasting = microsOf(millisOf('INVALID_OPTION', option, value))
  if (lasting > LONGEST_US) {
    throw invalid('INVALID_OPTION', option, 'must be at most 2^52 µs (142 years)', value)
  }
  warnOfShort(`${method}: ${option}`, value)
  return lasting
}
