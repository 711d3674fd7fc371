/**
 * How far the clock of the day may fall behind before it counts as set back. More than the steps in which a
 * platform shows its times (100 ms in a browser that hides them), so that these never count.
 */
const TOLERANCE_MS = 250

/** The most reads of the clocks until two of them are together. */
const MAX_READS = 3

/** The longest time between reads that are together. */
const TOGETHER_MS = 1

/**
 * A clock of elapsed time that counts the suspension of the machine, from two clocks of the platform: a
 * monotonic one that may stop while the machine is suspended, and that of the day, which may step.
 *
 * It shows the monotonic time and the largest lead that the clock of the day has gained over it, so it never goes
 * back. A step forward of the clock of the day counts as a suspension. It is never too short by more than 250 ms,
 * unless the clock of the day is set back during a suspension.
 */
export class ElapsedClock {
  readonly #monotonic: () => number
  readonly #wall: () => number
  readonly #start: number
  /** The lead of the clock of the day that counts as none. */
  #base: number
  /** The largest lead since then: the time of all suspensions. */
  #suspended = 0

  /**
   * @param monotonic - Milliseconds of a clock that never goes back.
   * @param wall - Epoch milliseconds.
   */
  constructor(monotonic: () => number, wall: () => number) {
    this.#monotonic = monotonic
    this.#wall = wall
    const { now, lead } = this.#read()
    this.#start = now
    this.#base = lead
  }

  /** Milliseconds since the clock was made. */
  now(): number {
    const { now, lead, isExact } = this.#read()
    const gained = lead - this.#base
    if (!isExact) {
      // The next read counts a suspension.
    } else if (gained > this.#suspended) {
      this.#suspended = gained
    } else if (gained < this.#suspended - TOLERANCE_MS) {
      // The clock of the day has been set back.
      this.#base = lead - this.#suspended
    }
    return now - this.#start + this.#suspended
  }

  /** The monotonic time, and how far the clock of the day is ahead of it. */
  #read(): { readonly now: number; readonly lead: number; readonly isExact: boolean } {
    let now = this.#monotonic()
    for (let reads = 1; ; reads++) {
      const wall = this.#wall()
      const after = this.#monotonic()
      // The process may be interrupted between the reads. Then the lead would be wrong.
      const isExact = after - now <= TOGETHER_MS
      if (isExact || reads === MAX_READS) {
        return { now: after, lead: wall - after, isExact }
      }
      now = after
    }
  }
}
