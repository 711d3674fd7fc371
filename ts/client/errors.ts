import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import type { AbortSignalLike } from '../api/wait.js'
import type { ScheduledCall } from './scheduled-call.js'

export function closedError(attempts: number): TollgateError {
  const fate = attempts === 0 ? 'the call has not started' : `attempt ${attempts} of the call has started`
  return new TollgateError('CLOSED', `the client has been closed; ${fate}`, { attempts })
}

/** The error of a `map` whose source may have further values. The calls of the others have ended. */
export function closedMapError(values: number): TollgateError {
  const message = `the client has been closed; map has made the calls of ${values} values, and takes no further value`
  return new TollgateError('CLOSED', message, { attempts: values })
}

export function abortedError(signal: AbortSignalLike, attempts: number): TollgateError {
  return new TollgateError('ABORTED', 'the wait has been aborted', { cause: signal.reason, attempts })
}

export function attemptTimeoutError({ attempt, attemptTimeoutMs }: ScheduledCall): TollgateError {
  const message = `attempt ${attempt} took longer than attemptTimeout of ${attemptTimeoutMs} ms`
  return new TollgateError('ATTEMPT_TIMEOUT', message, { attempts: attempt, charged: 'unknown' })
}

/** An error of the limiter, which does not know of the attempts of a call. */
export function limiterError(call: ScheduledCall, error: unknown): unknown {
  if (!TollgateError.is(error)) {
    return error
  }
  const { code, message, charged, decision } = error
  const attempts = call.attempt - 1
  return new TollgateError(code, message, {
    charged,
    attempts,
    cause: error,
    ...(decision !== undefined && { decision }),
  })
}

export function tooLongError(call: ScheduledCall, decision: Decision | undefined): TollgateError {
  const { maxWaitMs, cost } = call
  const isImpossible = decision?.status === 'impossible'
  const given = typeof cost === 'number' ? `a cost of ${cost}` : `the cost under ${decision?.policy}`
  const message = isImpossible
    ? `${given} never fits: lower the cost or raise the limit`
    : `the call has no turn within maxWait of ${maxWaitMs} ms; raise maxWait, or make fewer calls`
  const attempts = call.attempt - 1
  return new TollgateError('WAIT_TOO_LONG', message, decision === undefined ? { attempts } : { decision, attempts })
}
