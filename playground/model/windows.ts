/** The worst time of a given length, found exactly: by sliding over all that was admitted. */
import type { Law } from './laws.js'

/** What was admitted, in the order of the times. */
export interface Admitted {
  /** Whole microseconds. */
  readonly at: number
  readonly units: number
}

/** A time in which nothing more was admitted than in any other of the same length. */
export interface Worst {
  readonly units: number
  /** Whole microseconds. */
  readonly fromUs: number
}

/** Walks over what was admitted, and knows how much of it lies in the time that ends now. */
class Sliding {
  units = 0
  #first = 0

  constructor(
    readonly admitted: readonly Admitted[],
    readonly law: Law,
  ) {}

  /** Forgets what is too long ago at a time. */
  forget(nowUs: number): void {
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

  add(one: Admitted): void {
    this.forget(one.at)
    this.units += one.units
  }
}

/** The first of the worst times. */
export function worstOf(admitted: readonly Admitted[], law: Law): Worst {
  const sliding = new Sliding(admitted, law)
  let worst: Worst = { units: 0, fromUs: 0 }
  for (const one of admitted) {
    sliding.add(one)
    if (sliding.units > worst.units) {
      worst = { units: sliding.units, fromUs: Math.max(0, one.at - law.spanUs) }
    }
  }
  return worst
}

/** The most that lay in the time that ended at any moment of each column, which is so wide. */
export function rollingOf(admitted: readonly Admitted[], law: Law, columns: number, widthUs: number): number[] {
  const sliding = new Sliding(admitted, law)
  let next = 0
  return Array.from({ length: columns }, (_, column) => {
    const end = (column + 1) * widthUs
    sliding.forget(column * widthUs)
    let most = sliding.units
    // What falls on the last column's end belongs to it.
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
