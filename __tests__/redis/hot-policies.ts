/** The policies that many processes share in processes.test.ts: a few lines each. */
import { fixedWindow, gcra, type Policy, slidingCounter, tokenBucket } from '../../ts/index.js'
import { atRate, inAnySpan, inEachGridWindow, inEachOpenedWindow, type Law } from './laws.js'

/** One policy, and what is said of it. */
export interface Hot {
  /** The prefix of its limiter. */
  readonly name: string
  readonly policy: Policy
  /** What it never exceeds. */
  readonly laws: readonly Law[]
  /** The units a second that callers who never stop get. */
  readonly perSecond: number
}

// A thousand units a second: fewer than the processes ask for, even on a slow machine.
const [LIMIT, WINDOW] = [250, 250]

export const HOT: readonly Hot[] = [
  {
    name: 'fixedWindow',
    policy: fixedWindow({ limit: LIMIT, window: WINDOW }),
    laws: [inEachOpenedWindow(LIMIT, WINDOW), inAnySpan(2 * LIMIT - 1, WINDOW)],
    perSecond: 1_000,
  },
  {
    name: 'fixedWindow-countRefused',
    policy: fixedWindow({ limit: LIMIT, window: WINDOW, countRefused: true }),
    laws: [inEachOpenedWindow(LIMIT, WINDOW), inAnySpan(2 * LIMIT - 1, WINDOW)],
    perSecond: 1_000,
  },
  {
    name: 'slidingCounter',
    policy: slidingCounter({ limit: LIMIT, window: WINDOW }),
    laws: [inEachGridWindow(LIMIT, WINDOW), inAnySpan(2 * LIMIT - 1, WINDOW), atRate(LIMIT, LIMIT, WINDOW)],
    // In a window's last millisecond one unit of the window before still counts.
    perSecond: (1_000 * (LIMIT - 1)) / WINDOW,
  },
  {
    name: 'tokenBucket',
    policy: tokenBucket({ capacity: 100, refill: { tokens: 1_001, every: '1s' } }),
    laws: [atRate(100, 1_001, 1_000)],
    perSecond: 1_001,
  },
  {
    name: 'gcra',
    policy: gcra({ limit: 1_000, period: '1s', burst: 200 }),
    laws: [atRate(200, 1_000, 1_000)],
    perSecond: 1_000,
  },
]
