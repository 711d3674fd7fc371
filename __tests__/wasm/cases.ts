/** The limiters of random traces, and the calls on them. */

import type { Policies, Policy } from '../../ts/index.js'
import * as native from '../../ts/index.js'
import type { TraceOptions } from './trace.js'

const { calendarWindow, fixedWindow, gcra, leakyBucket, tokenBucket } = native
const { slidingCounter, slidingLog, slidingLogs, slidingWindow } = native

const KEYS = ['a', 'user:42', 'ключ', '🔑', '\0', 'x'.repeat(60)]

/** A limiter, and the possible calls on it. */
export interface Case extends TraceOptions {
  readonly name: string
  readonly policy: Policy | Policies
}

function alone(name: string, policy: Policy, maxCost: number, horizonMs: number, ...numbers: unknown[]): Case {
  return { name, policy, keys: KEYS, maxCost, horizonMs, numbers }
}

export const CASES: readonly Case[] = [
  alone('gcra', gcra({ limit: 1_001, period: '1s', burst: 12 }), 12, 12, { limit: 77 }, { burst: 5 }),
  alone('gcra, slowly', gcra({ limit: 7, period: '1h' }), 7, 3_600_000, { limit: 3, period: '1m' }),
  alone('leakyBucket', leakyBucket({ capacity: 20, leak: { units: 3, every: '1s' } }), 20, 7_000, { capacity: 4 }),
  alone(
    'tokenBucket',
    tokenBucket({ capacity: 20, refill: { tokens: 7, every: '1s' }, initial: 3, debt: 9 }),
    29,
    3_000,
    { refill: { tokens: 1 } },
    { capacity: 9 },
  ),
  alone(
    'tokenBucket, interval',
    tokenBucket({ capacity: 20, refill: { tokens: 7, every: '1s' }, refillMode: 'interval', debt: 2 }),
    22,
    3_000,
    { refill: { every: '3s' } },
  ),
  alone('fixedWindow', fixedWindow({ limit: 20, window: '1s' }), 20, 1_000, { limit: 7 }, { window: '2s' }),
  alone('fixedWindow, refused', fixedWindow({ limit: 20, window: '1s', countRefused: true }), 20, 1_000, { limit: 7 }),
  alone('calendarWindow', calendarWindow({ limit: 20, every: '15m' }), 20, 900_000, { limit: 9 }),
  alone('slidingWindow', slidingWindow({ limit: 20, window: '1s', buckets: 7 }), 20, 1_000, { limit: 9 }),
  alone('slidingCounter', slidingCounter({ limit: 20, window: '1s' }), 20, 2_000, { limit: 9 }, { window: '3s' }),
  alone('slidingLog', slidingLog({ limit: 20, window: '1s' }), 20, 1_000, { limit: 9 }),
  alone('slidingLog, refused', slidingLog({ limit: 20, window: '1s', countRefused: true }), 20, 1_000, { limit: 9 }),
  alone(
    'slidingLogs',
    slidingLogs({
      limits: { fast: { limit: 6, window: '100ms' }, slow: { limit: 20, window: '1s' } },
      precision: '1ms',
    }),
    6,
    1_000,
    { limits: { slow: { limit: 30 } } },
  ),
  {
    name: 'several rates',
    policy: {
      fast: gcra({ limit: 10, period: '1s', burst: 4 }),
      slow: leakyBucket({ capacity: 20, leak: { units: 1, every: '1s' } }),
    },
    keys: KEYS,
    maxCost: 4,
    horizonMs: 20_000,
    numbers: [{ fast: { burst: 9 } }, { slow: { capacity: 7 }, fast: { limit: 1 } }],
  },
  {
    name: 'several by several keys',
    policy: {
      ip: slidingWindow({ limit: 12, window: '1s', buckets: 4, per: 'ip' }),
      account: tokenBucket({ capacity: 9, refill: { tokens: 3, every: '1s' }, per: 'account' }),
      day: calendarWindow({ limit: 500, every: 'day', timeZone: 'Europe/Berlin', per: 'account' }),
      all: slidingLogs({ limits: { a: { limit: 15, window: '1s' }, b: { limit: 90, window: '1m' } }, per: 'global' }),
    },
    keys: KEYS.flatMap((ip) => [
      { ip, account: 'ann' },
      { ip, account: ip },
    ]),
    maxCost: 9,
    horizonMs: 60_000,
    numbers: [undefined],
  },
]
