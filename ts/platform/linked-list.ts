/** The neighbours of an item of a {@link LinkedList}. An item is in one list at a time. */
export interface Linked<T> {
  previous?: T | undefined
  next?: T | undefined
}

/** A list in which adding and removing an item take the same time, however many items there are. */
export class LinkedList<T extends Linked<T>> {
  first: T | undefined
  last: T | undefined
  size = 0

  /** Adds an item after another one; after `undefined` as the first one. */
  insertAfter(previous: T | undefined, item: T): void {
    const next = previous === undefined ? this.first : previous.next
    this.#join(previous, item)
    this.#join(item, next)
    this.size++
  }

  /** Removes an item of this list. */
  remove(item: T): void {
    this.#join(item.previous, item.next)
    // An old item that has been removed must not keep newer ones in memory.
    item.previous = undefined
    item.next = undefined
    this.size--
  }

  #join(previous: T | undefined, next: T | undefined): void {
    if (previous === undefined) {
      this.first = next
    } else {
      previous.next = next
    }
    if (next === undefined) {
      this.last = previous
    } else {
      next.previous = previous
    }
  }
}
