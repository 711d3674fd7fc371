import { minuteOf } from './log/times.js'

/** Refusals over time; times must not go back. */
export class Refusals {
  count = 0
  /** Epoch milliseconds; `NaN` while there is none. */
  first = Number.NaN
  last = Number.NaN
  /** The minute with the most refusals, the first of equals, and how many. */
  worstMinute = Number.NaN
  worst = 0
  #minute = Number.NaN
  #inMinute = 0

  add(time: number): void {
    if (this.count++ === 0) {
      this.first = time
    }
    this.last = time
    const minute = minuteOf(time)
    if (minute !== this.#minute) {
      this.#minute = minute
      this.#inMinute = 0
    }
    if (++this.#inMinute > this.worst) {
      this.worst = this.#inMinute
      this.worstMinute = minute
    }
  }
}

/** What is known of refusals: all that a report tells, or only the numbers that a search compares. */
export interface Tally {
  /** Requests that were judged: those that have the keys which the policy counts by. */
  judged: number
  /** Requests that were refused. */
  refused: number
  /**
   * Notes a refusal.
   *
   * @param limit - The limit that refused.
   * @param kind - The kind of key that it counts by; -1 if it counts all calls together.
   * @param key - The number of the key.
   */
  refuse(time: number, limit: string, kind: number, key: number, isImpossible: boolean): void
}

/** All that a report tells. */
export class FullTally implements Tally {
  judged = 0
  refused = 0
  /** Refused requests whose cost is above the limit, so that they would be refused at any time. */
  impossible = 0
  readonly all = new Refusals()
  /** By the limit that refused. */
  readonly byLimit = new Map<string, number>()
  /** By kind and number of the key that was refused. */
  readonly byKey = new Map<number, Map<number, Refusals>>()

  refuse(time: number, limit: string, kind: number, key: number, isImpossible: boolean): void {
    this.refused++
    this.impossible += isImpossible ? 1 : 0
    this.all.add(time)
    this.byLimit.set(limit, (this.byLimit.get(limit) ?? 0) + 1)
    let keys = this.byKey.get(kind)
    if (keys === undefined) {
      keys = new Map()
      this.byKey.set(kind, keys)
    }
    let refusals = keys.get(key)
    if (refusals === undefined) {
      refusals = new Refusals()
      keys.set(key, refusals)
    }
    refusals.add(time)
  }
}

/** How many requests and how many keys: a bit for each key. */
export class ShortTally implements Tally {
  judged = 0
  refused = 0
  refusedKeys = 0
  #seen = new Uint8Array(1_024)

  refuse(_time: number, _limit: string, _kind: number, key: number): void {
    this.refused++
    if (key >= this.#seen.length) {
      const grown = new Uint8Array(key * 2)
      grown.set(this.#seen)
      this.#seen = grown
    }
    if (this.#seen[key] === 0) {
      this.#seen[key] = 1
      this.refusedKeys++
    }
  }
}
