import type { Applied, Decision } from '../api/decision.js'
import type { Keys } from '../input/keys.js'
import type { Policy } from '../policies/policy.js'

/**
 * An operation on a key, other than {@link LimiterBackend.take}. Times are in whole microseconds.
 */
export type Operation =
  | { readonly kind: 'peek'; readonly cost: number }
  | { readonly kind: 'takeUpTo' | 'penalize'; readonly units: number }
  | RefundOperation
  | CancelSchedule
  | { readonly kind: 'reserve'; readonly units: number; readonly hold: Uint8Array; readonly durationUs: number }
  | SettleOperation
  | RenewOperation
  | AcquireOperation
  | PermitOperation
  | { readonly kind: 'reset' | 'unblock' | 'clearOverride' }
  | { readonly kind: 'block'; readonly durationUs: number }
  | { readonly kind: 'override'; readonly policies: readonly (Policy | undefined)[]; readonly durationUs: number }

/** Refunds units of an earlier call. */
export interface RefundOperation {
  readonly kind: 'refund'
  /** The origin of the decision that took them. */
  readonly source: Decision['source']
  readonly units: number
  /** The time of the decision on that call. */
  readonly atUs: number
  /** The reset time of the key in that decision, by policy. */
  readonly resetAtUs: readonly number[]
}

/**
 * Cancels scheduled slots, unless a later slot is scheduled. The resulting units are 1 if it did.
 */
export interface CancelSchedule {
  readonly kind: 'cancelSchedule'
  /** The origin of the decision that scheduled them. */
  readonly source: Decision['source']
  readonly charges: ScheduledCharges
}

/** The charges of a scheduled reservation, in the engine's encoding. */
export type ScheduledCharges = Float64Array

/** The doubles of {@link ScheduledCharges} for each policy. */
export const SCHEDULED_CHARGE_LENGTH = 14

/** Settles a reservation: refunds surplus units, or charges missing ones. */
export interface SettleOperation extends Omit<RefundOperation, 'kind'> {
  readonly kind: 'settle'
  readonly hold: Uint8Array
  readonly actual: number
  readonly expiresAtUs: number
}

/** Moves the end of a reservation. The resulting units are 1 if it did. */
export interface RenewOperation {
  readonly kind: 'renew'
  /** The origin of the decision that made the reservation. */
  readonly source: Decision['source']
  readonly hold: Uint8Array
  /** The time from now to the new end. */
  readonly durationUs: number
  /** The end before. */
  readonly expiresAtUs: number
}

/** Takes units with a permit: see `src/algorithm/concurrency.rs`. */
export interface AcquireOperation {
  readonly kind: 'acquire'
  readonly units: number
  /** The id of the permit: a random whole number from 1 to 2^53 - 1. */
  readonly permit: number
  /** The time for which the call has waited; -1 if it does not wait. */
  readonly waitedUs: number
}

/** Ends or renews a permit. The resulting units are 1 if it was held. */
export interface PermitOperation {
  readonly kind: 'release' | 'renewPermit'
  /** The origin of the decision that gave the permit. */
  readonly source: Decision['source']
  readonly permit: number
}

/** The engine's encoding of a {@link SettleOperation}, for both stores. */
export function settleNumbersOf(operation: SettleOperation): Float64Array {
  const { units, actual, expiresAtUs, atUs, resetAtUs } = operation
  return Float64Array.of(units, actual, expiresAtUs, atUs, ...resetAtUs)
}

/** The result of an operation. */
export interface OperationResult {
  /** The state of the key after the operation. For operations that take units, the decision. */
  readonly decision: Decision
  /**
   * The units taken, charged or refunded: the most under any policy. For {@link SettleOperation}
   * one more; 0 if nothing was settled.
   */
  readonly units: number
  /** The keys with which units are refunded, if they are not those of the call. */
  readonly keys?: Keys
}

/** The place where a change was applied, from the source of the decision after it. */
export function appliedBy({ decision: { source } }: OperationResult): Applied {
  return source === 'store' || source === 'fallback' ? source : false
}

/** A scheduled reservation: units that were taken as of a future slot. */
export interface ScheduledReservation {
  /** The decision as of the slot if it is near enough, otherwise as of now. */
  readonly decision: Decision
  /** The time until the slot, in microseconds. */
  readonly waitUs: number
  /** The charges, for cancelling; `undefined` if nothing was scheduled. */
  readonly charges: ScheduledCharges | undefined
}
