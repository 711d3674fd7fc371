import { isKey, type KeySpec } from './key.js'
import type { Line } from './line.js'

/** The number of a line that has no key. */
export const NO_KEY = 0

const FIRST_ROOM = 1_024

/** The keys of a log by number, from 1 on, and how many requests each has made. */
export class KeyTable {
  /** By number. */
  readonly keys: string[] = ['']
  /** By number: the requests of each key. */
  requests = new Float64Array(FIRST_ROOM)
  /** Keys that are longer than tollgate takes. */
  tooLong = 0
  /** The numbers by the keys as they stand in the log. */
  readonly #asRead = new Map<string, number>()
  readonly #refined = new Map<string, number>()

  constructor(readonly spec: KeySpec) {}

  /** How many keys there are. */
  get size(): number {
    return this.keys.length - 1
  }

  /** The number of a line's key. */
  of(line: Line): number {
    const key = this.spec.read(line)
    if (key === undefined) {
      return NO_KEY
    }
    return this.#asRead.get(key) ?? this.#add(key)
  }

  #add(asRead: string): number {
    const key = this.spec.refine(asRead)
    if (!isKey(key)) {
      this.tooLong++
      return NO_KEY
    }
    let number = key === asRead ? undefined : this.#refined.get(key)
    if (number === undefined) {
      number = this.keys.length
      this.keys.push(detached(key))
      this.#grow(number)
      if (key !== asRead) {
        this.#refined.set(detached(key), number)
      }
    }
    this.#asRead.set(detached(asRead), number)
    return number
  }

  #grow(number: number): void {
    if (number >= this.requests.length) {
      const grown = new Float64Array(this.requests.length * 2)
      grown.set(this.requests)
      this.requests = grown
    }
  }
}

/** The same text in memory of its own: a part of a text keeps all of it, here a megabyte of the log. */
function detached(text: string): string {
  return LATIN1.test(text)
    ? Buffer.from(text, 'latin1').toString('latin1')
    : Buffer.from(text, 'utf16le').toString('utf16le')
}

/** All of whose characters take one byte. */
const LATIN1 = /^[\0-\xff]*$/
