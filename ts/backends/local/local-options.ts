import { TollgateError } from '../../api/error.js'
import type { Duration } from '../../input/duration.js'
import { millisOfOption } from '../../input/duration.js'
import { invalid, optionsOf, wholeNumber } from '../../input/options.js'
import type { PolicySet } from '../../policies/policy-set.js'

/**
 * Calls that this process decides itself, without asking the store. All of it is off by default, and
 * has no effect on the embedded store.
 */
export interface LocalDecisions {
  /**
   * Caches refusals for at most this long; up to 1 hour. A call on a refused key is refused in this
   * process, without a call to the store, if it costs at least as much as the refused call. The
   * store would not have admitted it either, unless units came back or the key's numbers changed
   * after the refusal. A change by this limiter (`refund`, `reset`, `unblock`, `override` and so on)
   * takes effect at once. A change by another limiter or process takes effect after this time.
   *
   * Such a decision has `source: 'cache'`. `INVALID_OPTION` for a policy with `countRefused`: the
   * store has to count every attempt.
   */
  readonly refusals?: Duration
  /**
   * The most keys that are kept for this: a whole number from 1 to 10,000,000. Default: 100,000. A
   * key takes about 500 bytes. If there are more keys, those whose refusal ends first are dropped.
   */
  readonly maxKeys?: number
}

/** Checked {@link LocalDecisions}. */
export interface LocalOptions {
  readonly refusalsMs: number
  readonly maxKeys: number
}

const MAX_REFUSALS_MS = 3_600_000

const MAX_KEYS = 10_000_000

/** Checks {@link LocalDecisions}. @throws {TollgateError} `INVALID_OPTION` */
export function localOptionsOf(value: unknown, { policies, isSingle }: PolicySet): LocalOptions | undefined {
  if (value === undefined) {
    return undefined
  }
  const { refusals, maxKeys = 100_000 } = optionsOf('INVALID_OPTION', 'local', value, ['refusals', 'maxKeys'])
  if (refusals === undefined) {
    throw new TollgateError('INVALID_OPTION', "local takes refusals, as in local: { refusals: '1s' }")
  }
  const refusalsMs = millisOfOption('INVALID_OPTION', 'local.refusals', refusals)
  if (refusalsMs > MAX_REFUSALS_MS) {
    throw invalid('INVALID_OPTION', 'local.refusals', 'must be at most 1 hour', refusals)
  }
  const counting = policies.find(({ policy }) => 'countRefused' in policy && policy.countRefused)
  if (counting !== undefined) {
    const where = isSingle ? 'policy' : `policies.${counting.name}`
    const rule = `cannot be used with countRefused (${where}): the store has to count every attempt`
    throw new TollgateError('INVALID_OPTION', `local.refusals ${rule}`)
  }
  return { refusalsMs, maxKeys: wholeNumber('INVALID_OPTION', 'local.maxKeys', maxKeys, 1, MAX_KEYS) }
}
