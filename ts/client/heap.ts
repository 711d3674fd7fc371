/** An item of a {@link Heap}. */
export interface HeapItem {
  /** Whether the item was removed from all heaps. A heap drops it when it meets it. */
  readonly isRemoved: boolean
}

/** The number of items from which on removed ones are counted. */
const MIN_SWEPT = 64

/**
 * A binary heap: the first item by an order. Adding and taking an item cost O(log n). An item is
 * removed by marking it, which costs O(1) on average.
 */
export class Heap<T extends HeapItem> {
  readonly #isBefore: (one: T, other: T) => boolean
  #items: T[] = []
  #removed = 0

  /** @param isBefore - A strict order in which no two items are equal. */
  constructor(isBefore: (one: T, other: T) => boolean) {
    this.#isBefore = isBefore
  }

  /** The number of items that are not removed. */
  get size(): number {
    return this.#items.length - this.#removed
  }

  add(item: T): void {
    this.#items.push(item)
    this.#rise(this.#items.length - 1)
  }

  /** The first item, which stays. */
  peek(): T | undefined {
    while (this.#items[0]?.isRemoved === true) {
      this.#removed--
      this.#dropFirst()
    }
    return this.#items[0]
  }

  /** Takes the first item. */
  take(): T | undefined {
    const first = this.peek()
    if (first !== undefined) {
      this.#dropFirst()
    }
    return first
  }

  /** Tells the heap that one of its items is marked as removed now. */
  countRemoved(): void {
    this.#removed++
    if (this.#removed > MIN_SWEPT && this.#removed > this.#items.length / 2) {
      this.#items = this.#items.filter(({ isRemoved }) => !isRemoved)
      this.#removed = 0
      for (let index = (this.#items.length >> 1) - 1; index >= 0; index--) {
        this.#sink(index)
      }
    }
  }

  #dropFirst(): void {
    const last = this.#items.pop() as T
    if (this.#items.length > 0) {
      this.#items[0] = last
      this.#sink(0)
    }
  }

  #rise(start: number): void {
    const items = this.#items
    const item = items[start] as T
    let index = start
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!this.#isBefore(item, items[parent] as T)) {
        break
      }
      items[index] = items[parent] as T
      index = parent
    }
    items[index] = item
  }

  #sink(start: number): void {
    const items = this.#items
    const item = items[start] as T
    let index = start
    for (;;) {
      let child = 2 * index + 1
      if (child + 1 < items.length && this.#isBefore(items[child + 1] as T, items[child] as T)) {
        child++
      }
      if (child >= items.length || !this.#isBefore(items[child] as T, item)) {
        break
      }
      items[index] = items[child] as T
      index = child
    }
    items[index] = item
  }
}
