import { FAILURE_CODES } from '../../backends/protocol.js'
import { MAX_KEY_BYTES } from '../../input/keys.js'
import { isWellFormed } from '../../input/utf8.js'

/** The number of text slots, as in `src/wasm/scratch.rs`. Each has room for the longest key. */
const TEXT_SLOTS = 8

const { notAString: NOT_A_STRING, keyTooLong: TOO_LONG, illFormedKey: ILL_FORMED } = FAILURE_CODES

/** The length of a key that a call omits. */
const ABSENT_KEY = -1

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export type KeyParts = readonly (string | undefined)[]

export interface ScratchExports {
  texts(): number
  lengths(): number
  operands(): number
  response(): number
}

/** A module's scratch memory. The views become empty when the module's memory grows, and are then made again. */
export class Scratch {
  readonly #glue: ScratchExports
  readonly #memory: WebAssembly.Memory
  #texts: readonly Uint8Array<ArrayBuffer>[] = []
  #lengths = new Int32Array(0)
  #numbers = new Float64Array(0)
  #response = new Float64Array(0)

  constructor(glue: ScratchExports, memory: WebAssembly.Memory) {
    this.#glue = glue
    this.#memory = memory
  }

  /** Writes a key into a slot, and returns its length in bytes or the code of a failure. */
  writeKey(key: unknown, slot: number): number {
    if (typeof key !== 'string') {
      return NOT_A_STRING
    }
    this.#checkViews()
    // A code unit takes at least a byte. Without this check all of a long text would be encoded.
    if (key.length > MAX_KEY_BYTES) {
      return TOO_LONG
    }
    const { read, written } = encoder.encodeInto(key, this.#texts[slot] as Uint8Array<ArrayBuffer>)
    if (read < key.length) {
      return TOO_LONG
    }
    // Texts with as many bytes as code units are ASCII.
    return written === read || isWellFormed(key) ? written : ILL_FORMED
  }

  /** Writes the keys of a call. @returns 0, or the code of a failure. */
  writeKeys(keys: readonly unknown[]): number {
    for (let slot = 0; slot < TEXT_SLOTS; slot++) {
      const key = keys[slot]
      const length = key === undefined ? ABSENT_KEY : this.writeKey(key, slot)
      if (key !== undefined && length < 0) {
        return length
      }
      this.#setLength(slot, length)
    }
    return 0
  }

  /** Writes a text that has been checked: a name or a prefix. */
  writeText(text: string, slot: number): void {
    this.#setLength(slot, this.writeKey(text, slot))
  }

  /** Writes numbers, and returns their count. */
  writeNumbers(numbers: ArrayLike<number>): number {
    this.#checkViews()
    this.#numbers.set(numbers)
    return numbers.length
  }

  /** Copies the response into `into` from `start` on, at most `length` numbers. */
  copyResponse(into: Float64Array, start = 0, length = into.length): void {
    this.#checkViews()
    const answer = this.#response
    for (let index = 0; index < length; index++) {
      into[start + index] = answer[index] as number
    }
  }

  /** Returns what the engine has made; throws if it has written the reason of a failure instead. */
  made<T>(result: T | undefined): T {
    if (result === undefined) {
      this.#checkViews()
      throw new Error(decoder.decode((this.#texts[0] as Uint8Array).subarray(0, this.#lengths[0])))
    }
    return result
  }

  #setLength(slot: number, length: number): void {
    this.#checkViews()
    this.#lengths[slot] = length
  }

  #checkViews(): void {
    if (this.#response.length > 0) {
      return
    }
    const glue = this.#glue
    // The first of these calls may grow the memory.
    const [texts, lengths, question, answer] = [glue.texts(), glue.lengths(), glue.operands(), glue.response()]
    const { buffer } = this.#memory
    this.#texts = Array.from(
      { length: TEXT_SLOTS },
      (_, slot) => new Uint8Array(buffer, texts + slot * MAX_KEY_BYTES, MAX_KEY_BYTES),
    )
    this.#lengths = new Int32Array(buffer, lengths, TEXT_SLOTS)
    this.#numbers = new Float64Array(buffer, question)
    this.#response = new Float64Array(buffer, answer)
  }
}
