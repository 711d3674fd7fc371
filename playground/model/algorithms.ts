/** The algorithms with their options, as people meet them: of this forms, links and code are made. */
import type {
  CalendarWindowOptions,
  FixedWindowOptions,
  GcraOptions,
  LeakyBucketOptions,
  Policy,
  SlidingCounterOptions,
  SlidingLogOptions,
  SlidingLogsOptions,
  SlidingWindowOptions,
  TokenBucketOptions,
} from 'tollgate/wasm'
import { type Field, type FieldsFor, type Leaf, leavesOf, type Tree } from './fields.js'

/** The name of an algorithm, and of the function that makes its policies. */
export type AlgorithmName = Policy['algorithm']

/** An algorithm as it is shown. */
export interface Algorithm {
  /** What it does, in a sentence. */
  readonly says: string
  /** Its law: the most units that it admits. */
  readonly law: string
  readonly tree: Tree
  readonly leaves: readonly Leaf[]
}

const whole = (label: string, initial: string, hint?: string): Field => field('whole', label, initial, hint)
const duration = (label: string, initial: string, hint?: string): Field => field('duration', label, initial, hint)
const flag = (label: string): Field => field('flag', label, '')

function field(kind: Field['kind'], label: string, initial: string, hint?: string): Field {
  return { kind, label, initial, ...(hint !== undefined && { hint }) }
}

function choice(label: string, choices: readonly string[]): Field {
  return { kind: 'choice', label, initial: choices[0] as string, choices }
}

/** An algorithm whose fields are the options of its function: the compiler finds one that is missing. */
function described<O>(says: string, law: string, fields: FieldsFor<O>): Algorithm {
  const tree = fields as Tree
  return { says, law, tree, leaves: leavesOf(tree) }
}

/** Each with the same size at first: twenty units, and twenty per ten seconds. */
export const ALGORITHMS = {
  gcra: described<GcraOptions>('Evenly spread, with a burst. For APIs.', 'burst + t · limit / period in any time t', {
    limit: whole('Limit', '20'),
    period: duration('Period', '10s'),
    burst: whole('Burst', '', 'the limit'),
  }),
  tokenBucket: described<TokenBucketOptions>(
    'Tokens are saved up, then spent at once.',
    'capacity + t · tokens / every in any time t; with interval refill, capacity + tokens · (⌊t / every⌋ + 1)',
    {
      capacity: whole('Capacity', '20'),
      refill: { tokens: whole('Tokens', '2'), every: duration('Every', '1s') },
      refillMode: choice('Refill', ['continuous', 'interval']),
      initial: whole('Initial', '', 'the capacity'),
      debt: whole('Debt', '', '0'),
    },
  ),
  leakyBucket: described<LeakyBucketOptions>(
    'Calls fill a bucket that leaks evenly.',
    'capacity + t · units / every in any time t',
    {
      capacity: whole('Capacity', '20'),
      leak: { units: whole('Units', '2'), every: duration('Every', '1s') },
    },
  ),
  fixedWindow: described<FixedWindowOptions>(
    'The first call opens a window. For quotas that people read.',
    'limit per window, 2 · limit − 1 in any time of its length',
    {
      limit: whole('Limit', '20'),
      window: duration('Window', '10s'),
      countRefused: flag('Count refused calls'),
    },
  ),
  calendarWindow: described<CalendarWindowOptions>(
    'Windows of the clock and the calendar. For plans.',
    'limit per window, 2 · limit in any time of its length',
    {
      limit: whole('Limit', '20'),
      every: field('duration', 'Every', '10s', 'hour, day, week, month or 15m'),
      timeZone: field('name', 'Time zone', '', 'UTC'),
    },
  ),
  slidingWindow: described<SlidingWindowOptions>(
    'Counts in buckets; holds at every moment.',
    'limit in any time of the window’s length',
    {
      limit: whole('Limit', '20'),
      window: duration('Window', '10s'),
      buckets: whole('Buckets', '', '10'),
      layout: choice('Layout in Redis', ['list', 'hash']),
    },
  ),
  slidingCounter: described<SlidingCounterOptions>(
    'Two counters, the older weighted: an estimate.',
    'fewer than limit · (1 + t / window) in any time t',
    {
      limit: whole('Limit', '20'),
      window: duration('Window', '10s'),
    },
  ),
  slidingLog: described<SlidingLogOptions>(
    'Remembers each call: exact. For small limits.',
    'limit in any time of the window’s length',
    {
      limit: whole('Limit', '20'),
      window: duration('Window', '10s'),
      countRefused: flag('Count refused calls'),
    },
  ),
  slidingLogs: described<SlidingLogsOptions>(
    'Several limits over one log.',
    'its limit for each of them, in any time of its own window’s length',
    {
      limits: field('limits', 'Limits', 'second:5/1s,ten:20/10s'),
      precision: duration('Precision', '', 'exact'),
    },
  ),
} as const satisfies { readonly [Name in AlgorithmName]: Algorithm }

/** The names of all algorithms. */
export const ALGORITHM_NAMES = Object.keys(ALGORITHMS) as readonly AlgorithmName[]

/** Whether an algorithm has this name. */
export function isAlgorithm(name: string): name is AlgorithmName {
  return Object.hasOwn(ALGORITHMS, name)
}
