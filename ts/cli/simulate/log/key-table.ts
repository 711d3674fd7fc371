import { grown } from './grown.js'
import { isKey, type KeySpec } from './key.js'
import type { LogLine } from './line.js'

/** The number for lines without a key. */
export const NO_KEY = 0

const INITIAL_CAPACITY = 1_024

/** Numbers the keys of a log from 1, and counts the requests of each. */
export class KeyTable {
  readonly keys: string[] = ['']
  requests = new Float64Array(INITIAL_CAPACITY)
  tooLong = 0
  /** The numbers of the keys, by the keys and by their other spellings in the log. */
  readonly #numbers = new Map<string, number>()

  constructor(readonly spec: KeySpec) {}

  /** The number of keys. */
  get size(): number {
    return this.keys.length - 1
  }

  of(line: LogLine): number {
    const key = this.spec.read(line)
    if (key === undefined) {
      return NO_KEY
    }
    return this.#numbers.get(key) ?? this.#add(key)
  }

  #add(text: string): number {
    const key = this.spec.refine(text)
    if (!isKey(key)) {
      this.tooLong++
      return NO_KEY
    }
    let number = this.#numbers.get(key)
    if (number === undefined) {
      number = this.keys.length
      this.keys.push(copied(key))
      this.requests = grown(this.requests, number)
      this.#numbers.set(this.keys[number] as string, number)
    }
    if (key !== text) {
      this.#numbers.set(copied(text), number)
    }
    return number
  }
}

/** Copies a text into memory of its own: a substring would keep its parent alive, here a megabyte of the log. */
function copied(text: string): string {
  return LATIN1.test(text)
    ? Buffer.from(text, 'latin1').toString('latin1')
    : Buffer.from(text, 'utf16le').toString('utf16le')
}

/** Matches texts whose characters take one byte each. */
const LATIN1 = /^[\0-\xff]*$/
