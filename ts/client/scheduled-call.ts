import type { CheckedCall, RunContext } from './options.js'

/** A scheduled call. */
export interface ScheduledCall extends CheckedCall {
  readonly run: (context: RunContext) => unknown
  /** The order of the calls of a client. */
  readonly sequence: number
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  /** From 1; retries count up. */
  attempt: number
  /** The retries that it may have. */
  readonly maxRetries: number
  /** The time since which it waits for its turn, by the client's clock. */
  waitsSince: number
}

/** The time until which a call waits for its turn. */
export function deadlineOf({ waitsSince, maxWaitMs }: ScheduledCall): number {
  return waitsSince + maxWaitMs
}

/** Whether one turn is as good as another for two calls. */
export function needSameTurn(a: TurnNeed, b: TurnNeed): boolean {
  return a.cost === b.cost && a.tier === b.tier
}

/** The kind of turn that a call needs. */
export interface TurnNeed {
  readonly cost: number
  readonly tier: string | undefined
}
