import type { Decision, PolicyNumbers } from '../../api/decision.js'
import type { Policy } from '../../policies/policy.js'
import { largestCostOf, windowMsOf } from '../../policies/window.js'
import type { HeaderForm } from './options.js'

/**
 * Sets a response header. `isList`: the header is a list, and the value is appended to its present
 * values.
 */
export type SetHeader = (name: string, value: string, isList: boolean) => void

/** Writes the rate limit headers of responses. */
export interface HeaderWriter {
  /** @param decision - A decision with numbers: its source is not `'none'`. */
  write(decision: Decision, set: SetHeader): void
}

/** The largest integer of a structured field: 15 digits (RFC 9651, 3.3.1). */
const MAX_INTEGER = 999_999_999_999_999

/** The writer of a form of headers, for decisions under these policies. */
export function headerWriterFor(form: HeaderForm, policies: { readonly [name: string]: Policy }): HeaderWriter {
  const limits = limitsOf(policies)
  switch (form) {
    case 'draft-8':
      return new Draft8Writer(limits)
    case 'draft-6':
      return new Draft6Writer(limits)
    case 'legacy':
      return new LegacyWriter()
  }
}

/**
 * Writes `Retry-After` in whole seconds, at least 1. Writes nothing if the request can never
 * succeed.
 *
 * If no store decided (`source: 'none'`), it is the time after which to try again.
 */
export function writeRetryAfter({ retryAfterMs }: Decision, set: SetHeader): void {
  if (retryAfterMs !== null) {
    set('Retry-After', String(Math.max(1, seconds(retryAfterMs))), false)
  }
}

/** A limit as the headers describe it. */
interface AdvertisedLimit {
  readonly name: string
  /** The limit of keys without an override. */
  readonly quota: number
  readonly windowSeconds: number
}

/** Formats the list item of a limit. */
type FormatItem = (limit: AdvertisedLimit, quota: number, windowSeconds: number | undefined) => string

/**
 * The value of `RateLimit-Policy`. Almost all decisions have the same value, so it is made once.
 *
 * For a key with an override only the limit is known, so the item has no window. The embedded share
 * of a limit over Redis has the limit's window.
 */
class PolicyHeader {
  readonly #limits: readonly AdvertisedLimit[]
  readonly #format: FormatItem
  readonly #default: string

  constructor(limits: readonly AdvertisedLimit[], format: FormatItem) {
    this.#limits = limits
    this.#format = format
    this.#default = limits.map((limit) => format(limit, limit.quota, limit.windowSeconds)).join(', ')
  }

  /** The value for a decision on all limits. */
  of({ policies, source }: Decision): string {
    if (this.#limits.every(({ name, quota }) => policies[name]?.capacity === quota)) {
      return this.#default
    }
    const items = this.#limits.map((limit) => {
      const quota = policies[limit.name]?.capacity ?? limit.quota
      const isOverride = quota !== limit.quota && source !== 'fallback'
      return this.#format(limit, quota, isOverride ? undefined : limit.windowSeconds)
    })
    return items.filter((item) => item !== '').join(', ')
  }
}

/** `RateLimit-Policy` and `RateLimit`: lists with one item for each limit. */
class Draft8Writer implements HeaderWriter {
  readonly #policy: PolicyHeader
  /** Each name as a structured string, with the fixed text that follows. Names need no escapes. */
  readonly #items: readonly { readonly name: string; readonly start: string }[]

  constructor(limits: readonly AdvertisedLimit[]) {
    this.#policy = new PolicyHeader(limits, ({ name }, quota, windowSeconds) => {
      const window = windowSeconds === undefined ? '' : `;w=${windowSeconds}`
      return `"${name}";q=${integer(quota)}${window}`
    })
    this.#items = limits.map(({ name }) => ({ name, start: `"${name}";r=` }))
  }

  write(decision: Decision, set: SetHeader): void {
    let field = ''
    for (const { name, start } of this.#items) {
      const numbers = decision.policies[name] as PolicyNumbers
      field += `${field === '' ? '' : ', '}${start}${remainingOf(decision, numbers)};t=${seconds(waitMs(numbers))}`
    }
    set('RateLimit-Policy', this.#policy.of(decision), true)
    set('RateLimit', field, true)
  }
}

/** `RateLimit-Policy` for all limits, and the numbers of the limit in `decision.policy`. */
class Draft6Writer implements HeaderWriter {
  readonly #policy: PolicyHeader

  constructor(limits: readonly AdvertisedLimit[]) {
    // In this draft every quota has a window.
    this.#policy = new PolicyHeader(limits, (_, quota, windowSeconds) => {
      return windowSeconds === undefined ? '' : `${integer(quota)};w=${windowSeconds}`
    })
  }

  write(decision: Decision, set: SetHeader): void {
    const numbers = decision.policies[decision.policy] as PolicyNumbers
    const policy = this.#policy.of(decision)
    if (policy !== '') {
      set('RateLimit-Policy', policy, true)
    }
    set('RateLimit-Limit', String(integer(numbers.capacity)), false)
    set('RateLimit-Remaining', String(remainingOf(decision, numbers)), false)
    set('RateLimit-Reset', String(seconds(waitMs(numbers))), false)
  }
}

/**
 * `X-RateLimit-*` for the limit in `decision.policy`. The reset is a time in Unix epoch seconds.
 */
class LegacyWriter implements HeaderWriter {
  write(decision: Decision, set: SetHeader): void {
    const numbers = decision.policies[decision.policy] as PolicyNumbers
    set('X-RateLimit-Limit', String(numbers.capacity), false)
    set('X-RateLimit-Remaining', String(remainingOf(decision, numbers)), false)
    // By this process's clock, like the response's Date header. The store's clock may differ.
    set('X-RateLimit-Reset', String(seconds(Date.now() + waitMs(numbers))), false)
  }
}

/** The remaining units. A blocked key has none, whatever is charged. */
function remainingOf({ status }: Decision, { remaining, retryAfterMs }: PolicyNumbers): number {
  return status === 'blocked' && retryAfterMs !== 0 ? 0 : integer(remaining)
}

/**
 * The time for which a limit's numbers hold, in ms: until the same cost would fit if it was
 * refused, otherwise until the limit is fully reset.
 */
function waitMs({ retryAfterMs, resetAfterMs }: PolicyNumbers): number {
  return retryAfterMs || resetAfterMs
}

function seconds(millis: number): number {
  return Math.min(MAX_INTEGER, Math.ceil(millis / 1_000))
}

function integer(value: number): number {
  return value > MAX_INTEGER ? MAX_INTEGER : value
}

/** The limits of policies, by the names that decisions use. */
function limitsOf(policies: { readonly [name: string]: Policy }): readonly AdvertisedLimit[] {
  const indexes = new Map<Policy, number>()
  return Object.entries(policies).map(([name, policy]) => {
    // The limits of one `slidingLogs` are listed together, in the order of their declaration.
    const index = indexes.get(policy) ?? 0
    indexes.set(policy, index + 1)
    const logName = policy.algorithm === 'slidingLogs' ? Object.keys(policy.limits)[index] : undefined
    return {
      name,
      quota: largestCostOf(policy, logName),
      windowSeconds: Math.max(1, seconds(windowMsOf(policy, logName))),
    }
  })
}
