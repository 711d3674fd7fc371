import { grown } from './grown.js'

/** Receives a request: its time in epoch milliseconds, its cost, and from `start` on the numbers of its keys. */
export type RequestSink = (time: number, cost: number, keys: Uint32Array, start: number) => void

/** The number of requests that are collected before they are sorted. */
const BATCH = 1 << 16

/** The maximum number of buffered requests. If more arrive within the window, the older half is replayed early. */
const MAX_BUFFERED = 1 << 22

/**
 * Sorts requests by their times.
 *
 * Servers log a request when it ends, some of them with the time at which it started, so the lines of a log are out of
 * order by up to the duration of a request. Requests that are at most `window` behind the newest are sorted; requests
 * with equal times keep the order of the log. A request that is further behind is replayed at the end of the window,
 * because a limiter's clock never goes back. The buffer holds the requests of one window.
 */
export class ReorderBuffer {
  disordered = 0
  /** Those of them that were outside the window. */
  late = 0
  /** The maximum distance of a request behind the newest, in milliseconds. */
  furthest = 0
  #newest = Number.NEGATIVE_INFINITY
  /** The earliest time of any later request that is sorted. */
  #horizon = Number.NEGATIVE_INFINITY
  #times = new Float64Array(2 * BATCH)
  #costs = new Float64Array(2 * BATCH)
  #keys: Uint32Array
  #length = 0
  #sortAt = BATCH
  #isSorted = true

  /** `window` is in milliseconds; `kinds` is the number of keys of a request. */
  constructor(
    readonly window: number,
    readonly kinds: number,
    readonly sink: RequestSink,
    readonly maxBuffered = MAX_BUFFERED,
    readonly batch = BATCH,
  ) {
    this.#keys = new Uint32Array(2 * BATCH * kinds)
    this.#sortAt = batch
  }

  /** Adds a request. Returns false if it was outside the window. */
  add(time: number, cost: number, keys: Uint32Array): boolean {
    let effective = time
    let isLate = false
    if (time > this.#newest) {
      this.#newest = time
      this.#horizon = Math.max(this.#horizon, time - this.window)
    } else if (time < this.#newest) {
      this.disordered++
      this.furthest = Math.max(this.furthest, this.#newest - time)
      this.#isSorted = false
      if (time < this.#horizon) {
        effective = this.#horizon
        isLate = true
        this.late++
      }
    }
    const at = this.#length++
    this.#times[at] = effective
    this.#costs[at] = cost
    for (let kind = 0, index = at * this.kinds; kind < this.kinds; kind++) {
      this.#keys[index + kind] = keys[kind] as number
    }
    if (this.#length >= this.#sortAt) {
      this.#release()
    }
    return !isLate
  }

  end(): void {
    this.#sort()
    this.#emit(this.#length)
  }

  #release(): void {
    this.#sort()
    let count = this.#countUntil(this.#horizon)
    if (this.#length - count >= this.maxBuffered) {
      count += Math.ceil((this.#length - count) / 2)
      this.#horizon = Math.max(this.#horizon, this.#times[count - 1] as number)
      count = this.#countUntil(this.#horizon)
    }
    this.#emit(count)
    this.#sortAt = this.#length + Math.max(this.batch, this.#length)
    this.#times = grown(this.#times, this.#sortAt)
    this.#costs = grown(this.#costs, this.#sortAt)
    this.#keys = grown(this.#keys, this.#sortAt * this.kinds)
  }

  #countUntil(time: number): number {
    let low = 0
    let high = this.#length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#times[middle] as number) <= time) {
        low = middle + 1
      } else {
        high = middle
      }
    }
    return low
  }

  #emit(count: number): void {
    const { kinds, sink } = this
    const keys = this.#keys
    for (let at = 0; at < count; at++) {
      sink(this.#times[at] as number, this.#costs[at] as number, keys, at * kinds)
    }
    this.#times.copyWithin(0, count, this.#length)
    this.#costs.copyWithin(0, count, this.#length)
    keys.copyWithin(0, count * kinds, this.#length * kinds)
    this.#length -= count
  }

  #sort(): void {
    if (this.#isSorted) {
      return
    }
    const { kinds } = this
    const length = this.#length
    const times = this.#times.slice(0, length)
    const costs = this.#costs.slice(0, length)
    const keys = this.#keys.slice(0, length * kinds)
    const indexes = Uint32Array.from({ length }, (_, index) => index)
    indexes.sort((a, b) => (times[a] as number) - (times[b] as number) || a - b)
    indexes.forEach((from, to) => {
      this.#times[to] = times[from] as number
      this.#costs[to] = costs[from] as number
      for (let kind = 0; kind < kinds; kind++) {
        this.#keys[to * kinds + kind] = keys[from * kinds + kind] as number
      }
    })
    this.#isSorted = true
  }
}
