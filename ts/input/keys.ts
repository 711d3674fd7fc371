import { TollgateError } from '../api/error.js'
import { GLOBAL } from '../policies/key-dimension.js'
import { invalid, shown } from './options.js'
import { isWellFormed, utf8Length } from './utf8.js'

export class Keys {
  /**
   * @param keys - One key per key dimension; `undefined` for a dimension that the call omits.
   * @param tag - The hash tag in a cluster. Default: the limiter's tag, or else the first key.
   */
  constructor(
    readonly keys: readonly (string | undefined)[],
    readonly tag: string | undefined,
  ) {}
}

/** The longest key or tag, in bytes of UTF-8. */
export const MAX_KEY_BYTES = 1_024

/** Whether a text is too long for a key or a tag. Most are so short that they fit in any encoding. */
export function isTooLong(text: string): boolean {
  return text.length * 3 > MAX_KEY_BYTES && utf8Length(text) > MAX_KEY_BYTES
}

export class KeyReader {
  /** The key dimensions; `undefined` if keys are strings. */
  readonly #dimensions: readonly string[] | undefined
  /** The dimensions that calls name: all except `global`. */
  readonly #namedDimensions: readonly string[]

  constructor(dimensions: readonly string[] | undefined) {
    this.#dimensions = dimensions
    this.#namedDimensions = (dimensions ?? []).filter((dimension) => dimension !== GLOBAL)
  }

  /** Whether keys are strings. Only the store checks those. */
  get usesStrings(): boolean {
    return this.#dimensions === undefined
  }

  read(key: unknown, tag: string | undefined): Keys {
    return this.#readParts(key, tag, this.#namedDimensions, () => true)
  }

  readPartial(key: unknown, tag: string | undefined): Keys {
    const dimensions = this.#dimensions
    if (dimensions === undefined) {
      return new Keys([key as string], tag)
    }
    const parts = this.#partsOf(key, dimensions)
    if (Object.keys(parts).length === 0) {
      throw new TollgateError('INVALID_KEY', `key must name at least one of ${dimensions.join(', ')}`)
    }
    const keys = dimensions.map((dimension) => {
      if (!Object.hasOwn(parts, dimension)) {
        return undefined
      }
      return dimension === GLOBAL ? globalOf(parts[GLOBAL]) : partOf(dimension, parts[dimension])
    })
    return new Keys(keys, tag)
  }

  /** Reads a key that has at least the parts of these dimensions. `global` may be given as `true`. */
  readDimensions(key: unknown, tag: string | undefined, dimensions: ReadonlySet<number>): Keys {
    return this.#readParts(key, tag, this.#dimensions ?? [], (dimension) => dimensions.has(dimension))
  }

  #readParts(
    key: unknown,
    tag: string | undefined,
    names: readonly string[],
    isWanted: (dimension: number) => boolean,
  ): Keys {
    const dimensions = this.#dimensions
    if (dimensions === undefined) {
      return new Keys([key as string], tag)
    }
    const parts = this.#partsOf(key, names)
    if (Object.hasOwn(parts, GLOBAL)) {
      globalOf(parts[GLOBAL])
    }
    const keys = dimensions.map((dimension, index) => {
      if (!isWanted(index)) {
        return undefined
      }
      return dimension === GLOBAL ? GLOBAL : partOf(dimension, parts[dimension])
    })
    return new Keys(keys, tag)
  }

  #partsOf(key: unknown, names: readonly string[]): { readonly [dimension: string]: unknown } {
    const takes = names.length === 0 ? '{}: its policies count all calls together' : `{ ${names.join(', ')} }`
    if (typeof key !== 'object' || key === null || Array.isArray(key)) {
      throw invalid('INVALID_KEY', 'key', `must be an object: ${takes}`, key)
    }
    for (const name in key) {
      if (!names.includes(name)) {
        throw new TollgateError('INVALID_KEY', `key has no part ${shown(name)}; it is ${takes}`)
      }
    }
    return key as { readonly [dimension: string]: unknown }
  }
}

export function checkKey(value: unknown): void {
  const problem = keyProblemOf(value)
  if (problem !== undefined) {
    throw typeof value === 'string' ? new TollgateError('INVALID_KEY', `key ${problem}`) : notAStringError(value)
  }
}

export function notAStringError(value: unknown): TollgateError {
  return new TollgateError('INVALID_KEY', `key ${keyProblemOf(value)}${adviceOn(value)}`)
}

/** The probable intent of an object as a string key. */
function adviceOn(value: unknown): string {
  if (typeof value !== 'object' || value === null) {
    return ''
  }
  return Array.isArray(value) ? ': takeMany takes several keys' : ': keys with parts need policies that have a per'
}

/** The violated rule of a key or a tag; `undefined` if the value is valid. */
function keyProblemOf(value: unknown): string | undefined {
  if (typeof value !== 'string') {
    const advice = typeof value === 'number' || typeof value === 'bigint' ? ': convert it with String()' : ''
    return `must be a string, got ${value === null ? 'null' : typeof value}${advice}`
  }
  if (value === '') {
    return 'must not be empty'
  }
  if (isTooLong(value)) {
    return `must be at most ${MAX_KEY_BYTES} bytes of UTF-8, got ${utf8Length(value)}`
  }
  return isWellFormed(value) ? undefined : 'must be a well-formed string, got one with a lone surrogate'
}

function partOf(dimension: string, value: unknown): string {
  const problem = keyProblemOf(value)
  if (problem !== undefined) {
    throw new TollgateError('INVALID_KEY', `key.${dimension} ${problem}`)
  }
  return value as string
}

function globalOf(value: unknown): string {
  if (value === true) {
    return GLOBAL
  }
  throw invalid('INVALID_KEY', `key.${GLOBAL}`, 'must be true: the global dimension has no key', value)
}

export function tagOf(value: unknown): string | undefined {
  const problem = value === undefined ? undefined : keyProblemOf(value)
  if (problem !== undefined) {
    throw new TollgateError('INVALID_OPTION', `tag ${problem}`)
  }
  return value as string | undefined
}
