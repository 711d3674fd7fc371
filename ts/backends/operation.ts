import type { Applied, Decision } from '../api/decision.js'
import type { Keys } from '../input/keys.js'
import type { Policy } from '../policies/policy.js'
import { OPERATION_CODES } from './protocol.js'
import { listOf, type Units } from './units.js'

/** An operation on a key, other than {@link LimiterBackend.take}. Times are in whole microseconds. */
export type Operation =
  | TakeByIdOperation
  | { readonly kind: 'peek'; readonly cost: Units }
  | { readonly kind: 'takeUpTo'; readonly units: number }
  | { readonly kind: 'penalize'; readonly units: Units }
  | RefundOperation
  | CancelScheduled
  | HoldOperation
  | AcquireOperation
  | PermitOperation
  | { readonly kind: 'reset' | 'unblock' | 'clearOverride' }
  | { readonly kind: 'block'; readonly durationUs: number }
  | { readonly kind: 'override'; readonly policies: readonly (Policy | undefined)[]; readonly durationUs: number }

/** The units of an earlier call, and the times that a refund needs. */
export interface Charge {
  readonly units: Units
  /** The time of the decision on that call. */
  readonly atUs: number
  /** The reset time of the key in that decision, by policy. */
  readonly resetAtUs: readonly number[]
  /** The mark of the key in that decision, by policy. */
  readonly marks: readonly number[]
  /** The units that were used after that decision, by policy; fewer if that is unknown. */
  readonly used: readonly number[]
}

/** The identifier of a call that may be repeated, as UTF-8, and how long the first decision is remembered. */
export interface CallId {
  readonly bytes: Uint8Array
  readonly lifeUs: number
}

/** Takes units, unless a call with the same identifier did. */
export interface TakeByIdOperation {
  readonly kind: 'take'
  readonly cost: Units
  readonly callId: CallId
}

/** Refunds units of an earlier call. */
export interface RefundOperation extends Charge {
  readonly kind: 'refund'
  /** The origin of the decision that took them. */
  readonly source: Decision['source']
  /** The units of the call; fewer if that is unknown. */
  readonly cost: Units
  /** The units of the call that stay charged; fewer if that is unknown. */
  readonly kept: Units
}

/** Cancels scheduled slots, unless a later slot is scheduled. The result has 1 unit if the slots were cancelled. */
export interface CancelScheduled {
  readonly kind: 'cancelScheduled'
  /** The origin of the decision that scheduled them. */
  readonly source: Decision['source']
  readonly charges: ScheduledCharges
}

/** The charges of a scheduled reservation, in the engine's encoding. */
export type ScheduledCharges = Float64Array

/** The doubles of {@link ScheduledCharges} for each policy. */
export const SCHEDULED_CHARGE_LENGTH = 14

/** An operation on the hold of a reservation. */
export type HoldOperation = ReserveOperation | ExtendOperation | SettleOperation | RenewOperation

/** Takes units under a new hold. */
export interface ReserveOperation {
  readonly kind: 'reserve'
  readonly hold: Uint8Array
  readonly units: Units
  /** The time until the hold expires. */
  readonly durationUs: number
  readonly callId?: CallId | undefined
}

/** A reservation, as its holder knows it. */
export interface KnownHold {
  readonly hold: Uint8Array
  /** The origin of the decision that made it. */
  readonly source: Decision['source']
  /** The units that were charged. */
  readonly heldUnits: Units
  /** The end before the operation. */
  readonly expiresAtUs: number
}

/** Takes further units under a hold, and renews it. */
export interface ExtendOperation extends KnownHold {
  readonly kind: 'extend'
  readonly units: Units
  readonly durationUs: number
}

/** Settles a reservation: refunds surplus units, or charges missing ones. */
export interface SettleOperation extends KnownHold {
  readonly kind: 'settle'
  readonly actual: Units
  /** The charges of the reservation, in their order. */
  readonly charges: readonly Charge[]
}

/**
 * Moves the end of a reservation. The result has 1 unit if the end was moved. If the reservation has a permit, it also
 * renews the permit; the result then has 2 units if only the permit was renewed, and 3 if only the end was moved.
 */
export interface RenewOperation extends KnownHold {
  readonly kind: 'renew'
  /** The time from now to the new end. */
  readonly durationUs: number
}

/**
 * Takes units with a permit: see `src/algorithm/concurrency/mod.rs`. With the identifier of a call it gets the permit of
 * the first such call.
 */
export interface AcquireOperation {
  readonly kind: 'acquire'
  readonly units: Units
  /** The id of the permit: a random whole number from 1 to 2^53 - 1. */
  readonly permit: number
  /** The time for which the call has waited; -1 if it does not wait. */
  readonly waitedUs: number
  /**
   * The hold of the units that are not those of the permit. Its last eight bytes are the id of the permit. A call with
   * an identifier has one: if its duration is 0, no hold is added.
   */
  readonly hold?: NewHold
  readonly callId?: CallId | undefined
}

/** A hold that an operation adds. */
export interface NewHold {
  readonly id: Uint8Array
  /** The time until the hold expires. */
  readonly durationUs: number
}

/** Ends or renews a permit. The result has 1 unit if the permit was held. */
export interface PermitOperation {
  readonly kind: 'release' | 'renewPermit'
  /** The origin of the decision that gave the permit. */
  readonly source: Decision['source']
  readonly permit: number
}

/** An operation of the engine: also one that takes units at once or at a later slot. */
export type EngineOperation =
  | Operation
  | { readonly kind: 'take'; readonly cost: Units }
  | { readonly kind: 'schedule'; readonly cost: Units; readonly maxWaitUs: number }

/** The numbers of an operation for the engine: `read` in `src/abi/operation.rs` reads them. */
export function numbersOf(operation: EngineOperation): ArrayLike<number> {
  const callId = callIdIn(operation)
  const numbers = plainNumbersOf(operation)
  return callId === undefined ? numbers : [...callIdNumbersOf(callId), ...Array.from(numbers)]
}

/** The identifier of a call that may be repeated. */
export function callIdIn(operation: EngineOperation): CallId | undefined {
  return 'callId' in operation ? operation.callId : undefined
}

const ID_BYTES_PER_NUMBER = 6

/** The number of bytes, the bytes in groups of six, the least significant first, and the life. */
function callIdNumbersOf({ bytes, lifeUs }: CallId): number[] {
  const numbers = [bytes.length]
  for (let at = 0; at < bytes.length; at += ID_BYTES_PER_NUMBER) {
    const group = bytes.subarray(at, at + ID_BYTES_PER_NUMBER)
    numbers.push(group.reduceRight((number, byte) => number * 256 + byte, 0))
  }
  return [...numbers, lifeUs]
}

function plainNumbersOf(operation: EngineOperation): ArrayLike<number> {
  switch (operation.kind) {
    case 'take':
    case 'peek':
      return counted(operation.cost)
    case 'takeUpTo':
    case 'penalize':
      return counted(operation.units)
    case 'block':
    case 'override':
      return [operation.durationUs]
    case 'release':
    case 'renewPermit':
      return [operation.permit]
    case 'refund':
      return [
        ...counted(operation.units),
        ...listOf(operation.cost),
        ...listOf(operation.kept),
        ...chargeNumbersOf(operation),
      ]
    case 'schedule':
      return [...counted(operation.cost), operation.maxWaitUs]
    case 'cancelScheduled':
      return operation.charges
    case 'acquire':
      return [...counted(operation.units), operation.permit, operation.waitedUs, ...newHold(operation.hold)]
    case 'reserve':
    case 'extend':
      return [...operation.hold, ...counted(operation.units), operation.durationUs]
    case 'renew':
      return [...operation.hold, operation.durationUs]
    case 'settle': {
      const { hold, actual, charges } = operation
      const numbers = charges.flatMap((charge) => [...listOf(charge.units), ...chargeNumbersOf(charge)])
      return [...hold, ...counted(actual), charges[0]?.resetAtUs.length ?? 0, ...numbers]
    }
    default:
      return []
  }
}

/** The code of an operation for the engine. */
export function codeOf(operation: EngineOperation): number {
  const code = OPERATION_CODES[operation.kind] + (callIdIn(operation) === undefined ? 0 : OPERATION_CODES.repeatable)
  return isMetered(operation) ? code + OPERATION_CODES.metered : code
}

/** Whether the units of an operation are by policy. */
export function isMetered(operation: EngineOperation): boolean {
  return typeof unitsOf(operation) === 'object'
}

function unitsOf(operation: EngineOperation): Units | undefined {
  if (operation.kind === 'settle') {
    return operation.actual
  }
  return 'cost' in operation ? operation.cost : 'units' in operation ? operation.units : undefined
}

/** Units for the engine: before those by policy is their number. */
function counted(units: Units): readonly number[] {
  return typeof units === 'number' ? [units] : [units.length, ...units]
}

function newHold(hold: NewHold | undefined): readonly number[] {
  return hold === undefined ? [] : [...hold.id, hold.durationUs]
}

function chargeNumbersOf({ atUs, resetAtUs, marks, used }: Charge): number[] {
  const numbersOf = (resetAt: number, index: number) => [resetAt, marks[index] as number, used[index] as number]
  return [atUs, ...resetAtUs.flatMap(numbersOf)]
}

/** The result of an operation. */
export interface OperationResult {
  /** The state of the key after the operation. For operations that take units, the decision. */
  readonly decision: Decision
  /** The units taken, charged or refunded: the most under any policy. If they were by policy: 1 if any was taken. */
  readonly units: number
  /** The units charged or refunded by policy, if those of the operation were by policy. */
  readonly moved?: readonly number[]
  /** The units of the hold: after `extend`, before `settle`; 0 without a hold. */
  readonly held?: Units
  /** After `settle`: the charged units that are owed. */
  readonly owed?: Units
  /** After `settle`: whether the hold had expired. */
  readonly isLate?: boolean
  /** The call that this one repeats. */
  readonly first?: FirstCall
  /** The keys with which units are refunded, if they are not those of the call. */
  readonly keys?: Keys
  /** When a fallback decided an `acquire`, by {@link Engine.elapsedMs}: perhaps long after the call was made. */
  readonly decidedAtMs?: number
}

/** The first call with an identifier. */
export interface FirstCall {
  readonly units: Units
  /** Of a reservation or a permit: its hold and the end of this hold. */
  readonly hold: Uint8Array | undefined
  readonly expiresAtUs: number
  /** The time of the repeated call. */
  readonly atUs: number
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
