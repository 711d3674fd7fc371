import { grown } from './log/grown.js'

/** Refusals over time. The times must not decrease. */
export class Refusals {
  count = 0
  /** Epoch milliseconds; `NaN` if there is no refusal. */
  first = Number.NaN
  last = Number.NaN
  /** The minute with the most refusals (the first of equal ones), and their number. */
  worstMinute = Number.NaN
  worst = 0
  #minute = Number.NaN
  #inMinute = 0

  add(time: number): void {
    if (this.count++ === 0) {
      this.first = time
    }
    this.last = time
    const minute = time - (time % 60_000)
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

/** Counts refusals: in full for a report, or only the numbers that a search compares. */
export interface RefusalTally {
  /** Requests on which the limiter decided: those that have the keys which the policy counts by. */
  decided: number
  refused: number
  /** `kind` is the kind of key by which the limit counts; -1 if it counts all calls together. */
  refuse(time: number, limit: string, kind: number, key: number, isImpossible: boolean): void
}

/** Counts everything that a report contains. */
export class ReportTally implements RefusalTally {
  decided = 0
  refused = 0
  /** Refused requests whose cost exceeds the limit. They would be refused at any time. */
  impossible = 0
  readonly all = new Refusals()
  readonly byLimit = new Map<string, number>()
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

/** Counts refused requests and refused keys only, with one byte for each key. */
export class SearchTally implements RefusalTally {
  decided = 0
  refused = 0
  refusedKeys = 0
  #refusedKeys = new Uint8Array(1_024)

  refuse(_time: number, _limit: string, _kind: number, key: number): void {
    this.refused++
    this.#refusedKeys = grown(this.#refusedKeys, key)
    if (this.#refusedKeys[key] === 0) {
      this.#refusedKeys[key] = 1
      this.refusedKeys++
    }
  }
}
