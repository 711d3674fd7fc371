/** How long a stretch may be, in milliseconds: each divides the next. Longer ones are weeks, doubled. */
const STEPS = [1, 5, 15, 60, 300, 900, 3_600, 7_200, 21_600, 86_400, 604_800].map((seconds) => seconds * 1_000)

/** As many stretches as a plot can show. */
const MOST_STRETCHES = 600

/**
 * Counts over time, in stretches of equal length, which grows with the log: it takes the same memory for an hour and for a
 * year. Times must not go back.
 */
export class Timeline {
  /** Milliseconds. */
  step = STEPS[0] as number
  /** The beginning of the first stretch. */
  from = 0
  /** How many stretches there are. */
  length = 0
  readonly #columns: readonly Float64Array[]

  constructor(columns: number) {
    this.#columns = Array.from({ length: columns }, () => new Float64Array(MOST_STRETCHES))
  }

  /** Counts one in a column. */
  count(column: number, time: number): void {
    let stretch = Math.floor((time - this.from) / this.step)
    if (stretch >= this.length) {
      stretch = this.#reach(time)
    }
    const counts = this.#columns[column] as Float64Array
    counts[stretch] = (counts[stretch] as number) + 1
  }

  /** A column's counts, by stretch. */
  column(column: number): number[] {
    return Array.from((this.#columns[column] as Float64Array).subarray(0, this.length))
  }

  /** Makes the timeline reach a time; answers with its stretch. */
  #reach(time: number): number {
    if (this.length === 0) {
      this.from = time - (time % this.step)
    }
    let stretch = Math.floor((time - this.from) / this.step)
    while (stretch >= MOST_STRETCHES) {
      this.#coarsen()
      stretch = Math.floor((time - this.from) / this.step)
    }
    this.length = stretch + 1
    return stretch
  }

  #coarsen(): void {
    const step = STEPS.find((longer) => longer > this.step) ?? this.step * 2
    const from = this.from - (this.from % step)
    for (const counts of this.#columns) {
      const merged = new Float64Array(MOST_STRETCHES)
      for (let stretch = 0; stretch < this.length; stretch++) {
        const to = Math.floor((this.from + stretch * this.step - from) / step)
        merged[to] = (merged[to] as number) + (counts[stretch] as number)
      }
      counts.set(merged)
    }
    this.length = this.length === 0 ? 0 : Math.floor((this.from + (this.length - 1) * this.step - from) / step) + 1
    this.from = from
    this.step = step
  }
}
