/**
 * The algorithms with their options. The forms, links and code are generated from this description.
 */
import type {
  CalendarWindowOptions,
  FixedWindowOptions,
  GcraOptions,
  LeakyBucketOptions,
  Policy,
  SlidingCounterOptions,
  SlidingLogOptions,
  SlidingWindowOptions,
  slidingLog,
  TokenBucketOptions,
} from 'tollgate/wasm'
import { type FieldLeaf, type FieldsFor, type FieldTree, type FormField, leavesOf } from './fields.js'

/** The name of a function that creates policies which decide by time. */
type FunctionName = Exclude<Policy['algorithm'], 'concurrency'>

/** The name of a form: that of the function, and of a variant of its options. */
export type AlgorithmName = FunctionName | 'slidingLog-limits'

/** An algorithm with its form. */
export interface AlgorithmForm {
  /** A short description. */
  readonly description: string
  /** The bound: the most units that it admits. */
  readonly law: string
  readonly tree: FieldTree
  readonly leaves: readonly FieldLeaf[]
}

const whole = (label: string, initial: string, hint?: string): FormField => field('whole', label, initial, hint)
const duration = (label: string, initial: string, hint?: string): FormField => field('duration', label, initial, hint)
const flag = (label: string): FormField => field('flag', label, '')

// Numbers that several algorithms share.
const LIMIT: FormField = { ...whole('Limit', '20'), meaning: 'limit' }
const PERIOD: FormField = { ...duration('Period', '10s'), meaning: 'period' }
const WINDOW: FormField = { ...duration('Window', '10s'), meaning: 'period' }
const CAPACITY: FormField = { ...whole('Capacity', '20'), meaning: 'capacity' }
const COUNT_REFUSED: FormField = { ...flag('Count refused calls'), meaning: 'countRefused' }
const METER: FormField = { ...field('name', 'Meter', '', 'calls'), meaning: 'meter' }

function field(kind: FormField['kind'], label: string, initial: string, hint?: string): FormField {
  return { kind, label, initial, ...(hint !== undefined && { hint }) }
}

function choice(label: string, choices: readonly string[]): FormField {
  return { kind: 'choice', label, initial: choices[0] as string, choices }
}

/**
 * An algorithm whose fields are the options of its function. The compiler reports a missing option.
 */
function algorithm<O>(description: string, law: string, fields: FieldsFor<O>): AlgorithmForm {
  const tree = fields as FieldTree
  return { description, law, tree, leaves: leavesOf(tree) }
}

/** All start with the same size: twenty units, and twenty per ten seconds. */
export const ALGORITHMS = {
  gcra: algorithm<GcraOptions>(
    'Spreads calls evenly and allows a burst. The default for APIs.',
    'burst + t · limit / period in any time t',
    {
      limit: LIMIT,
      period: PERIOD,
      burst: whole('Burst', '', '= limit'),
      meter: METER,
    },
  ),
  tokenBucket: algorithm<TokenBucketOptions>(
    'Saves tokens up to its capacity. Each call spends them.',
    'capacity + t · tokens / every in any time t; with interval refill, capacity + tokens · (⌊t / every⌋ + 1)',
    {
      capacity: CAPACITY,
      refill: { tokens: whole('Refill tokens', '2'), every: duration('Refill every', '1s') },
      refillMode: choice('Refill mode', ['continuous', 'interval']),
      initial: whole('Initial tokens', '', '= capacity'),
      debt: whole('Debt allowed', '', '0'),
      meter: METER,
    },
  ),
  leakyBucket: algorithm<LeakyBucketOptions>(
    'Each call fills a bucket that leaks evenly.',
    'capacity + t · units / every in any time t',
    {
      capacity: CAPACITY,
      leak: { units: whole('Leak units', '2'), every: duration('Leak every', '1s') },
      meter: METER,
    },
  ),
  fixedWindow: algorithm<FixedWindowOptions>(
    'The first call opens a window. For quotas that are easy to explain.',
    'limit per window, 2 · limit − 1 in any time of its length',
    {
      limit: LIMIT,
      window: WINDOW,
      countRefused: COUNT_REFUSED,
      meter: METER,
    },
  ),
  calendarWindow: algorithm<CalendarWindowOptions>(
    'Counts per hour, day, week or month of a time zone. For plans.',
    'limit per window, 2 · limit in any time of its length',
    {
      limit: LIMIT,
      every: field('duration', 'Every', '10s', 'hour, day, week, month or 15m'),
      timeZone: field('name', 'Time zone', '', 'UTC'),
      meter: METER,
    },
  ),
  slidingWindow: algorithm<SlidingWindowOptions>(
    'Counts in buckets. The limit holds in every window.',
    'limit in any time of the window’s length',
    {
      limit: LIMIT,
      window: WINDOW,
      buckets: whole('Buckets', '', '10'),
      layout: choice('Layout in Redis', ['list', 'hash']),
      meter: METER,
    },
  ),
  slidingCounter: algorithm<SlidingCounterOptions>(
    'Estimates a sliding window from two counters.',
    'fewer than limit · (1 + t / window) in any time t',
    {
      limit: LIMIT,
      window: WINDOW,
      meter: METER,
    },
  ),
  slidingLog: algorithm<SlidingLogOptions>(
    'Records each call. Exact in every window, for small limits.',
    'limit in any time of the window’s length',
    {
      limit: LIMIT,
      window: WINDOW,
      countRefused: COUNT_REFUSED,
      meter: METER,
    },
  ),
  'slidingLog-limits': algorithm<Parameters<typeof slidingLog>[0]>(
    'Keeps several limits over one log.',
    'each limit, in any time of its own window’s length',
    {
      limits: field('limits', 'Limits', 'second:5/1s,ten:20/10s'),
      precision: duration('Precision', '', 'exact'),
      meter: METER,
    },
  ),
} as const satisfies { readonly [Name in AlgorithmName]: AlgorithmForm }

/** The names of all algorithms. */
export const ALGORITHM_NAMES = Object.keys(ALGORITHMS) as readonly AlgorithmName[]

/** The function that creates the policies of a form. */
export function functionOf(name: AlgorithmName): FunctionName {
  return name.replace(/-.*/, '') as FunctionName
}

/** Whether an algorithm has this name. */
export function isAlgorithm(name: string): name is AlgorithmName {
  return Object.hasOwn(ALGORITHMS, name)
}
