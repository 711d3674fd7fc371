/** The columns of the plots, in lengths of time that clocks and policies use. */

const SECOND_US = 1_000_000
const MINUTE_US = 60 * SECOND_US
const HOUR_US = 60 * MINUTE_US
const DAY_US = 24 * HOUR_US

/** The lengths of columns. Windows of common lengths end where a column ends. */
const WIDTHS_US = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((millis) => millis * 1_000),
  ...[1, 2, 5, 10, 30].map((seconds) => seconds * SECOND_US),
  ...[1, 2, 5, 10, 30].map((minutes) => minutes * MINUTE_US),
  ...[1, 2, 6, 12].map((hours) => hours * HOUR_US),
  ...[1, 2, 7].map((days) => days * DAY_US),
]

/** The most columns that a narrow plot can show as bars. */
const MAX_COLUMNS = 150

/** The columns of all plots. */
export interface Bins {
  readonly columns: number
  readonly widthUs: number
}

/** The narrowest columns of a common length that fit. Together they are at least as long as the trace. */
export function binsOf(lengthUs: number): Bins {
  const widthUs = WIDTHS_US.find((width) => lengthUs <= width * MAX_COLUMNS) ?? Math.ceil(lengthUs / MAX_COLUMNS)
  return { columns: Math.max(1, Math.ceil(lengthUs / widthUs)), widthUs }
}
