/** The lengths of an interval, in milliseconds: each divides the next. Beyond a week the length doubles. */
const STEPS = [1, 5, 15, 60, 300, 900, 3_600, 7_200, 21_600, 86_400, 604_800].map((seconds) => seconds * 1_000)

/** The maximum number of intervals that a plot can show. */
const MAX_INTERVALS = 600

/** Counts over time, in equal intervals whose length grows with the log. The times must not decrease. */
export class Timeline {
  /** Milliseconds. */
  step = STEPS[0] as number
  from = 0
  length = 0
  readonly #columns: readonly Float64Array[]

  constructor(columns: number) {
    this.#columns = Array.from({ length: columns }, () => new Float64Array(MAX_INTERVALS))
  }

  count(column: number, time: number): void {
    let interval = Math.floor((time - this.from) / this.step)
    if (interval >= this.length) {
      interval = this.#extend(time)
    }
    const counts = this.#columns[column] as Float64Array
    counts[interval] = (counts[interval] as number) + 1
  }

  column(column: number): number[] {
    return Array.from((this.#columns[column] as Float64Array).subarray(0, this.length))
  }

  /** Extends the timeline to a time. Returns the time's interval. */
  #extend(time: number): number {
    if (this.length === 0) {
      this.from = time - (time % this.step)
    }
    let interval = Math.floor((time - this.from) / this.step)
    while (interval >= MAX_INTERVALS) {
      this.#coarsen()
      interval = Math.floor((time - this.from) / this.step)
    }
    this.length = interval + 1
    return interval
  }

  #coarsen(): void {
    const step = STEPS.find((longer) => longer > this.step) ?? this.step * 2
    const from = this.from - (this.from % step)
    for (const counts of this.#columns) {
      const merged = new Float64Array(MAX_INTERVALS)
      for (let interval = 0; interval < this.length; interval++) {
        const to = Math.floor((this.from + interval * this.step - from) / step)
        merged[to] = (merged[to] as number) + (counts[interval] as number)
      }
      counts.set(merged)
    }
    this.length = this.length === 0 ? 0 : Math.floor((this.from + (this.length - 1) * this.step - from) / step) + 1
    this.from = from
    this.step = step
  }
}
