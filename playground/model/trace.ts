/** A trace: the calls that are sent through each policy. */

/** One call. */
export interface Call {
  /** Whole microseconds from the beginning. */
  readonly at: number
  readonly key: string
  readonly cost: number
}

/** All calls, in the order of their times. */
export interface Traffic {
  readonly calls: readonly Call[]
  /** The beginning by the clock: epoch milliseconds. */
  readonly startMs: number
  /** How long is looked at, in microseconds. */
  readonly lengthUs: number
}

/** What cannot be traffic; the message is for the person who typed it. */
export class TrafficError extends Error {}

/** The most calls of one trace. */
export const MOST_CALLS = 100_000

/** A Monday, at midnight UTC: a boundary of every window that has a grid. */
export const START_MS = Date.UTC(2026, 0, 5)

/** Calls by their times; those of one moment stay as they are. */
export function inOrder(calls: readonly Call[]): readonly Call[] {
  return calls.toSorted((one, other) => one.at - other.at)
}

/** The keys of a trace, by how often they call: the busiest first. */
export function keysOf({ calls }: Traffic): readonly string[] {
  const counts = new Map<string, number>()
  for (const { key } of calls) {
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return [...counts].toSorted(([, one], [, other]) => other - one).map(([key]) => key)
}
