import type { Applied, Decision } from '../api/decision.js'
import type { Policy } from '../policies/policy.js'

/** What is asked of a key, beside {@link Ledger.take}. Times are in whole microseconds. */
export type Operation =
  | { readonly kind: 'peek'; readonly cost: number }
  | { readonly kind: 'takeUpTo' | 'penalize'; readonly units: number }
  | Refund
  | Unbook
  | { readonly kind: 'reserve'; readonly units: number; readonly hold: Uint8Array; readonly lastingUs: number }
  | Settle
  | { readonly kind: 'reset' | 'unblock' | 'clearOverride' }
  | { readonly kind: 'block'; readonly lastingUs: number }
  | { readonly kind: 'override'; readonly policies: readonly (Policy | undefined)[]; readonly lastingUs: number }

/** Gives back units of an earlier call. */
export interface Refund {
  readonly kind: 'refund'
  /** Who took them. */
  readonly source: Decision['source']
  readonly units: number
  /** The time of the decision on that call. */
  readonly atUs: number
  /** When the key was to be as if never used, by each policy in that decision. */
  readonly resetAtUs: readonly number[]
}

/** Gives back slots that were booked together, if nobody is behind them; the units are 1 if it did. */
export interface Unbook {
  readonly kind: 'unbook'
  /** Who booked them. */
  readonly source: Decision['source']
  readonly booked: Booked
}

/** What was booked, as the engine keeps it. */
export type Booked = Float64Array

/** The doubles of {@link Booked} for each policy. */
export const BOOKING_LENGTH = 14

/** Settles a reservation: gives back what it took too many, or charges what it took too few. */
export interface Settle extends Omit<Refund, 'kind'> {
  readonly kind: 'settle'
  readonly hold: Uint8Array
  readonly actual: number
  readonly expiresAtUs: number
}

/** What the engine is told of {@link Settle}, by both stores. */
export function numbersOfSettle(operation: Settle): Float64Array {
  const { units, actual, expiresAtUs, atUs, resetAtUs } = operation
  return Float64Array.of(units, actual, expiresAtUs, atUs, ...resetAtUs)
}

/** The numbers of operations in `src/abi/operation.rs`. */
export const OPERATION_CODES = {
  take: 0,
  takeUpTo: 1,
  peek: 2,
  penalize: 3,
  reset: 4,
  block: 5,
  unblock: 6,
  clearOverride: 7,
} as const

/** What became of an operation. */
export interface Performed {
  /** How the key stands then; for those that take, the decision. */
  readonly decision: Decision
  /**
   * The units that it took, charged or gave back: the most under any policy. Of {@link Settle} one more, and 0 if
   * nothing was settled.
   */
  readonly units: number
}

/** Where a change was made: who tells how the key stands then has made it. */
export function appliedBy({ decision: { source } }: Performed): Applied {
  return source === 'none' ? false : source
}

/** What became of a booking. */
export interface Booking {
  /** On the units as of the slot, if that is near enough; otherwise as of now. */
  readonly decision: Decision
  /** How long it is until the slot, in microseconds. */
  readonly waitUs: number
  /** What was booked; `undefined` if nothing was. */
  readonly booked: Booked | undefined
}
