/** Mutations of inputs: by bytes, by words of a dictionary, and by parts of other inputs. */
export class Mutator {
  #state
  #dictionary
  #maxLength

  /** @param seed - The same seed gives the same mutations of the same corpus. */
  constructor(seed, dictionary, maxLength) {
    this.#state = (seed ^ 0x9e3779b9) >>> 0 || 1
    this.#dictionary = dictionary.map((word) => Buffer.from(word))
    this.#maxLength = maxLength
  }

  /** A mutated copy of an input of the corpus: mostly of a late one, which reached something new. */
  mutate(corpus) {
    const late = this.#below(4) > 0 ? corpus.slice(-32) : corpus
    let input = Buffer.from(this.#of(late) ?? Buffer.alloc(0))
    for (let left = 1 + this.#below(4); left > 0; left--) {
      input = this.#once(input, corpus)
    }
    return input.subarray(0, this.#maxLength)
  }

  #once(input, corpus) {
    const at = this.#below(input.length + 1)
    const size = 1 + this.#below(Math.min(8, input.length + 1))
    switch (this.#below(9)) {
      case 0:
        return splice(input, at, 0, Buffer.from([this.#below(256)]))
      case 1:
        return splice(input, at, size, Buffer.alloc(0))
      case 2:
        return splice(input, at, 1, Buffer.from([this.#below(256)]))
      case 3:
        return splice(input, at, 1, Buffer.from([(input[at] ?? 0) ^ (1 << this.#below(8))]))
      case 4:
        return splice(input, at, 0, this.#of(this.#dictionary) ?? Buffer.from('0'))
      case 5:
        return splice(input, at, size, this.#of(this.#dictionary) ?? Buffer.from('0'))
      case 6:
        // Repeats a part, up to many times: what is quadratic becomes slow.
        return splice(input, at, 0, repeated(input.subarray(at, at + size), 1 << this.#below(12)))
      case 7: {
        const other = this.#of(corpus) ?? input
        const from = this.#below(other.length + 1)
        return splice(input, at, size, other.subarray(from, from + 1 + this.#below(32)))
      }
      default:
        return splice(input, at, size, Buffer.from(String(this.#number())))
    }
  }

  #number() {
    const edges = [
      0,
      1,
      59,
      60,
      61,
      255,
      256,
      999,
      1_000,
      65_535,
      86_400,
      2 ** 31,
      2 ** 32,
      2 ** 53 - 1,
      2 ** 53,
      1e21,
      -1,
      0.5,
    ]
    return this.#below(2) === 0 ? edges[this.#below(edges.length)] : this.#below(10 ** this.#below(9))
  }

  #of(list) {
    return list[this.#below(list.length)]
  }

  /** A random whole number from 0 to below a limit: xorshift. */
  #below(limit) {
    let x = this.#state
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    this.#state = x >>> 0
    return limit < 1 ? 0 : this.#state % limit
  }
}

function splice(input, at, removed, added) {
  return Buffer.concat([input.subarray(0, at), added, input.subarray(at + removed)])
}

function repeated(part, times) {
  return Buffer.concat(Array.from({ length: times }, () => part))
}
