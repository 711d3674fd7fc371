/** The policies that are drawn: the same size for each, twenty units and twenty per ten seconds. */
import { fixedWindow, gcra, tokenBucket } from 'tollgate'

/** @type {{ file: string, title: string, policy: import('tollgate').Policy }[]} */
export const POLICIES = [
  { file: 'gcra', title: 'gcra: 20 per 10 s, bursts of 20', policy: gcra({ limit: 20, period: '10s' }) },
  {
    file: 'token-bucket',
    title: 'tokenBucket: capacity 20, 2 tokens per second',
    policy: tokenBucket({ capacity: 20, refill: { tokens: 2, every: '1s' } }),
  },
  { file: 'fixed-window', title: 'fixedWindow: 20 per 10 s', policy: fixedWindow({ limit: 20, window: '10s' }) },
]

/** Those that are compared at a window's edge, by file. */
export const AT_THE_EDGE = ['fixed-window', 'gcra']
