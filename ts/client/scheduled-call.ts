import type { AbortSignalLike } from '../api/wait.js'
import type { AttemptResult } from './answer.js'
import type { CheckedCall } from './checked-options.js'
import type { RunContext } from './options.js'

export interface ScheduledCall extends CheckedCall {
  readonly run: (context: RunContext) => unknown
  /** Whether it is a request of `fetch`, whose permit is held until the body of its response has ended. */
  readonly holdsBody: boolean
  /** The caller's signals of a request of `fetch`, which also abort the body of its response. */
  readonly bodySignals: readonly AbortSignalLike[]
  /** The calls of a client are numbered in their order. */
  readonly sequence: number
  /** The time at which it was made, less that by which its priority brings it forward. The lower rank starts first. */
  readonly rank: number
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  /** Called once, when the call and the body of its response have ended. */
  readonly onEnd: () => void
  /** From 1. */
  attempt: number
  readonly maxRetries: number
  /** The time since which it waits for its turn, by the client's clock. */
  waitsSince: number
  /** The time from then on for which its own refusal pauses the key. `maxWait` counts from its end. */
  pausedMs: number
  /** The result of the last attempt, until the next one begins. */
  last: AttemptResult | undefined
}

export const FIRST_ATTEMPT = { attempt: 1, pausedMs: 0, last: undefined } as const

/** How a call is made. */
export interface CallKind {
  /** A further signal that ends the call. */
  readonly also?: AbortSignalLike | undefined
  /** Whether the call can be sent again. Default: `true`. */
  readonly isRepeatable?: boolean
  readonly isFetch?: boolean
  /** Whether it is a call of a `map`, which was made before the client was closed. */
  readonly isOfMap?: boolean
}

export function deadlineOf({ waitsSince, pausedMs, maxWaitMs }: ScheduledCall): number {
  return waitsSince + pausedMs + maxWaitMs
}
