/** A binary heap. All operations cost O(log n). Each item holds its own index, so that it can be removed. */
export class Heap<Place extends string, T extends { [place in Place]: number }> {
  readonly #isBefore: (one: T, other: T) => boolean
  readonly #place: Place
  readonly #items: T[] = []

  /** @param isBefore - A strict order in which no two items are equal. The index of an item is its property `place`. */
  constructor(place: Place, isBefore: (one: T, other: T) => boolean) {
    this.#place = place
    this.#isBefore = isBefore
  }

  get size(): number {
    return this.#items.length
  }

  add(item: T): void {
    this.#rise(this.#items.length, item)
  }

  /** The first item, which stays. */
  peek(): T | undefined {
    return this.#items[0]
  }

  take(): T | undefined {
    const first = this.#items[0]
    if (first !== undefined) {
      this.remove(first)
    }
    return first
  }

  remove(item: T): void {
    const index = item[this.#place]
    const last = this.#items.pop() as T
    if (last !== item) {
      this.#sink(index, last)
      this.#rise(last[this.#place], last)
    }
  }

  #put(index: number, item: T): void {
    this.#items[index] = item
    // TypeScript does not know that a property with a generic name is a number.
    ;(item as Record<Place, number>)[this.#place] = index
  }

  /** Puts an item at an index or, while it is before its parent, nearer to the root. */
  #rise(start: number, item: T): void {
    let index = start
    while (index > 0) {
      const parent = (index - 1) >> 1
      const above = this.#items[parent] as T
      if (!this.#isBefore(item, above)) {
        break
      }
      this.#put(index, above)
      index = parent
    }
    this.#put(index, item)
  }

  /** Puts an item at an index or, while one of its children is before it, farther from the root. */
  #sink(start: number, item: T): void {
    const items = this.#items
    let index = start
    for (;;) {
      let child = 2 * index + 1
      if (child + 1 < items.length && this.#isBefore(items[child + 1] as T, items[child] as T)) {
        child++
      }
      if (child >= items.length || !this.#isBefore(items[child] as T, item)) {
        break
      }
      this.#put(index, items[child] as T)
      index = child
    }
    this.#put(index, item)
  }
}
