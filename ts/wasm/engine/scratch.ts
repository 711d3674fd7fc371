import { isWellFormed } from '../../input/utf8.js'

/** The places for texts, and the bytes of each: `src/wasm/scratch.rs` has the same. */
const PLACES = 8
const ROOM = 1_024

/** The codes of failures in `src/abi/response.rs` that are seen here. */
const NOT_A_STRING = -1
const TOO_LONG = -3
const ILL_FORMED = -4
export const PANICKED = -5

/** The length of a key that a call leaves out. */
const LEFT_OUT = -1

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** What tells where a module's desk is. */
export interface DeskGlue {
  texts(): number
  lengths(): number
  question(): number
  answer(): number
}

/**
 * A module's desk: where it finds texts and numbers, and leaves its answers. These are views of its memory, which are
 * empty once that has grown: then they are made anew.
 */
export class Desk {
  readonly #glue: DeskGlue
  readonly #memory: WebAssembly.Memory
  #texts: readonly Uint8Array<ArrayBuffer>[] = []
  #lengths = new Int32Array(0)
  #question = new Float64Array(0)
  #answer = new Float64Array(0)

  constructor(glue: DeskGlue, memory: WebAssembly.Memory) {
    this.#glue = glue
    this.#memory = memory
  }

  /** Lays a key in a place, and answers with its length in bytes, or with the code of a failure. */
  layKey(key: unknown, place: number): number {
    if (typeof key !== 'string') {
      return NOT_A_STRING
    }
    if (this.#answer.length === 0) {
      this.#open()
    }
    // A unit has at least a byte. (Without this the whole of a long text would be looked at.)
    if (key.length > ROOM) {
      return TOO_LONG
    }
    const { read, written } = encoder.encodeInto(key, this.#texts[place] as Uint8Array<ArrayBuffer>)
    if (read < key.length) {
      return TOO_LONG
    }
    // As many bytes as units are ASCII.
    return written === read || isWellFormed(key) ? written : ILL_FORMED
  }

  /**
   * Lays the keys of a call; those that it leaves out are undefined.
   *
   * @returns 0, or the code of a failure.
   */
  layKeys(keys: readonly unknown[]): number {
    for (let place = 0; place < PLACES; place++) {
      const key = keys[place]
      const length = key === undefined ? LEFT_OUT : this.layKey(key, place)
      if (key !== undefined && length < 0) {
        return length
      }
      this.#setLength(place, length)
    }
    return 0
  }

  /** Lays a text that has been checked: a name or a prefix. */
  layText(text: string, place: number): void {
    this.#setLength(place, this.layKey(text, place))
  }

  /** Lays numbers, and tells how many. */
  layNumbers(numbers: ArrayLike<number>): number {
    if (this.#answer.length === 0) {
      this.#open()
    }
    this.#question.set(numbers)
    return numbers.length
  }

  /** Copies the answer into `into`, from `start` on, as far as there is room for it. */
  copyAnswer(into: Float64Array, start = 0, length = into.length): void {
    if (this.#answer.length === 0) {
      this.#open()
    }
    const answer = this.#answer
    for (let index = 0; index < length; index++) {
      into[start + index] = answer[index] as number
    }
  }

  /** The error for what the engine has just refused: it has said why. */
  reason(): Error {
    if (this.#answer.length === 0) {
      this.#open()
    }
    return new Error(decoder.decode((this.#texts[0] as Uint8Array).subarray(0, this.#lengths[0])))
  }

  #setLength(place: number, length: number): void {
    if (this.#answer.length === 0) {
      this.#open()
    }
    this.#lengths[place] = length
  }

  #open(): void {
    const glue = this.#glue
    // The first of these may make the memory grow.
    const [texts, lengths, question, answer] = [glue.texts(), glue.lengths(), glue.question(), glue.answer()]
    const { buffer } = this.#memory
    this.#texts = Array.from({ length: PLACES }, (_, place) => new Uint8Array(buffer, texts + place * ROOM, ROOM))
    this.#lengths = new Int32Array(buffer, lengths, PLACES)
    this.#question = new Float64Array(buffer, question)
    this.#answer = new Float64Array(buffer, answer)
  }
}
