import type { WaitingTime } from '../platform/waiting-time.js'
import { TollgateError } from './error.js'

const MAX_RETRIES = 5
const FIRST_RETRY_MS = 1_000

/** The failures after which a settlement is tried again. */
const TRANSIENT = new Set(['STORE_UNAVAILABLE', 'STORE_TIMEOUT', 'STORE_ERROR', 'OVERLOADED'])

/**
 * Settles units that were charged in advance, and tries again for half a minute while the store fails. Only the first
 * settlement has an effect, so one with an unknown outcome may be repeated.
 *
 * @param settle - Must not reject.
 * @param onEnd - Receives the outcome of the last try.
 * @returns The outcome of the first try: callers do not wait for the others.
 */
export async function settleRepeatedly<O extends { readonly error: unknown }>(
  time: WaitingTime,
  settle: () => Promise<O>,
  onEnd: (outcome: O) => void,
): Promise<O> {
  const endOrRepeat = (outcome: O, retry: number): void => {
    const { error } = outcome
    if (retry > MAX_RETRIES || !TollgateError.is(error) || !TRANSIENT.has(error.code)) {
      onEnd(outcome)
    } else {
      const repeat = async () => endOrRepeat(await settle(), retry + 1)
      time.setTimeout(() => void repeat(), FIRST_RETRY_MS * 2 ** (retry - 1))
    }
  }
  const first = await settle()
  endOrRepeat(first, 1)
  return first
}
