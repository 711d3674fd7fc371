/** An entry that is dropped after `until`, by the clock of the map's user in milliseconds. */
interface Ending {
  readonly until: number
}

/** The entries from which one is dropped when there is no room. */
const SAMPLE = 8

/** Entries by stored key: at most `maxKeys`. */
export class BoundedMap<T extends Ending> {
  readonly #entries = new Map<string, T>()
  readonly #maxKeys: number

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#entries.size
  }

  get(id: string): T | undefined {
    return this.#entries.get(id)
  }

  /** Of some of the oldest entries drops the one that ends first, if there is no room. */
  set(id: string, entry: T): void {
    if (this.#entries.size >= this.#maxKeys && !this.#entries.has(id)) {
      this.#dropOne()
    }
    this.#entries.set(id, entry)
  }

  delete(id: string): void {
    this.#entries.delete(id)
  }

  #dropOne(): void {
    let [first, end] = [undefined as string | undefined, Number.POSITIVE_INFINITY]
    let left = SAMPLE
    for (const [id, { until }] of this.#entries) {
      if (until < end) {
        ;[first, end] = [id, until]
      }
      left--
      if (left === 0) {
        break
      }
    }
    this.#entries.delete(first as string)
  }
}

/** Separates a composed id from plain keys. No plain id starts with it. */
const MARK = '\0'

/** The id of a stored key. Different keys, dimensions and tags of the call have different ids. */
export function idOf(key: string, dimension: number, tag: string | undefined): string {
  if (dimension === 0 && tag === undefined && !key.startsWith(MARK)) {
    return key
  }
  return `${MARK}${dimension}:${tag === undefined ? '' : `${tag.length}:${tag}`}:${key}`
}
