import * as glue from '../../wasm/engine.js'
import { isWellFormed } from '../utf8.js'
import * as host from './host.js'
import { module } from './module.js'

glue.setHost(host)
const { memory } = glue.initSync({ module })

/** The places for texts, and the bytes of each: `src/wasm/desk.rs` has the same. */
const PLACES = 8
const ROOM = 1_024

/** The codes of failures in `src/face/answer.rs` that are seen here. */
const NOT_A_STRING = -1
const TOO_LONG = -3
const ILL_FORMED = -4
export const PANICKED = -5

/** The length of a key that a call leaves out. */
const LEFT_OUT = -1

const encoder = new TextEncoder()

/**
 * Where the engine finds texts and numbers, and leaves its answers. These are views of its memory, which are empty
 * once that has grown: {@link open} makes them anew.
 */
let texts: readonly Uint8Array<ArrayBuffer>[] = []
let lengths = new Int32Array(0)
let question = new Float64Array(0)
let answer = new Float64Array(0)

function open(): void {
  // The first of these may make the memory grow.
  const [atTexts, atLengths, atQuestion, atAnswer] = [glue.texts(), glue.lengths(), glue.question(), glue.answer()]
  const { buffer } = memory
  texts = Array.from({ length: PLACES }, (_, place) => new Uint8Array(buffer, atTexts + place * ROOM, ROOM))
  lengths = new Int32Array(buffer, atLengths, PLACES)
  question = new Float64Array(buffer, atQuestion)
  answer = new Float64Array(buffer, atAnswer)
}

/** Lays a key in a place, and answers with its length in bytes, or with the code of a failure. */
export function layKey(key: unknown, place: number): number {
  if (typeof key !== 'string') {
    return NOT_A_STRING
  }
  if (answer.length === 0) {
    open()
  }
  // A unit has at least a byte. (Without this the whole of a long text would be looked at.)
  if (key.length > ROOM) {
    return TOO_LONG
  }
  const { read, written } = encoder.encodeInto(key, texts[place] as Uint8Array<ArrayBuffer>)
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
export function layKeys(keys: readonly unknown[]): number {
  for (let place = 0; place < PLACES; place++) {
    const key = keys[place]
    const length = key === undefined ? LEFT_OUT : layKey(key, place)
    if (key !== undefined && length < 0) {
      return length
    }
    setLength(place, length)
  }
  return 0
}

/** Lays a text that has been checked: a name or a prefix. */
export function layText(text: string, place: number): void {
  setLength(place, layKey(text, place))
}

/** Lays numbers, and tells how many. */
export function layNumbers(numbers: ArrayLike<number>): number {
  if (answer.length === 0) {
    open()
  }
  question.set(numbers)
  return numbers.length
}

/** Copies the answer into `into`, from `start` on, as far as there is room for it. */
export function copyAnswer(into: Float64Array, start = 0, length = into.length): void {
  if (answer.length === 0) {
    open()
  }
  for (let index = 0; index < length; index++) {
    into[start + index] = answer[index] as number
  }
}

/** The error for what the engine has just refused: it has said why. */
export function reason(): Error {
  if (answer.length === 0) {
    open()
  }
  return new Error(String.fromCharCode(...(texts[0] as Uint8Array).subarray(0, lengths[0])))
}

function setLength(place: number, length: number): void {
  if (answer.length === 0) {
    open()
  }
  lengths[place] = length
}
