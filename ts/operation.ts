import type { Decision } from './decision.js'
import type { Policy } from './policy.js'

/** What is asked of a key, beside {@link Ledger.take}. Times are in whole microseconds. */
export type Operation =
  | { readonly kind: 'peek'; readonly cost: number }
  | { readonly kind: 'takeUpTo' | 'penalize'; readonly units: number }
  | Refund
  | { readonly kind: 'reset' | 'unblock' | 'clearOverride' }
  | { readonly kind: 'block'; readonly lastingUs: number }
  | { readonly kind: 'override'; readonly policies: readonly (Policy | undefined)[]; readonly lastingUs: number }

/** Gives back units of an earlier call. */
export interface Refund {
  readonly kind: 'refund'
  readonly units: number
  /** The time of the decision on that call. */
  readonly atUs: number
  /** When the key was to be as if never used, by each policy in that decision. */
  readonly resetAtUs: readonly number[]
}

/** The numbers of operations in `src/binding/operation.rs`. */
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
  /** The units that it took, charged or gave back: the most under any policy. */
  readonly units: number
}
