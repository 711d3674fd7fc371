import type { Decision } from './decision.js'

/**
 * The kind of a failure, as a stable name. `docs/troubleshooting.md` has the causes and the fix of each, under its name,
 * as in `docs/troubleshooting.md#store_timeout`:
 *
 * - `INVALID_POLICY`: a policy's numbers or names are not valid.
 * - `INVALID_OPTION`: another option is unknown or has a value that is not valid.
 * - `INVALID_KEY`: the key is not a non-empty well-formed string of at most 1024 bytes of UTF-8.
 * - `INVALID_COST`: the cost is not a whole number from 1 (in `peek` from 0) to 2^53 − 1.
 * - `STORE_UNAVAILABLE`: the store could not be reached before the deadline, or the connection
 *   broke.
 * - `STORE_TIMEOUT`: the store, or the `read` of `watchPolicies`, did not answer before the deadline.
 * - `OVERLOADED`: too many calls are waiting for the store.
 * - `STORE_FULL`: the embedded store holds `maxKeys` keys and has no room for this operation; or the key has 10,000
 *   open reservations and remembered ids.
 * - `STORE_ERROR`: the store answered with an error, or failed unexpectedly.
 * - `CLOSED`: the limiter has been closed.
 * - `WAIT_TOO_LONG`: a `wait` was refused: its slot is further away than `maxWait`, the key is
 *   blocked, or the cost can never fit. {@link TollgateError.decision} tells which.
 * - `PERMIT_LOST`: the reason of the aborted `signal` of a permit that could not be renewed; also the
 *   error of an `acquire` whose answer came after the life of the permit.
 * - `ATTEMPT_TIMEOUT`: an attempt of an `OutgoingClient` took longer than `attemptTimeout`.
 * - `ABORTED`: the signal of a call was aborted. The error's name is then `'AbortError'`, as on the
 *   web platform.
 *
 * @example
 * const codes: TollgateErrorCode[] = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT']
 * const isOutage = (error: unknown) => error instanceof TollgateError && codes.includes(error.code)
 */
export type TollgateErrorCode =
  | 'INVALID_POLICY'
  | 'INVALID_OPTION'
  | 'INVALID_KEY'
  | 'INVALID_COST'
  | 'STORE_UNAVAILABLE'
  | 'STORE_TIMEOUT'
  | 'OVERLOADED'
  | 'STORE_FULL'
  | 'STORE_ERROR'
  | 'CLOSED'
  | 'WAIT_TOO_LONG'
  | 'PERMIT_LOST'
  | 'ATTEMPT_TIMEOUT'
  | 'ABORTED'

/** The details of a {@link TollgateError}, besides code and message. @inline */
interface TollgateErrorDetails {
  /** See {@link TollgateError.charged}. Default: `false`. */
  readonly charged?: boolean | 'unknown'
  /** See {@link TollgateError.results}. */
  readonly results?: readonly (Decision | TollgateError)[]
  /** See {@link TollgateError.decision}. */
  readonly decision?: Decision
  /** See {@link TollgateError.attempts}. */
  readonly attempts?: number
  /** The error that caused this one. */
  readonly cause?: unknown
}

const BRAND = Symbol.for('tollgate.error')

/**
 * The only error class of this package. A refusal is a decision, not an error, except `WAIT_TOO_LONG` of `wait`.
 * The message names the option, the value and the rule. It never contains a key or a password.
 *
 * @example
 * try {
 *   await limiter.take('user:42')
 * } catch (error) {
 *   if (error instanceof TollgateError && error.code === 'STORE_TIMEOUT') console.warn(error.charged)
 *   else throw error
 * }
 */
export class TollgateError extends Error {
  override readonly name: 'TollgateError' | 'AbortError'

  /** The kind of the failure, as a stable name: see {@link TollgateErrorCode}. */
  readonly code: TollgateErrorCode

  /** Whether units were charged, by `takeMany` for any key; `'unknown'` if the store's answer was lost. */
  readonly charged: boolean | 'unknown'

  /** After a failed `takeMany`: the decision or `TollgateError` of each key, in order. Otherwise `undefined`. */
  readonly results: readonly (Decision | TollgateError)[] | undefined

  /** After `WAIT_TOO_LONG`: the decision that refused the call. Otherwise `undefined`. */
  readonly decision: Decision | undefined

  /** The attempts that had begun, of a failed call of an `OutgoingClient`; 0: its function has never run. */
  readonly attempts: number | undefined

  /** @internal */
  readonly [BRAND] = true

  constructor(code: TollgateErrorCode, message: string, details: TollgateErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined)
    this.name = code === 'ABORTED' ? 'AbortError' : 'TollgateError'
    this.code = code
    this.charged = details.charged ?? false
    this.results = details.results
    this.decision = details.decision
    this.attempts = details.attempts
  }

  /** Whether a value is a `TollgateError` of any copy of this package. `instanceof` knows only one copy. */
  static is(value: unknown): value is TollgateError {
    return typeof value === 'object' && value !== null && (value as Record<symbol, unknown>)[BRAND] === true
  }
}
