import { fixedWindow, gcra } from 'tollgate'

/** The policies of the load. Most calls on every key are refused, so any excess shows. */
export const WINDOW = { limit: 100, window: 1_000 } as const
export const RATE = { limit: 200, period: 1_000, burst: 50 } as const

/** The limiters of the load, by the prefixes of their keys. */
export const POLICIES = {
  window: fixedWindow(WINDOW),
  rate: gcra(RATE),
  // Never full: compares the units charged by the store with the units granted to callers.
  count: fixedWindow({ limit: 1_000_000_000, window: '1d' }),
} as const

export type LimiterName = keyof typeof POLICIES

/** The longest time for which a decision depends on the past, in milliseconds. */
export const HORIZON_MS = 1_000

/** Every other call uses the first key; the rest is spread over all keys. */
export const KEYS: readonly string[] = ['hot', ...Array.from({ length: 15 }, (_, index) => `key-${index}`)]

/** The one key of `count`. */
export const COUNTED = 'all'
