import { fixedWindow, gcra } from 'tollgate'

/** What the load enforces. Small enough that every key is refused most of the time, so that an excess would show. */
export const WINDOW = { limit: 100, window: 1_000 } as const
export const RATE = { limit: 200, period: 1_000, burst: 50 } as const

/** The limiters of the load, by the prefixes of their keys. */
export const POLICIES = {
  window: fixedWindow(WINDOW),
  rate: gcra(RATE),
  // Never full: it counts how often the store has charged what callers were told of.
  count: fixedWindow({ limit: 1_000_000_000, window: '1d' }),
} as const

export type LimiterName = keyof typeof POLICIES

/** The longest that a decision can depend on the past, in milliseconds. */
export const HORIZON_MS = 1_000

/** Every other call is on the first key, the rest spread over all. */
export const KEYS: readonly string[] = ['hot', ...Array.from({ length: 15 }, (_, index) => `key-${index}`)]

/** The one key of `count`. */
export const COUNTED = 'all'
