import type { Decision, PolicyNumbers } from '../../api/decision.js'
import type { Policy } from '../../policies/policy.js'
import { largestCostOf, windowMsOf } from '../../policies/window.js'
import type { HeaderForm } from './options.js'

/** Sets a field of a response; `isList`: behind what is there already, as values of one list. */
export type SetField = (name: string, value: string, isList: boolean) => void

/** Writes the fields of responses. */
export interface HeaderFields {
  /** @param decision - One that has numbers: its source is not `'none'`. */
  write(decision: Decision, set: SetField): void
}

/** The largest integer of a structured field: 15 digits (RFC 9651, 3.3.1). */
const MOST = 999_999_999_999_999

/** The fields of a form, of decisions under these policies. */
export function headerFieldsOf(form: HeaderForm, policies: { readonly [name: string]: Policy }): HeaderFields {
  const limits = limitsOf(policies)
  switch (form) {
    case 'draft-8':
      return new Draft8(limits)
    case 'draft-6':
      return new Draft6(limits)
    case 'legacy':
      return new Legacy()
  }
}

/**
 * Tells a refused client when to come again, in whole seconds from 1; nothing, if it can never succeed.
 *
 * Also where nobody decided: the time is then when to look again.
 */
export function writeRetryAfter({ retryAfterMs }: Decision, set: SetField): void {
  if (retryAfterMs !== null) {
    set('Retry-After', String(Math.max(1, seconds(retryAfterMs))), false)
  }
}

/** A limit, as the fields tell of it. */
interface Limit {
  readonly name: string
  /** The limit in decisions on keys without numbers of their own. */
  readonly quota: number
  readonly windowSeconds: number
}

/** What a limit's item says of a quota. */
type ItemOf = (limit: Limit, quota: number, windowSeconds: number | undefined) => string

/**
 * The value of `RateLimit-Policy`. It is the same for almost all decisions, so it is made once.
 *
 * A key may have numbers of its own (`override`), of which only the limit is known: then no window is told. The
 * embedded share of a limit over Redis has the limit's window.
 */
class PolicyField {
  readonly #limits: readonly Limit[]
  readonly #itemOf: ItemOf
  readonly #usual: string

  constructor(limits: readonly Limit[], itemOf: ItemOf) {
    this.#limits = limits
    this.#itemOf = itemOf
    this.#usual = limits.map((limit) => itemOf(limit, limit.quota, limit.windowSeconds)).join(', ')
  }

  /** The value for a decision that tells of all limits. */
  of({ policies, source }: Decision): string {
    if (this.#limits.every(({ name, quota }) => policies[name]?.limit === quota)) {
      return this.#usual
    }
    const items = this.#limits.map((limit) => {
      const quota = policies[limit.name]?.limit ?? limit.quota
      const isOwn = quota !== limit.quota && source === 'store'
      return this.#itemOf(limit, quota, isOwn ? undefined : limit.windowSeconds)
    })
    return items.filter((item) => item !== '').join(', ')
  }
}

/** `RateLimit-Policy` and `RateLimit`: lists with an item for each limit. */
class Draft8 implements HeaderFields {
  readonly #policy: PolicyField
  /** The names as structured strings, with what always follows: names need no escapes. */
  readonly #items: readonly { readonly name: string; readonly start: string }[]

  constructor(limits: readonly Limit[]) {
    this.#policy = new PolicyField(limits, ({ name }, quota, windowSeconds) => {
      const window = windowSeconds === undefined ? '' : `;w=${windowSeconds}`
      return `"${name}";q=${integer(quota)}${window}`
    })
    this.#items = limits.map(({ name }) => ({ name, start: `"${name}";r=` }))
  }

  write(decision: Decision, set: SetField): void {
    let field = ''
    for (const { name, start } of this.#items) {
      const numbers = decision.policies[name] as PolicyNumbers
      field += `${field === '' ? '' : ', '}${start}${remainingOf(decision, numbers)};t=${seconds(waitMs(numbers))}`
    }
    set('RateLimit-Policy', this.#policy.of(decision), true)
    set('RateLimit', field, true)
  }
}

/** `RateLimit-Policy` for all limits, and the numbers of the one that the decision speaks of. */
class Draft6 implements HeaderFields {
  readonly #policy: PolicyField

  constructor(limits: readonly Limit[]) {
    // This draft has no quota without its window.
    this.#policy = new PolicyField(limits, (_, quota, windowSeconds) => {
      return windowSeconds === undefined ? '' : `${integer(quota)};w=${windowSeconds}`
    })
  }

  write(decision: Decision, set: SetField): void {
    const numbers = decision.policies[decision.policy] as PolicyNumbers
    const policy = this.#policy.of(decision)
    if (policy !== '') {
      set('RateLimit-Policy', policy, true)
    }
    set('RateLimit-Limit', String(integer(numbers.limit)), false)
    set('RateLimit-Remaining', String(remainingOf(decision, numbers)), false)
    set('RateLimit-Reset', String(seconds(waitMs(numbers))), false)
  }
}

/** `X-RateLimit-*`, of the limit that the decision speaks of; the reset is a time, in seconds of the Unix epoch. */
class Legacy implements HeaderFields {
  write(decision: Decision, set: SetField): void {
    const numbers = decision.policies[decision.policy] as PolicyNumbers
    set('X-RateLimit-Limit', String(numbers.limit), false)
    set('X-RateLimit-Remaining', String(remainingOf(decision, numbers)), false)
    // By this process's clock, as the response's Date is: the store's may be another.
    set('X-RateLimit-Reset', String(seconds(Date.now() + waitMs(numbers))), false)
  }
}

/** What is left. A key that is blocked has nothing to use, whatever is on its books. */
function remainingOf({ status }: Decision, { remaining, retryAfterMs }: PolicyNumbers): number {
  return status === 'blocked' && retryAfterMs !== 0 ? 0 : integer(remaining)
}

/** How long a limit's numbers hold: until the same cost would fit, if it did not; otherwise until all has come back. */
function waitMs({ retryAfterMs, resetAfterMs }: PolicyNumbers): number {
  return retryAfterMs || resetAfterMs
}

function seconds(millis: number): number {
  return Math.min(MOST, Math.ceil(millis / 1_000))
}

function integer(value: number): number {
  return value > MOST ? MOST : value
}

/** The limits of policies by the names that decisions use. */
function limitsOf(policies: { readonly [name: string]: Policy }): readonly Limit[] {
  const seen = new Map<Policy, number>()
  return Object.entries(policies).map(([name, policy]) => {
    // The limits of one `slidingLogs` follow each other in the order in which they were declared.
    const index = seen.get(policy) ?? 0
    seen.set(policy, index + 1)
    const own = policy.algorithm === 'slidingLogs' ? Object.keys(policy.limits)[index] : undefined
    return { name, quota: largestCostOf(policy, own), windowSeconds: Math.max(1, seconds(windowMsOf(policy, own))) }
  })
}
