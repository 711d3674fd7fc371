/** A clock with timers, for tests: a `TestClock` of `tollgate/testing` is one. */
export interface TimerClock {
  /** Epoch milliseconds. */
  now(): number
  /** Calls a function once, after a number of milliseconds. Returns its timer. */
  setTimeout(run: () => void, millis: number): unknown
  /** Removes a timer of {@link setTimeout}. */
  clearTimeout(timer: unknown): void
  /** Calls a function each time a number of milliseconds has passed. Returns its timer. */
  setInterval(run: () => void, millis: number): unknown
  /** Removes a timer of {@link setInterval}. */
  clearInterval(timer: unknown): void
}
