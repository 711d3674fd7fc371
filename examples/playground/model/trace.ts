/** A trace: the calls that run through each policy. */

/** One call. */
export interface TraceCall {
  /** Whole microseconds from the start. */
  readonly at: number
  readonly key: string
  readonly cost: number
  /** The costs under meters other than `calls`. */
  readonly units?: UnitsByMeter
}

/** Units of meters. */
export interface UnitsByMeter {
  readonly [meter: string]: number
}

/** The costs of a call. */
export type CallCosts = Pick<TraceCall, 'cost' | 'units'>

/** All calls, in the order of their times. */
export interface Traffic {
  readonly calls: readonly TraceCall[]
  /** The start in epoch milliseconds. */
  readonly startMs: number
  /** The length of the plots, in microseconds. */
  readonly lengthUs: number
}

/** An error in the description of traffic. The message is for the user. */
export class TrafficError extends Error {}

/** The maximum number of calls of a trace. */
export const MAX_CALLS = 100_000

/** A Monday, at midnight UTC: a boundary of every aligned window. */
export const START_MS = Date.UTC(2026, 0, 5)

/** The meter of a policy that counts something else than calls. */
export function meterOf({ meter }: { readonly meter?: string }): string | undefined {
  return meter === 'calls' ? undefined : meter
}

/** The cost of a call under a meter; `undefined` if the call has none. */
export function costUnder(meter: string | undefined, { cost, units = {} }: CallCosts): number | undefined {
  if (meter === undefined) {
    return cost
  }
  return Object.hasOwn(units, meter) ? units[meter] : undefined
}

/** Throws if a policy counts a meter that a call has no cost of. */
export function checkMeter(policy: { readonly meter?: string }, { calls }: Traffic): void {
  const meter = meterOf(policy)
  const without = meter === undefined ? undefined : calls.find((call) => costUnder(meter, call) === undefined)
  if (without !== undefined) {
    const meters = ['calls', ...Object.keys(without.units ?? {})].join(', ')
    throw new TrafficError(`meter must be one that each call has units of (${meters}), got ${JSON.stringify(meter)}`)
  }
}

/** The number of calls of a key. */
export interface KeyCount {
  readonly key: string
  readonly calls: number
}

/** Sorts calls by their times. Calls with equal times keep their order. */
export function inOrder(calls: readonly TraceCall[]): readonly TraceCall[] {
  return calls.toSorted((one, other) => one.at - other.at)
}

/** The keys of a trace, by their number of calls, the busiest first. */
export function keysOf({ calls }: Traffic): readonly KeyCount[] {
  const counts = new Map<string, number>()
  for (const { key } of calls) {
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return [...counts].map(([key, calls]) => ({ key, calls })).toSorted((one, other) => other.calls - one.calls)
}
