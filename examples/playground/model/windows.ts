/** Finds the worst time span of a given length exactly, by sliding over all admitted calls. */
import type { Law } from './laws.js'

/** An admitted call. Lists of them are in the order of their times. */
export interface AdmittedCall {
  /** Whole microseconds. */
  readonly at: number
  readonly units: number
}

/** The span with the most admitted units of all spans of the same length. */
export interface WorstSpan {
  readonly units: number
  /** Whole microseconds. */
  readonly fromUs: number
}

/** The sum of admitted units in a sliding span. */
class SlidingSum {
  units = 0
  #first = 0

  constructor(
    readonly admitted: readonly AdmittedCall[],
    readonly law: Law,
  ) {}

  /** Removes the calls that are too old at a time. */
  expire(nowUs: number): void {
    const { spanUs, closed } = this.law
    for (let old = this.admitted[this.#first]; old !== undefined && old.at < nowUs; old = this.admitted[this.#first]) {
      const age = nowUs - old.at
      if (closed ? age <= spanUs : age < spanUs) {
        return
      }
      this.units -= old.units
      this.#first++
    }
  }

  add(one: AdmittedCall): void {
    this.expire(one.at)
    this.units += one.units
  }
}

/** The first of the worst spans. */
export function worstSpanOf(admitted: readonly AdmittedCall[], law: Law): WorstSpan {
  const sliding = new SlidingSum(admitted, law)
  let worst: WorstSpan = { units: 0, fromUs: 0 }
  for (const one of admitted) {
    sliding.add(one)
    if (sliding.units > worst.units) {
      worst = { units: sliding.units, fromUs: Math.max(0, one.at - law.spanUs) }
    }
  }
  return worst
}

/** The largest sum of a span that ends in each column. Columns have the width `widthUs`. */
export function rollingOf(admitted: readonly AdmittedCall[], law: Law, columns: number, widthUs: number): number[] {
  const sliding = new SlidingSum(admitted, law)
  let next = 0
  return Array.from({ length: columns }, (_, column) => {
    const end = (column + 1) * widthUs
    sliding.expire(column * widthUs)
    let most = sliding.units
    // A call at the end of the last column belongs to it.
    for (let one = admitted[next]; one !== undefined; one = admitted[next]) {
      if (one.at >= end && column < columns - 1) {
        break
      }
      sliding.add(one)
      most = Math.max(most, sliding.units)
      next++
    }
    return most
  })
}
