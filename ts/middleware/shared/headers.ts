import type { Decision, PolicyNumbers } from '../../api/decision.js'
import { limitNamesOf, type Policy } from '../../policies/policy.js'
import { largestCostOf, unitMsOf, windowMsOf } from '../../policies/window.js'
import type { HeaderForm } from './header-forms.js'

/** Sets a response header. `isList`: the value is appended to the present values of the header. */
export type SetHeader = (name: string, value: string, isList: boolean) => void

export interface HeaderWriter {
  /** @param decision - A decision with numbers: its source is not `'none'`. */
  write(decision: Decision, set: SetHeader): void
}

/** The largest integer of a structured field: 15 digits (RFC 9651, 3.3.1). */
const MAX_INTEGER = 999_999_999_999_999

/** The name of a single limit in decisions. */
const SINGLE = 'default'

/** The writer of forms of headers. The item of a single limit without a name has the name `prefix`. */
export function headerWriterFor(
  forms: readonly HeaderForm[],
  policies: { readonly [name: string]: Policy },
  prefix: string | undefined,
): HeaderWriter {
  const limits = limitsOf(policies, prefix)
  // Both drafts define `RateLimit-Policy`. Its items have names only in the later draft.
  const hasNamedItems = forms.includes('draft-8') || forms.includes('draft-11')
  const writers = forms.map((form) => writerFor(form, limits, hasNamedItems))
  const write: HeaderWriter['write'] = (decision, set) => {
    for (const writer of writers) {
      writer.write(decision, set)
    }
  }
  return writers.length === 1 ? (writers[0] as HeaderWriter) : { write }
}

function writerFor(form: HeaderForm, limits: readonly AdvertisedLimit[], hasNamedItems: boolean): HeaderWriter {
  switch (form) {
    case 'draft-11':
      return itemWriter(limits, effectiveWindowMs)
    case 'draft-8':
      return itemWriter(limits, (_, numbers) => waitMs(numbers))
    case 'draft-6':
      return draft6Writer(hasNamedItems ? undefined : limits)
    case 'legacy':
      return LEGACY
  }
}

export function itemNameOf(name: string, limitCount: number, prefix: string | undefined): string {
  return limitCount === 1 && name === SINGLE ? (prefix ?? name) : name
}

/** Writes `Retry-After` in whole seconds, at least 1; nothing if the request can never succeed. */
export function writeRetryAfter({ retryAfterMs }: Decision, set: SetHeader): void {
  if (retryAfterMs !== null) {
    set('Retry-After', String(Math.max(1, seconds(retryAfterMs))), false)
  }
}

/** A limit with the numbers of its headers. */
interface AdvertisedLimit {
  /** The name in decisions. */
  readonly name: string
  /** The name in headers. It needs no escapes in a structured string. */
  readonly itemName: string
  /** The limit of keys without an override. */
  readonly quota: number
  /** `undefined` for units at a time, which have no window. */
  readonly windowSeconds: number | undefined
  /** Under a rate, the time in which one unit comes back; otherwise `undefined`. */
  readonly unitMs: number | undefined
}

type FormatItem = (limit: AdvertisedLimit, quota: number, windowSeconds: number | undefined) => string

/**
 * Returns the function of the value of `RateLimit-Policy`. Almost all decisions have the same value, so it is made
 * once.
 *
 * For a key with an override only the limit is known, so the item has no window. The embedded share of a limit over
 * Redis has the limit's window.
 */
function policyHeader(limits: readonly AdvertisedLimit[], format: FormatItem): (decision: Decision) => string {
  const usual = limits.map((limit) => format(limit, limit.quota, limit.windowSeconds)).join(', ')
  return ({ policies, source }) => {
    if (limits.every(({ name, quota }) => policies[name]?.capacity === quota)) {
      return usual
    }
    const items = limits.map((limit) => {
      const quota = policies[limit.name]?.capacity ?? limit.quota
      const isOverride = quota !== limit.quota && source !== 'fallback'
      return format(limit, quota, isOverride ? undefined : limit.windowSeconds)
    })
    return items.filter((item) => item !== '').join(', ')
  }
}

/** The `t` of a limit's item, in ms. */
type ItemTime = (limit: AdvertisedLimit, numbers: PolicyNumbers, decision: Decision) => number

/** `RateLimit-Policy` and `RateLimit`: lists with one item for each limit. */
function itemWriter(limits: readonly AdvertisedLimit[], timeOf: ItemTime): HeaderWriter {
  const policyOf = policyHeader(limits, ({ itemName }, quota, windowSeconds) => {
    const window = windowSeconds === undefined ? '' : `;w=${windowSeconds}`
    return `"${itemName}";q=${integer(quota)}${window}`
  })
  const items = limits.map((limit) => ({ limit, start: `"${limit.itemName}";r=` }))
  return {
    write(decision, set) {
      let field = ''
      for (const { limit, start } of items) {
        const numbers = decision.policies[limit.name] as PolicyNumbers
        // No time helps a cost that never fits.
        const time = numbers.retryAfterMs === null ? '' : `;t=${secondsOf(numbers, timeOf(limit, numbers, decision))}`
        field += `${field === '' ? '' : ', '}${start}${remainingOf(numbers)}${time}`
      }
      set('RateLimit-Policy', policyOf(decision), true)
      set('RateLimit', field, true)
    },
  }
}

/** The numbers of the limit in `decision.policy`, and `RateLimit-Policy` for `limits` unless another form writes it. */
function draft6Writer(limits: readonly AdvertisedLimit[] | undefined): HeaderWriter {
  // In this draft every quota has a window.
  const policyOf = policyHeader(limits ?? [], (_, quota, windowSeconds) =>
    windowSeconds === undefined ? '' : `${integer(quota)};w=${windowSeconds}`,
  )
  return {
    write(decision, set) {
      const numbers = decision.policies[decision.policy] as PolicyNumbers
      const policy = policyOf(decision)
      if (policy !== '') {
        set('RateLimit-Policy', policy, true)
      }
      set('RateLimit-Limit', String(integer(numbers.capacity)), false)
      set('RateLimit-Remaining', String(remainingOf(numbers)), false)
      set('RateLimit-Reset', String(secondsOf(numbers, waitMs(numbers))), false)
    },
  }
}

/** `X-RateLimit-*` for the limit in `decision.policy`. The reset is a time in Unix epoch seconds. */
const LEGACY: HeaderWriter = {
  write(decision, set) {
    const numbers = decision.policies[decision.policy] as PolicyNumbers
    set('X-RateLimit-Limit', String(numbers.capacity), false)
    set('X-RateLimit-Remaining', String(remainingOf(numbers)), false)
    // By this process's clock, like the response's Date header. The store's clock may differ. If it does not, the time
    // since the decision must not move the end of a window into the next second.
    const now = Date.now()
    const at = Math.abs(now - decision.at) < 1_000 ? Math.floor(decision.at) : now
    set('X-RateLimit-Reset', String(seconds(at + waitMs(numbers))), false)
  },
}

/** The remaining units. A blocked key has none, even if few units are charged, or if the cost would never fit. */
function remainingOf({ remaining, nextAfterMs }: PolicyNumbers): number {
  return nextAfterMs > 0 ? 0 : integer(remaining)
}

/**
 * The time for which a limit's numbers hold, in ms: until the same cost would fit if it was refused, until the next
 * unit if none is left, otherwise until the limit is fully reset.
 */
function waitMs({ retryAfterMs, nextAfterMs, resetAfterMs }: PolicyNumbers): number {
  return retryAfterMs || nextAfterMs || resetAfterMs
}

/**
 * The effective window of draft 11: the time in which the client should use no more than the remaining units.
 *
 * Under a window it ends with the window. Under a rate it is the time in which the remaining units come back, so that
 * their ratio is never above the rate; but at least the time until one more unit fits.
 */
function effectiveWindowMs(limit: AdvertisedLimit, numbers: PolicyNumbers, { source }: Decision): number {
  const { quota, unitMs, windowSeconds } = limit
  const { capacity: ownQuota, remaining, resetAfterMs } = numbers
  const untilNextMs = numbers.retryAfterMs || numbers.nextAfterMs
  if (untilNextMs) {
    return untilNextMs
  }
  if (unitMs === undefined || (ownQuota !== quota && source !== 'fallback')) {
    // The rate of an override is unknown. A fresh key has its whole window.
    return resetAfterMs || (windowSeconds ?? 0) * 1_000
  }
  // The embedded share of a limit has its window, and so a slower rate.
  const ownUnitMs = (unitMs * quota) / ownQuota
  return Math.max(remaining * ownUnitMs, resetAfterMs - (ownQuota - remaining - 1) * ownUnitMs)
}

/**
 * The seconds for which numbers hold, rounded up. A window of ten minutes lasts up to 600,001 ms, because it ends on a
 * whole millisecond: these are 600 seconds, unless a client is to wait for them.
 */
function secondsOf({ retryAfterMs }: PolicyNumbers, millis: number): number {
  return seconds(retryAfterMs === 0 && millis > 1_000 ? millis - 1 : millis)
}

function seconds(millis: number): number {
  return Math.min(MAX_INTEGER, Math.ceil(millis / 1_000))
}

function integer(value: number): number {
  return value > MAX_INTEGER ? MAX_INTEGER : value
}

/** The limits of policies, by the names that decisions use. */
function limitsOf(
  policies: { readonly [name: string]: Policy },
  prefix: string | undefined,
): readonly AdvertisedLimit[] {
  const indexes = new Map<Policy, number>()
  const entries = Object.entries(policies)
  return entries.map(([name, policy]) => {
    // The limits of one `slidingLog` are listed together, in the order of their declaration.
    const index = indexes.get(policy) ?? 0
    indexes.set(policy, index + 1)
    const logName = limitNamesOf(policy)?.[index]
    return {
      name,
      itemName: itemNameOf(name, entries.length, prefix),
      quota: largestCostOf(policy, logName),
      windowSeconds: policy.algorithm === 'concurrency' ? undefined : Math.max(1, seconds(windowMsOf(policy, logName))),
      unitMs: unitMsOf(policy),
    }
  })
}
