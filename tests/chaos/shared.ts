import { fixedWindow, gcra } from 'tollgate'
import { atRate, inAnySpan, inEachOpenedWindow, type Law } from '../../__tests__/redis/laws.js'

/** The number of processes that share the limit while the store is away. */
export const PROCESSES = 4

const WINDOW = { limit: 40, window: 1_000 } as const
const RATE = { limit: 80, period: 1_000, burst: 20 } as const

/** The policies of the processes, with numbers that are divisible by four. */
export const SHARED = { window: fixedWindow(WINDOW), rate: gcra(RATE) } as const

/** The law of a part of the limit: 1 is the store's law, a quarter that of one process's share. */
export const LAW_OF: Readonly<Record<keyof typeof SHARED, (part: number) => Law>> = {
  window: (part) => inEachOpenedWindow(WINDOW.limit * part, WINDOW.window),
  rate: (part) => atRate(RATE.burst * part, RATE.limit * part, RATE.period),
}

/** The law of several parts together, in any span. */
export const LAWS_OF: Readonly<Record<keyof typeof SHARED, (parts: number) => Law>> = {
  window: (parts) => inAnySpan(2 * WINDOW.limit * parts - 1, WINDOW.window),
  rate: LAW_OF.rate,
}

/** The most units that the parts admit in a second, for the report. */
export const BOUND_OF: Readonly<Record<keyof typeof SHARED, (parts: number) => number>> = {
  window: (parts) => 2 * WINDOW.limit * parts - 1,
  rate: (parts) => (RATE.burst + RATE.limit) * parts,
}
