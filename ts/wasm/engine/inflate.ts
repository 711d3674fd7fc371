/**
 * Decompresses raw deflate (RFC 1951) at once. `DecompressionStream` does so only asynchronously, and the engine
 * starts while its module is loaded.
 */

/** The most bits of a code, and of a code for the lengths of codes. */
const MAX_BITS = 15
const MAX_LENGTH_BITS = 7

/** The order in which the lengths of the codes for lengths are stored. */
const LENGTH_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]

/** The symbol that ends a block; larger ones are the lengths of copies, from 3 to 258. */
const END = 256
const LENGTHS = basesOf(29, 4, 3)
LENGTHS.bases[28] = 258
LENGTHS.extraBits[28] = 0
const DISTANCES = basesOf(30, 2, 1)

interface Bases {
  readonly bases: Uint16Array
  /** How many bits follow, whose number is added to the base. */
  readonly extraBits: Uint8Array
}

/** Numbers in groups of `perGroup`: each group has one more extra bit than the group before, after two without. */
function basesOf(count: number, perGroup: number, first: number): Bases {
  const bases = new Uint16Array(count)
  const extraBits = new Uint8Array(count)
  for (let symbol = 0, base = first; symbol < count; symbol++) {
    const extra = Math.max(0, Math.floor(symbol / perGroup) - 1)
    bases[symbol] = base
    extraBits[symbol] = extra
    base += 1 << extra
  }
  return { bases, extraBits }
}

/** Codes of a block: an entry for every value of the next `bits` bits, with the symbol and the length of its code. */
interface Codes {
  readonly bits: number
  readonly entries: Uint16Array
}

/** The canonical codes of symbols by the lengths of their codes. */
function codesOf(lengths: Uint8Array, maxBits: number): Codes {
  const bits = lengths.reduce((most, length) => Math.max(most, length), 1)
  const entries = new Uint16Array(1 << bits)
  let code = 0
  for (let length = 1; length <= maxBits; length++) {
    for (let symbol = 0; symbol < lengths.length; symbol++) {
      if (lengths[symbol] === length) {
        // Codes begin with their highest bit, and the stream with the lowest one.
        for (let index = reversed(code, length); index < entries.length; index += 1 << length) {
          entries[index] = (symbol << 4) | length
        }
        code++
      }
    }
    code <<= 1
  }
  return { bits, entries }
}

function reversed(code: number, length: number): number {
  let result = 0
  for (let bit = 0; bit < length; bit++) {
    result |= ((code >> bit) & 1) << (length - 1 - bit)
  }
  return result
}

class Reader {
  readonly #bytes: Uint8Array
  #at = 0
  #held = 0
  #heldBits = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  /** The number in the next bits, at most 16. */
  number(bits: number): number {
    this.#fill(bits)
    const result = this.#held & ((1 << bits) - 1)
    this.#drop(bits)
    return result
  }

  symbol({ bits, entries }: Codes): number {
    this.#fill(bits)
    const entry = entries[this.#held & ((1 << bits) - 1)] as number
    this.#drop(entry & 15)
    return entry >> 4
  }

  /** Begins with the next byte. */
  align(): void {
    this.#drop(this.#heldBits & 7)
  }

  #fill(bits: number): void {
    while (this.#heldBits < bits) {
      this.#held |= (this.#bytes[this.#at++] ?? 0) << this.#heldBits
      this.#heldBits += 8
    }
  }

  #drop(bits: number): void {
    this.#held >>>= bits
    this.#heldBits -= bits
  }
}

/**
 * @param size - The number of decompressed bytes.
 */
export function inflate(bytes: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  const reader = new Reader(bytes)
  const result = new Uint8Array(size)
  let written = 0
  for (let isLast = false; !isLast; ) {
    isLast = reader.number(1) === 1
    const kind = reader.number(2)
    written = kind === 0 ? copyStored(reader, result, written) : decode(reader, codesIn(reader, kind), result, written)
  }
  return result
}

function copyStored(reader: Reader, into: Uint8Array, start: number): number {
  reader.align()
  const end = start + reader.number(16)
  reader.number(16)
  for (let at = start; at < end; at++) {
    into[at] = reader.number(8)
  }
  return end
}

interface BlockCodes {
  readonly symbols: Codes
  readonly distances: Codes
}

function codesIn(reader: Reader, kind: number): BlockCodes {
  if (kind === 1) {
    const lengths = new Uint8Array(288).fill(8).fill(9, 144, 256).fill(7, END, 280)
    return { symbols: codesOf(lengths, MAX_BITS), distances: codesOf(new Uint8Array(30).fill(5), MAX_BITS) }
  }
  const symbolCount = reader.number(5) + 257
  const distanceCount = reader.number(5) + 1
  const lengthLengths = new Uint8Array(19)
  for (let index = 0, count = reader.number(4) + 4; index < count; index++) {
    lengthLengths[LENGTH_ORDER[index] as number] = reader.number(3)
  }
  const lengths = readLengths(reader, codesOf(lengthLengths, MAX_LENGTH_BITS), symbolCount + distanceCount)
  return {
    symbols: codesOf(lengths.subarray(0, symbolCount), MAX_BITS),
    distances: codesOf(lengths.subarray(symbolCount), MAX_BITS),
  }
}

function readLengths(reader: Reader, codes: Codes, count: number): Uint8Array {
  const lengths = new Uint8Array(count)
  for (let at = 0; at < count; ) {
    const symbol = reader.symbol(codes)
    if (symbol < 16) {
      lengths[at++] = symbol
      continue
    }
    const repeated = symbol === 16 ? (lengths[at - 1] as number) : 0
    const times = symbol === 16 ? 3 + reader.number(2) : symbol === 17 ? 3 + reader.number(3) : 11 + reader.number(7)
    lengths.fill(repeated, at, at + times)
    at += times
  }
  return lengths
}

function decode(reader: Reader, { symbols, distances }: BlockCodes, into: Uint8Array, start: number): number {
  for (let at = start; ; ) {
    const symbol = reader.symbol(symbols)
    if (symbol < END) {
      into[at++] = symbol
    } else if (symbol === END) {
      return at
    } else {
      const length = added(reader, LENGTHS, symbol - END - 1)
      const distance = added(reader, DISTANCES, reader.symbol(distances))
      // Byte by byte: the copy may overlap its own output.
      for (const end = at + length; at < end; at++) {
        into[at] = into[at - distance] as number
      }
    }
  }
}

function added(reader: Reader, { bases, extraBits }: Bases, symbol: number): number {
  return (bases[symbol] as number) + reader.number(extraBits[symbol] as number)
}
