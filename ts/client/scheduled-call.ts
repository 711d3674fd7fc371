import type { CheckedCall } from './checked-options.js'
import type { RunContext } from './options.js'

/** A scheduled call. */
export interface ScheduledCall extends CheckedCall {
  readonly run: (context: RunContext) => unknown
  /** Whether it is a request of `fetch`, whose permit is held until the body of its response has ended. */
  readonly holdsBody: boolean
  /** The order of the calls of a client. */
  readonly sequence: number
  /**
   * The call with the lower rank starts first: the time at which it was made, less the time by which its
   * priority brings it forward. A retry does not change it.
   */
  readonly rank: number
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  /** Called once, when the call and the body of its response have ended. */
  readonly onEnd: () => void
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

/** The options of a limiter's methods for such a turn. */
export function turnOptions({ cost, tier }: TurnNeed): { cost: number; tier?: string } {
  return tier === undefined ? { cost } : { cost, tier }
}
