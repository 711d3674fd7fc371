import { TollgateError } from '../../api/error.js'
import type { Duration } from '../../input/duration.js'
import { millisOfOption } from '../../input/duration.js'
import { invalid, optionsOf, wholeNumber } from '../../input/options.js'
import type { PolicySet } from '../../policies/policy-set.js'

/**
 * Calls that this process decides itself, without asking the store. It has no effect on the embedded store.
 *
 * @example
 * const local: LocalDecisions = { lease: '100ms', refusals: '1s' }
 * new RateLimiter(gcra({ limit: 1_000, period: '1s' }), { store: 'redis://localhost', prefix: 'api', local })
 */
export interface LocalDecisions {
  /**
   * Caches refusals for at most this long; up to 1 hour. A call on a refused key that costs at least as much, under the
   * meter that refused, is refused in this process, with `source: 'cache'`. A change of the key by this limiter takes effect at once,
   * and one by another limiter or process after this time. `INVALID_OPTION` for a policy with `countRefused`.
   */
  readonly refusals?: Duration
  /**
   * Takes units of keys that are called often from the store in advance, and uses them for at most
   * this long; from 10 milliseconds to 1 minute. Calls on such a key have `source: 'lease'`. The law of the
   * policy stays.
   *
   * For `gcra`, `leakyBucket`, `tokenBucket` with continuous refill, `fixedWindow` and
   * `calendarWindow`, without `countRefused` and without a `meter`. The burst of a rate becomes less by the units that
   * come back in this time. All limiters of a prefix must have the same `lease`.
   */
  readonly lease?: Duration
  /**
   * The most keys that are kept for each of both, 1 to 10,000,000, of about 500 bytes each. A refused key counts once for
   * each meter that refuses it. Default: 100,000.
   */
  readonly maxKeys?: number
}

export interface LocalOptions {
  /** 0 if refusals are not cached. */
  readonly refusalsMs: number
  /** `undefined` if there are no leases. */
  readonly leaseMs: number | undefined
  readonly maxKeys: number
}

const MAX_REFUSALS_MS = 3_600_000

/** A shorter lease would be over soon after the answer that grants it. */
export const MIN_LEASE_MS = 10

const MAX_LEASE_MS = 60_000

const MAX_KEYS = 10_000_000

/** @throws {TollgateError} `INVALID_OPTION` */
export function localOptionsOf(value: unknown, policySet: PolicySet): LocalOptions | undefined {
  if (value === undefined) {
    return undefined
  }
  if (policySet.policies.some(({ policy }) => policy.algorithm === 'concurrency')) {
    throw new TollgateError(
      'INVALID_OPTION',
      'local cannot be used with concurrency: the store has to give every permit',
    )
  }
  const names = ['refusals', 'lease', 'maxKeys'] as const
  const { refusals, lease, maxKeys = 100_000 } = optionsOf('INVALID_OPTION', 'local', value, names)
  if (refusals === undefined && lease === undefined) {
    const rule = "takes refusals, lease or both, as in local: { refusals: '1s', lease: '100ms' }"
    throw new TollgateError('INVALID_OPTION', `local ${rule}`)
  }
  return {
    refusalsMs: refusals === undefined ? 0 : refusalsMsOf(refusals, policySet),
    leaseMs: lease === undefined ? undefined : leaseMsOf(lease, policySet),
    maxKeys: wholeNumber('INVALID_OPTION', 'local.maxKeys', maxKeys, 1, MAX_KEYS),
  }
}

function refusalsMsOf(refusals: unknown, { policies, isSingle }: PolicySet): number {
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
  return refusalsMs
}

function leaseMsOf(lease: unknown, { ban, meters }: PolicySet): number {
  if (meters !== undefined) {
    const rule = 'cannot be used with policies that have a meter: a lease has the same units under all policies'
    throw new TollgateError('INVALID_OPTION', `local.lease ${rule}; use local: { refusals }`)
  }
  if (ban !== undefined) {
    const rule = 'cannot be used with ban or blockFor: the store has to count every refusal'
    throw new TollgateError('INVALID_OPTION', `local.lease ${rule}`)
  }
  const leaseMs = millisOfOption('INVALID_OPTION', 'local.lease', lease)
  if (leaseMs < MIN_LEASE_MS || leaseMs > MAX_LEASE_MS) {
    throw invalid('INVALID_OPTION', 'local.lease', 'must be from 10 milliseconds to 1 minute', lease)
  }
  return leaseMs
}
