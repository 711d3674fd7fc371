import { TollgateError } from '../api/error.js'
import { GLOBAL } from '../policies/key-dimension.js'
import { invalid, shown } from './options.js'
import { isWellFormed, utf8Length } from './utf8.js'

/** The keys of one call. */
export class Keys {
  /**
   * @param keys - By the number of their kind; `undefined` for those that the call leaves out.
   * @param tag - What is to decide the keys' place in a cluster, instead of the first of them.
   */
  constructor(
    readonly keys: readonly (string | undefined)[],
    readonly tag: string | undefined,
  ) {}
}

/** The stored key of what counts all calls together. */
const GLOBAL_KEY = GLOBAL

/** The longest key or tag: bytes of UTF-8. */
const MOST_BYTES = 1_024

/** Reads what calls name as their key. */
export class KeyReader {
  /** The kinds of keys; `undefined` if calls name one key, a string. */
  readonly #subjects: readonly string[] | undefined
  /** Those that calls name. */
  readonly #named: readonly string[]

  constructor(subjects: readonly string[] | undefined) {
    this.#subjects = subjects
    this.#named = (subjects ?? []).filter((subject) => subject !== GLOBAL)
  }

  /** Whether a key is a string, which only the store checks. */
  get isPlain(): boolean {
    return this.#subjects === undefined
  }

  /** Takes a value as a key with all of its parts. */
  whole(key: unknown, tag: string | undefined): Keys {
    return this.#read(key, tag, () => true)
  }

  /** Takes a value as those parts of a key that it names; `global` is named as `true`. */
  some(key: unknown, tag: string | undefined): Keys {
    const subjects = this.#subjects
    if (subjects === undefined) {
      return new Keys([key as string], tag)
    }
    const parts = this.#partsOf(key, subjects)
    if (Object.keys(parts).length === 0) {
      throw new TollgateError('INVALID_KEY', `key must name at least one of ${subjects.join(', ')}`)
    }
    const keys = subjects.map((subject) => {
      if (!Object.hasOwn(parts, subject)) {
        return undefined
      }
      return subject === GLOBAL ? globalOf(parts[GLOBAL]) : partOf(subject, parts[subject])
    })
    return new Keys(keys, tag)
  }

  /** Takes a value as a key that has at least the parts of these kinds, by number; the others are left out. */
  needed(key: unknown, tag: string | undefined, subjects: ReadonlySet<number>): Keys {
    return this.#read(key, tag, (subject) => subjects.has(subject))
  }

  #read(key: unknown, tag: string | undefined, isWanted: (subject: number) => boolean): Keys {
    const subjects = this.#subjects
    if (subjects === undefined) {
      return new Keys([key as string], tag)
    }
    const parts = this.#partsOf(key, this.#named)
    const keys = subjects.map((subject, index) => {
      if (!isWanted(index)) {
        return undefined
      }
      return subject === GLOBAL ? GLOBAL_KEY : partOf(subject, parts[subject])
    })
    return new Keys(keys, tag)
  }

  /** Takes a value as an object of parts of these names. */
  #partsOf(key: unknown, names: readonly string[]): { readonly [subject: string]: unknown } {
    const takes = names.length === 0 ? '{}: its policies count all calls together' : `{ ${names.join(', ')} }`
    if (typeof key !== 'object' || key === null || Array.isArray(key)) {
      throw invalid('INVALID_KEY', 'key', `must be an object: ${takes}`, key)
    }
    for (const name in key) {
      if (!names.includes(name)) {
        throw new TollgateError('INVALID_KEY', `key has no part ${shown(name)}; it is ${takes}`)
      }
    }
    return key as { readonly [subject: string]: unknown }
  }
}

/** Throws if a value cannot be a key that is a string. */
export function checkKey(value: unknown): void {
  const flaw = flawOf(value)
  if (flaw !== undefined) {
    throw typeof value === 'string' ? new TollgateError('INVALID_KEY', `key ${flaw}`) : noString(value)
  }
}

/** The error for a key that is no string, and must be one. */
export function noString(value: unknown): TollgateError {
  return new TollgateError('INVALID_KEY', `key ${flawOf(value)}${adviceOn(value)}`)
}

/** What an object was probably meant for. */
function adviceOn(value: unknown): string {
  if (typeof value !== 'object' || value === null) {
    return ''
  }
  return Array.isArray(value) ? ': takeMany takes several keys' : ': keys with parts need policies that have a per'
}

/** What is wrong with a key or a tag, if anything is. */
function flawOf(value: unknown): string | undefined {
  if (typeof value !== 'string') {
    const advice = typeof value === 'number' || typeof value === 'bigint' ? ': make it one by String()' : ''
    return `must be a string, got ${value === null ? 'null' : typeof value}${advice}`
  }
  // Most texts are so short that they fit however they are encoded.
  const bytes = value.length * 3 <= MOST_BYTES ? value.length : utf8Length(value)
  if (bytes === 0) {
    return 'must not be empty'
  }
  if (bytes > MOST_BYTES) {
    return `must be at most ${MOST_BYTES} bytes of UTF-8, got ${bytes}`
  }
  return isWellFormed(value) ? undefined : 'must be a well-formed string, got one with a lone surrogate'
}

function partOf(subject: string, value: unknown): string {
  const flaw = flawOf(value)
  if (flaw !== undefined) {
    throw new TollgateError('INVALID_KEY', `key.${subject} ${flaw}`)
  }
  return value as string
}

function globalOf(value: unknown): string {
  if (value === true) {
    return GLOBAL_KEY
  }
  throw invalid('INVALID_KEY', `key.${GLOBAL}`, 'must be true: it has no key', value)
}

/** Takes a value as a tag. */
export function tagOf(value: unknown): string | undefined {
  const flaw = value === undefined ? undefined : flawOf(value)
  if (flaw !== undefined) {
    throw new TollgateError('INVALID_OPTION', `tag ${flaw}`)
  }
  return value as string | undefined
}
