import { TollgateError } from '../api/error.js'
import type { WaitingTime } from '../platform/waiting-time.js'
import { type AttemptResult, discard } from './answer.js'
import { holdBody } from './held-body.js'
import type { ScheduledCall } from './scheduled-call.js'

export function settle(call: ScheduledCall, result: AttemptResult): void {
  if (result.isError) {
    call.reject(result.error)
  } else {
    call.resolve(result.value)
  }
}

/**
 * Keeps the result of an attempt for the caller, in case there is no turn for a further one. Up to 64 kB of its body are
 * read, so that a usual one frees its connection meanwhile.
 */
export function keepLast(call: ScheduledCall, result: AttemptResult, time: WaitingTime): void {
  // Cloudflare Workers do not allow a controller outside of requests.
  const { signal } = new AbortController()
  const holder = { time, signal, usage: undefined, onEnd: () => undefined }
  call.last = result.isError ? result : { isError: false, value: holdBody(result.value, holder) }
}

/** The call begins another attempt, or ends with another error. */
export function dropLast(call: ScheduledCall): void {
  if (call.last !== undefined) {
    discard(call.last)
    call.last = undefined
  }
}

/** Ends a call that gets no further turn: with its last result if the wait for the turn is too long. */
export function settleWithoutTurn(call: ScheduledCall, error: unknown): void {
  if (call.last !== undefined && TollgateError.is(error) && error.code === 'WAIT_TOO_LONG') {
    settle(call, call.last)
  } else {
    dropLast(call)
    call.reject(error)
  }
}
