import { TollgateError, type TollgateErrorCode } from '../../api/error.js'
import { STORE_FAILURE_MESSAGE } from './responses.js'

/** The failures of a store. A later request may succeed. All other errors are errors of the program. */
const STORE_FAILURES: readonly TollgateErrorCode[] = [
  'STORE_UNAVAILABLE',
  'STORE_TIMEOUT',
  'STORE_ERROR',
  'STORE_FULL',
  'OVERLOADED',
]

export function isStoreFailure(error: unknown): error is TollgateError {
  return TollgateError.is(error) && STORE_FAILURES.includes(error.code)
}

/**
 * The error that a framework's error handling gets in place of a failure of the store. Default handlers send its
 * message and its stack to the client, so it has neither of the store's error, its `cause`, which may name the server.
 */
export function errorForFramework(error: unknown): unknown {
  if (!isStoreFailure(error)) {
    return error
  }
  const { code, charged } = error
  const answered = new TollgateError(code, STORE_FAILURE_MESSAGE, { charged, cause: error })
  return Object.assign(answered, { status: 503, statusCode: 503 })
}
