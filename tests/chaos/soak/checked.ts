/** Limiters of which each admitted unit is compared with the law, over all processes. */
import {
  gcra,
  type MemoryStore,
  RateLimiter,
  type RateLimiterOptions,
  type RedisRateLimiterOptions,
  type RedisStore,
  slidingWindow,
} from 'tollgate'
import { atRate, inAnySpan, type Law } from '../../../__tests__/redis/laws.js'

/** The one key of each limiter. */
export const CHECKED_KEY = 'checked'

const SLIDING = { limit: 20, window: 1_000 } as const
const RATE = { limit: 20, period: 1_000, burst: 10 } as const
const LEASED = { limit: 60, period: 1_000, burst: 150 } as const

/** The share of one process while its store is away. */
const SHARE = 0.5

/** A checked limiter. */
interface Checked {
  readonly policy: Parameters<typeof newLimiter>[0]
  readonly options?: Pick<RateLimiterOptions, 'local' | 'onStoreFailure'>
  /**
   * Its law. The store lost its counts `losses` times, and two servers decided at the same time for
   * `overlapMs`.
   */
  readonly law: (losses: number, overlapMs: number) => Law
}

function newLimiter(
  policy: ReturnType<typeof gcra> | ReturnType<typeof slidingWindow>,
  options: Omit<RedisRateLimiterOptions, 'store'> & { readonly store: MemoryStore | RedisStore },
) {
  return new RateLimiter(policy, options)
}

type Rate = { readonly limit: number; readonly period: number; readonly burst: number }

function lawOf({ limit, period, burst }: Rate) {
  return (losses: number, overlapMs: number) =>
    atRate(burst * (1 + losses) + Math.ceil((limit * overlapMs) / period), limit, period)
}

export const CHECKED = {
  sliding: {
    policy: slidingWindow(SLIDING),
    law: (losses) => inAnySpan(SLIDING.limit * (1 + losses), SLIDING.window),
  },
  rate: { policy: gcra(RATE), law: lawOf(RATE) },
  leased: { policy: gcra(LEASED), options: { local: { lease: '1s', refusals: '500ms' } }, law: lawOf(LEASED) },
  share: {
    policy: gcra(RATE),
    options: { onStoreFailure: { embedded: { share: SHARE } } },
    law: lawOf(RATE),
  },
} as const satisfies Readonly<Record<string, Checked>>

export type CheckedName = keyof typeof CHECKED

export const CHECKED_NAMES = Object.keys(CHECKED) as CheckedName[]

/** The law of one process's embedded share. */
export const SHARE_LAW: Law = atRate(RATE.burst * SHARE, RATE.limit * SHARE, RATE.period)

/** A checked limiter on a store. The embedded store has neither leases nor failures. */
export function checkedLimiter(name: CheckedName, store: MemoryStore | RedisStore) {
  const { policy, options = {} } = CHECKED[name] as Checked
  return newLimiter(policy, { store, prefix: `checked-${name}`, ...options })
}

/** The admitted units of a limiter: their times by the deciding clock, in microseconds. */
export type Units = Readonly<Record<string, readonly number[]>>

/** A fault that may lose counts: times in epoch milliseconds. */
export interface Loss {
  readonly from: number
  readonly to: number
  readonly losses: number
  readonly overlapMs: number
}

/** The traces of the checked limiters of one target. */
export class LawCheck {
  readonly #units = new Map<CheckedName, number[]>(CHECKED_NAMES.map((name) => [name, []]))
  /** The last loss. */
  #last: Loss | undefined
  /** The end of the loss before it, by the deciding clock in microseconds. */
  #start = 0
  /** Units checked, for the record. */
  checked = 0

  add(name: CheckedName, units: readonly number[]): void {
    this.#units.get(name)?.push(...units)
  }

  /**
   * Checks the units around the last loss, up to another one that has just ended; at the end, without
   * another. Returns the violations.
   */
  check(next?: Loss): string[] {
    const last = this.#last
    const [from, to] = last === undefined ? [this.#start, this.#start] : [last.from * 1_000, last.to * 1_000]
    const end = next === undefined ? Number.POSITIVE_INFINITY : next.from * 1_000
    const found = CHECKED_NAMES.flatMap((name) => {
      const all = this.#units.get(name) as number[]
      const units = all.filter((at) => at > this.#start && at < end).sort((a, b) => a - b)
      const spans = [
        { losses: 0, overlapMs: 0, trace: units.filter((at) => at < from) },
        { losses: 0, overlapMs: 0, trace: units.filter((at) => at > to) },
        { losses: last?.losses ?? 0, overlapMs: last?.overlapMs ?? 0, trace: units },
      ]
      // The next check needs those after this loss.
      const rest = all.filter((at) => at > to)
      this.checked += all.length - rest.length
      this.#units.set(name, rest)
      return spans.flatMap(({ losses, overlapMs, trace }) => {
        const wrong = CHECKED[name].law(losses, overlapMs)(trace.map((at) => ({ at, cost: 1 })))
        return wrong === undefined ? [] : [`${name}, ${losses} losses: ${wrong}`]
      })
    })
    this.#start = to
    this.#last = next
    return found
  }
}
