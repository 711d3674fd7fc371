/** The limiters of simulations: every policy, alone and in sets, with overrides for keys. */
import type { Policies, Policy } from '../../ts/index.js'
import * as native from '../../ts/index.js'

const { calendarWindow, concurrency, fixedWindow, gcra, leakyBucket, tokenBucket } = native
const { slidingCounter, slidingLog, slidingLogs, slidingWindow } = native

/** A limiter of a simulation. */
export interface Case {
  readonly name: string
  /** The versions between which deploys switch: of one algorithm, with different numbers. */
  readonly versions: readonly (Policy | Policies)[]
  readonly keys: readonly unknown[]
  /** The largest cost of a call, apart from one more. */
  readonly maxCost: number
  /** Whether the versions differ in more than numbers, so that only a deploy switches between them. */
  readonly onlyDeploys?: boolean
  /** Overrides for a key; for a set, by policy. */
  readonly numbers: readonly object[]
  /** The approximate time until a used key is fresh again, in milliseconds. */
  readonly horizonMs: number
  /** Whether calls can wait for slots. */
  readonly waits?: boolean
  /** Whether calls take permits. They live so long that no timer of this process renews one. */
  readonly permits?: boolean
  /**
   * Whether a bucket may be forgotten, and start low again, before another policy admits a call.
   */
  readonly forgets?: boolean
}

const KEYS = ['a', 'ключ 🔑']

function alone(
  name: string,
  versions: readonly Policy[],
  {
    maxCost,
    horizonMs,
    ...more
  }: { readonly maxCost: number; readonly horizonMs: number; readonly waits?: boolean; readonly onlyDeploys?: boolean },
  ...numbers: object[]
): Case {
  return { name, versions, keys: KEYS, maxCost, horizonMs, numbers, ...more }
}

export const CASES: readonly Case[] = [
  alone(
    'gcra',
    [gcra({ limit: 100, period: '1m' }), gcra({ limit: 100, period: '1s' }), gcra({ limit: 6_000, period: '1m' })],
    { maxCost: 60, horizonMs: 60_000, waits: true },
    { limit: 6_000 },
    { limit: 6_000, burst: 100 },
    { burst: 20 },
    { period: '1h' },
  ),
  alone(
    'gcra with fractions of microseconds',
    [gcra({ limit: 1_001, period: '1s', burst: 12 }), gcra({ limit: 7, period: '1s', burst: 12 })],
    { maxCost: 12, horizonMs: 12, waits: true },
    { limit: 77 },
    { burst: 5 },
  ),
  alone(
    'leakyBucket',
    [
      leakyBucket({ capacity: 20, leak: { units: 3, every: '1s' } }),
      leakyBucket({ capacity: 20, leak: { units: 30, every: '1h' } }),
    ],
    { maxCost: 20, horizonMs: 7_000, waits: true },
    { capacity: 4 },
    { leak: { units: 400 } },
  ),
  alone(
    'tokenBucket',
    [
      tokenBucket({ capacity: 20, refill: { tokens: 7, every: '1s' }, initial: 3, debt: 9 }),
      tokenBucket({ capacity: 20, refill: { tokens: 7, every: '1m' } }),
    ],
    { maxCost: 29, horizonMs: 3_000, waits: true },
    { refill: { tokens: 1 } },
    { capacity: 9 },
    { refill: { every: '10s' }, capacity: 30 },
  ),
  alone(
    'tokenBucket by intervals',
    [
      tokenBucket({ capacity: 20, refill: { tokens: 7, every: '1s' }, refillMode: 'interval', debt: 2 }),
      tokenBucket({ capacity: 20, refill: { tokens: 7, every: '1m' }, refillMode: 'interval', initial: 5 }),
    ],
    { maxCost: 22, horizonMs: 3_000 },
    { refill: { every: '3s' } },
    { refill: { every: '200ms' } },
    { capacity: 50 },
  ),
  alone(
    'fixedWindow',
    [
      fixedWindow({ limit: 20, window: '10s' }),
      fixedWindow({ limit: 25, window: '1s' }),
      fixedWindow({ limit: 5, window: '1h' }),
    ],
    { maxCost: 20, horizonMs: 10_000 },
    { limit: 7 },
    { window: '2s' },
    { window: '500ms' },
    { window: '1h', limit: 50 },
  ),
  alone(
    'fixedWindow of large counts',
    [fixedWindow({ limit: 100_000, window: '10s' }), fixedWindow({ limit: 8_000, window: '1s' })],
    { maxCost: 9_000, horizonMs: 10_000 },
    { limit: 90_000 },
    { window: '700ms' },
  ),
  alone(
    'fixedWindow that counts refused calls',
    [
      fixedWindow({ limit: 20, window: '1s', countRefused: true }),
      fixedWindow({ limit: 20, window: '300ms', countRefused: true }),
    ],
    { maxCost: 20, horizonMs: 1_000 },
    { limit: 7 },
    { window: '5s' },
  ),
  alone(
    'calendarWindow',
    [calendarWindow({ limit: 20, every: '15m' }), calendarWindow({ limit: 8, every: '15m' })],
    { maxCost: 20, horizonMs: 900_000 },
    { limit: 9 },
    { limit: 40 },
  ),
  // Their calendars differ. In memory, an override keeps the calendar under which it was set.
  alone(
    'calendarWindow of changing calendars',
    [
      calendarWindow({ limit: 20, every: '15m' }),
      calendarWindow({ limit: 20, every: 'day', timeZone: 'America/New_York' }),
      calendarWindow({ limit: 30, every: 'month', timeZone: 'Asia/Kathmandu' }),
    ],
    { maxCost: 20, horizonMs: 900_000, onlyDeploys: true },
  ),
  ...(['list', 'hash'] as const).map((layout) =>
    alone(
      `slidingWindow in a ${layout}`,
      [
        slidingWindow({ limit: 20, window: '1s', buckets: 7, layout }),
        slidingWindow({ limit: 20, window: '1h', buckets: 7, layout }),
        slidingWindow({ limit: 9, window: '100ms', buckets: 2, layout }),
      ],
      { maxCost: 20, horizonMs: 1_000 },
      { limit: 9 },
      { limit: 40, window: '200ms' },
      { window: '1m' },
    ),
  ),
  alone(
    'slidingCounter',
    [slidingCounter({ limit: 20, window: '1s' }), slidingCounter({ limit: 20, window: '30s' })],
    { maxCost: 20, horizonMs: 2_000 },
    { limit: 9 },
    { window: '3s' },
    { window: '100ms' },
  ),
  alone(
    'slidingLog',
    [
      slidingLog({ limit: 20, window: '1s' }),
      slidingLog({ limit: 20, window: '10s' }),
      slidingLog({ limit: 30, window: '200ms' }),
    ],
    { maxCost: 20, horizonMs: 1_000 },
    { limit: 9 },
    { window: '5s' },
    { window: '100ms' },
  ),
  alone(
    'slidingLog that counts refused calls',
    [
      slidingLog({ limit: 20, window: '1s', countRefused: true }),
      slidingLog({ limit: 10, window: '4s', countRefused: true }),
    ],
    { maxCost: 20, horizonMs: 1_000 },
    { limit: 9 },
    { window: '3s' },
  ),
  alone(
    'slidingLogs',
    [
      slidingLogs({
        limits: { fast: { limit: 6, window: '100ms' }, slow: { limit: 20, window: '1s' } },
        precision: '1ms',
      }),
      slidingLogs({ limits: { fast: { limit: 8, window: '500ms' }, slow: { limit: 20, window: '9s' } } }),
    ],
    { maxCost: 6, horizonMs: 1_000 },
    { limits: { slow: { limit: 30 } } },
    { limits: { slow: { window: '5s' } } },
  ),
  {
    name: 'several rates',
    versions: [
      {
        fast: gcra({ limit: 10, period: '1s', burst: 4 }),
        slow: leakyBucket({ capacity: 20, leak: { units: 1, every: '1s' } }),
      },
      {
        fast: gcra({ limit: 100, period: '1s', burst: 6 }),
        slow: leakyBucket({ capacity: 20, leak: { units: 1, every: '1m' } }),
      },
    ],
    keys: KEYS,
    maxCost: 4,
    horizonMs: 20_000,
    numbers: [{ fast: { burst: 9 } }, { slow: { capacity: 7 }, fast: { limit: 1 } }],
    waits: true,
  },
  {
    name: 'several windows, one of a calendar',
    versions: [
      {
        second: fixedWindow({ limit: 10, window: '1s' }),
        rate: gcra({ limit: 10, period: '1s', burst: 15 }),
        hour: calendarWindow({ limit: 90, every: 'hour' }),
      },
      {
        second: fixedWindow({ limit: 30, window: '5s' }),
        rate: gcra({ limit: 50, period: '1m', burst: 15 }),
        hour: calendarWindow({ limit: 60, every: 'hour' }),
      },
    ],
    keys: KEYS,
    maxCost: 10,
    horizonMs: 10_000,
    numbers: [{ second: { window: '100ms' } }, { hour: { limit: 200 }, rate: { burst: 40 } }],
  },
  {
    name: 'several policies with a calendar window last',
    versions: [
      { rate: gcra({ limit: 10, period: '1s', burst: 15 }), minute: calendarWindow({ limit: 30, every: '1m' }) },
      { rate: gcra({ limit: 90, period: '1m', burst: 15 }), minute: calendarWindow({ limit: 10, every: '1m' }) },
    ],
    keys: KEYS,
    maxCost: 10,
    horizonMs: 60_000,
    numbers: [{ minute: { limit: 200 } }, { rate: { burst: 40 } }],
  },
  {
    name: 'several policies with several key dimensions',
    versions: [
      {
        ip: slidingWindow({ limit: 12, window: '1s', buckets: 4, per: 'ip' }),
        account: tokenBucket({ capacity: 9, refill: { tokens: 3, every: '1s' }, per: 'account' }),
        day: calendarWindow({ limit: 500, every: 'day', timeZone: 'Europe/Berlin', per: 'account' }),
        all: slidingLogs({ limits: { a: { limit: 15, window: '1s' }, b: { limit: 90, window: '1m' } }, per: 'global' }),
      },
    ],
    keys: ['a', 'b'].flatMap((ip) => [
      { ip, account: 'ann' },
      { ip, account: ip },
    ]),
    maxCost: 9,
    horizonMs: 60_000,
    numbers: [{ ip: { limit: 30 } }, { account: { capacity: 30 } }],
  },
  {
    name: 'a bucket with a low initial level and longer windows',
    versions: [
      {
        bucket: tokenBucket({ capacity: 10, refill: { tokens: 10, every: '1m' }, initial: 0 }),
        days: fixedWindow({ limit: 40, window: '3d' }),
        counter: slidingCounter({ limit: 30, window: '1h' }),
      },
    ],
    keys: KEYS,
    maxCost: 10,
    horizonMs: 100_000,
    numbers: [{ bucket: { capacity: 20 } }, { days: { window: '1h' } }],
    forgets: true,
  },
  {
    name: 'concurrency',
    versions: [concurrency({ limit: 6, ttl: '2m' }), concurrency({ limit: 9, ttl: '1h' })],
    keys: KEYS,
    maxCost: 4,
    horizonMs: 120_000,
    numbers: [{ limit: 3 }, { limit: 20 }],
    permits: true,
  },
  {
    name: 'concurrency beside a rate, by several key dimensions',
    versions: [
      {
        rate: gcra({ limit: 20, period: '1m', per: 'account' }),
        account: concurrency({ limit: 5, ttl: '3m', per: 'account' }),
        all: concurrency({ limit: 7, ttl: '2m', per: 'global' }),
      },
    ],
    keys: ['ann', 'bob', 'eve'].map((account) => ({ account })),
    maxCost: 3,
    horizonMs: 120_000,
    numbers: [{ account: { limit: 2 } }, { rate: { burst: 5 }, account: { limit: 9 } }],
    permits: true,
  },
]
