/** Takes a request: its time in epoch milliseconds, its cost, and the numbers of its keys, one for each kind. */
export type Sink = (time: number, cost: number, keys: Uint32Array, start: number) => void

/** How many requests are gathered before they are put in order. */
const CHUNK = 1 << 16

/** The most that are held back: whoever logs more within the window has its oldest half replayed. */
const MOST = 1 << 22

/**
 * Puts requests in the order of their times.
 *
 * Servers log a request when it ends, some under the time at which it began, so logs are out of order by as much as
 * requests take. Requests that are at most `window` behind the newest are sorted in, those of the same time in the order
 * of the log. What is later is replayed as if it had come at the end of the window, since a limiter's clock never goes back.
 *
 * It holds back the requests of one window, whatever the length of the log.
 */
export class Order {
  /** Requests whose line stands behind one with a newer time. */
  disordered = 0
  /** Those of them that were beyond the window. */
  late = 0
  /** By how many milliseconds a request was behind the newest, at most. */
  furthest = 0
  #newest = Number.NEGATIVE_INFINITY
  /** No request may be older any more. */
  #horizon = Number.NEGATIVE_INFINITY
  #times = new Float64Array(2 * CHUNK)
  #costs = new Float64Array(2 * CHUNK)
  #keys: Uint32Array
  #length = 0
  #due = CHUNK
  #isSorted = true

  /**
   * @param window - Milliseconds.
   * @param kinds - How many keys a request has.
   */
  constructor(
    readonly window: number,
    readonly kinds: number,
    readonly sink: Sink,
    readonly most = MOST,
    readonly chunk = CHUNK,
  ) {
    this.#keys = new Uint32Array(2 * CHUNK * kinds)
    this.#due = chunk
  }

  /** Takes a request; false if it was late. */
  add(time: number, cost: number, keys: Uint32Array): boolean {
    let own = time
    let isLate = false
    if (time > this.#newest) {
      this.#newest = time
      this.#horizon = Math.max(this.#horizon, time - this.window)
    } else if (time < this.#newest) {
      this.disordered++
      this.furthest = Math.max(this.furthest, this.#newest - time)
      this.#isSorted = false
      if (time < this.#horizon) {
        own = this.#horizon
        isLate = true
        this.late++
      }
    }
    const at = this.#length++
    this.#times[at] = own
    this.#costs[at] = cost
    for (let kind = 0, place = at * this.kinds; kind < this.kinds; kind++) {
      this.#keys[place + kind] = keys[kind] as number
    }
    if (this.#length >= this.#due) {
      this.#release()
    }
    return !isLate
  }

  /** Passes on all that is held back. */
  end(): void {
    this.#sort()
    this.#emit(this.#length)
  }

  /** Passes on what no later line can come before. */
  #release(): void {
    this.#sort()
    let count = this.#olderThan(this.#horizon)
    if (this.#length - count >= this.most) {
      count += Math.ceil((this.#length - count) / 2)
      this.#horizon = Math.max(this.#horizon, this.#times[count - 1] as number)
      count = this.#olderThan(this.#horizon)
    }
    this.#emit(count)
    this.#due = this.#length + Math.max(this.chunk, this.#length)
    this.#makeRoom(this.#due)
  }

  /** How many are as old as a time, or older. */
  #olderThan(time: number): number {
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
    const places = Uint32Array.from({ length }, (_, place) => place)
    places.sort((a, b) => (times[a] as number) - (times[b] as number) || a - b)
    places.forEach((from, to) => {
      this.#times[to] = times[from] as number
      this.#costs[to] = costs[from] as number
      for (let kind = 0; kind < kinds; kind++) {
        this.#keys[to * kinds + kind] = keys[from * kinds + kind] as number
      }
    })
    this.#isSorted = true
  }

  #makeRoom(length: number): void {
    if (length > this.#times.length) {
      const size = length * 2
      const [times, costs, keys] = [this.#times, this.#costs, this.#keys]
      this.#times = new Float64Array(size)
      this.#costs = new Float64Array(size)
      this.#keys = new Uint32Array(size * this.kinds)
      this.#times.set(times)
      this.#costs.set(costs)
      this.#keys.set(keys)
    }
  }
}
