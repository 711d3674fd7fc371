import type { Admission } from './admission.js'

/** How long things last. */
export interface Pace {
  readonly isShort: boolean
  /** Before and after a fault, in milliseconds. */
  readonly calmMs: number
  /** A fault that can last as long as one likes. */
  readonly faultMs: number
}

/** What a fault did to callers. */
export interface Row {
  readonly calls: number
  /** The longest that a call was pending, in milliseconds, less what the event loop stood still; and as it was. */
  readonly longestMs: number
  readonly longestRawMs: number
  /** How long the event loop stood still at most, in milliseconds. */
  readonly loopDelayMs: number
  /** Failed calls by code. */
  readonly errors: Readonly<Record<string, number>>
  /** Milliseconds from the store's health to the calls'. */
  readonly normalMs: number | undefined
  readonly admitted: readonly Admission[]
  /** What else was seen, in words. */
  readonly notes: readonly string[]
  /** The promises that were broken. */
  readonly broken: readonly string[]
}

/** A way to fail, and what callers are promised while it lasts. */
export interface Fault {
  /** For `--only`, and for docs that refer to it. */
  readonly name: string
  /** In a line. */
  readonly title: string
  /** Not in the short form: it takes long whatever the pace, or another is much like it. */
  readonly isLong?: boolean
  run(pace: Pace): Promise<Row>
}
