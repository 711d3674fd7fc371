import type { Duration } from '../input/duration.js'
import { invalid, optionsOf, shown, wholeNumber } from '../input/options.js'
import type { BanRule, PolicySet } from '../policies/policy-set.js'
import { durationUsOf } from './call-options.js'
import { TollgateError } from './error.js'

/**
 * When a key is banned, and for how long. A ban is a block that the store starts itself, in the call that
 * deserves it.
 *
 * A refused call is a *strike* against its key. The key is banned when it has `after` strikes within `period`:
 * the call of the last strike has `status: 'blocked'`, and `ban` in its decision. See
 * `docs/changing-limits.md#bans` for the calls that are no strikes, and for the end of a ban.
 *
 * @example
 * const ban: BanOptions = { after: 3, period: '10m', for: ['5m', '1h', '1d'], ttl: '1w' }
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { ban })
 */
export interface BanOptions {
  /** The strikes for a ban: a whole number from 1. Default: 1. */
  readonly after?: number
  /** The window in which strikes count. It starts with the first. Required if `after` is above 1. At most 2^52 µs. */
  readonly period?: Duration
  /** The lengths of the first, second, … ban, 1 to 16. All later bans have the last length. Each at most 2^52 µs. */
  readonly for: Duration | readonly Duration[]
  /** How long an ended ban is remembered. A later ban has the first length again. Default: `'1d'`. At most 2^52 µs. */
  readonly ttl?: Duration
  /** The names of the policies whose refusals are strikes. Default: all without `per: 'global'`. */
  readonly policies?: readonly string[]
  /**
   * The key dimension whose key gets the strike, whichever of `policies` refuses: with `per: 'ip'` refusals by
   * the limit of an account ban the address that asked. Default: the key of each policy that refuses.
   */
  readonly per?: string
}

const MAX_LENGTHS = 16

const DEFAULT_TTL = '1d'

/** Checks the options `ban` and `blockFor` of a limiter. @throws {TollgateError} `INVALID_OPTION` */
export function banRuleOf(ban: unknown, blockFor: unknown): BanRule | undefined {
  if (blockFor !== undefined) {
    if (ban !== undefined) {
      const rule = 'cannot be used together: blockFor is ban: { for: blockFor }'
      throw new TollgateError('INVALID_OPTION', `ban and blockFor ${rule}`)
    }
    return { after: 1, withinUs: 1, forgetUs: 1, lengthsUs: [durationUsOf('RateLimiter', 'blockFor', blockFor)] }
  }
  if (ban === undefined) {
    return undefined
  }
  const names = ['after', 'period', 'for', 'ttl', 'policies', 'per'] as const
  const given = optionsOf('INVALID_OPTION', 'ban', ban, names)
  const { after = 1, period, for: lengths, ttl = DEFAULT_TTL, policies, per } = given
  const strikes = wholeNumber('INVALID_OPTION', 'ban.after', after, 1)
  if (period === undefined && strikes > 1) {
    const rule = "must be given if after is above 1: the time in which strikes count, such as '10m'"
    throw new TollgateError('INVALID_OPTION', `ban.period ${rule}`)
  }
  return {
    after: strikes,
    withinUs: period === undefined ? 1 : durationUsOf('RateLimiter', 'ban.period', period),
    forgetUs: durationUsOf('RateLimiter', 'ban.ttl', ttl),
    lengthsUs: lengthsOf(lengths),
    ...(policies === undefined ? {} : { policies: namesOf(policies) }),
    ...(per === undefined ? {} : { per: dimensionOf(per) }),
  }
}

/** The policies with a rule for bans. @throws {TollgateError} `INVALID_OPTION` */
export function withBanRule(policySets: readonly PolicySet[], ban: BanRule | undefined): readonly PolicySet[] {
  if (ban === undefined) {
    return policySets
  }
  const [{ policies, isSingle }] = policySets as readonly [PolicySet, ...PolicySet[]]
  const own = policies.filter(({ policy }) => policy.per !== 'global').map(({ name }) => name)
  if (own.length === 0) {
    const rule = 'has no key to ban: all policies count all calls together'
    throw new TollgateError('INVALID_OPTION', `ban ${rule}`)
  }
  const unknown = ban.policies?.find((name) => isSingle || !own.includes(name))
  if (unknown !== undefined) {
    const rule = isSingle ? 'is for several policies by name' : `must name some of ${own.map(shown).join(', ')}`
    throw invalid('INVALID_OPTION', 'ban.policies', rule, unknown)
  }
  const dimensions = policies.flatMap(({ policy: { per } }) => (per === undefined || per === 'global' ? [] : [per]))
  if (ban.per !== undefined && !dimensions.includes(ban.per)) {
    const rule =
      dimensions.length === 0
        ? 'is for several policies with a per'
        : `must be the per of a policy: one of ${[...new Set(dimensions)].map(shown).join(', ')}`
    throw invalid('INVALID_OPTION', 'ban.per', rule, ban.per)
  }
  return policySets.map((policySet) => ({ ...policySet, ban }))
}

function dimensionOf(per: unknown): string {
  if (typeof per !== 'string') {
    throw invalid('INVALID_OPTION', 'ban.per', 'must be the per of a policy', per)
  }
  return per
}

function namesOf(policies: unknown): readonly string[] {
  if (!Array.isArray(policies) || policies.length === 0 || !policies.every((name) => typeof name === 'string')) {
    throw invalid('INVALID_OPTION', 'ban.policies', 'must be an array of names of policies', policies)
  }
  return policies
}

function lengthsOf(lengths: unknown): number[] {
  const all = Array.isArray(lengths) ? lengths : [lengths]
  if (all.length < 1 || all.length > MAX_LENGTHS) {
    throw invalid('INVALID_OPTION', 'ban.for', `must be 1 to ${MAX_LENGTHS} durations`, lengths)
  }
  return all.map((length, index) =>
    durationUsOf('RateLimiter', Array.isArray(lengths) ? `ban.for[${index}]` : 'ban.for', length),
  )
}
