import type { Admission } from './admission.js'

/** Durations of a row. */
export interface Pace {
  readonly isShort: boolean
  /** Whether late calls and a late recovery break promises. On a busy machine, they prove nothing. */
  readonly isTimed: boolean
  /** Time before and after a fault, in milliseconds. */
  readonly calmMs: number
  /** Duration of a fault that may have any duration, in milliseconds. */
  readonly faultMs: number
}

/** The effect of a fault on callers. */
export interface Row {
  readonly calls: number
  /**
   * The longest time that a call was pending, in milliseconds: without stalls of the event loop,
   * and raw.
   */
  readonly longestMs: number
  readonly longestRawMs: number
  /** The longest stall of the event loop, in milliseconds. */
  readonly loopDelayMs: number
  /** Failed calls by code. */
  readonly errors: Readonly<Record<string, number>>
  /** Milliseconds from the store's recovery until no call failed any more. */
  readonly normalMs: number | undefined
  readonly admitted: readonly Admission[]
  /** Further observations, as text. */
  readonly notes: readonly string[]
  /** The promises that were broken. */
  readonly broken: readonly string[]
}

/** A fault, and the promises to callers while it lasts. */
export interface Fault {
  /** The name for `--only` and for the docs. */
  readonly name: string
  /** A description in one line. */
  readonly title: string
  /** Excluded from `--short`: it takes long at any pace, or is much like another fault. */
  readonly isLong?: boolean
  run(pace: Pace): Promise<Row>
}
