import { TollgateError } from '../../api/error.js'
import { engine } from '../../backends/addon.js'
import { compilePolicy } from '../../backends/compile-policies.js'
import { mainOptionOf, type Policy, policyOf } from '../../policies/policy.js'
import { asUsageError, usageError } from '../failure.js'
import type { LimiterPolicies, PolicyFactory } from '../policies.js'
import { formatPolicyText } from '../policy-text.js'
import type { PeakGap } from './peaks.js'
import type { ReplayResult } from './replay.js'
import { type RefusalTally, SearchTally } from './tally.js'

/** The share that may be refused, from `--suggest`. */
export interface RefusalGoal {
  /** From 0 to 1. */
  readonly share: number
  readonly of: 'requests' | 'keys'
}

/** The result of a search. */
export interface Suggestion {
  readonly name: string
  readonly goal: RefusalGoal
  /** The policy that was found, and its text; `null` if no number that the algorithm accepts is large enough. */
  readonly policy: Policy | null
  readonly text: string | null
  /** The refusals of that policy, from a replay and not an estimate. */
  readonly refusedShare: number
  readonly refused: number
  readonly refusedKeys: number
  /** The largest number tried that refused more than the goal; `null` if 1 suffices. */
  readonly tooSmall: number | null
  readonly replays: number
  /** The policy with a number in the gap between busy keys and the rest; `null` if there is no gap. */
  readonly inGap: { readonly policy: Policy; readonly text: string; readonly busyKeys: number } | null
}

/** Parses `--suggest`: `1%`, `0.5% of keys`. */
export function goalOf(text: string): RefusalGoal {
  const [, percent, of = 'requests'] = /^\s*(\d+(?:\.\d+)?)\s*%(?:\s+of\s+(requests|keys))?\s*$/.exec(text) ?? []
  const share = Number(percent) / 100
  if (percent === undefined || share >= 1) {
    throw usageError(`--suggest must be a share below 100 %, such as '1%', '0.1% of requests' or '1% of keys'`)
  }
  return { share, of: of as RefusalGoal['of'] }
}

/** The policies to search for by default: steady rates per second, minute and hour. */
export const DEFAULT_SHAPES = ['gcra period=1s', 'gcra period=1m', 'gcra period=1h']

export type LackingOptions = Parameters<PolicyFactory>[0]

export type PolicyShape = Policy | LackingOptions

export interface PolicyCandidate extends LimiterPolicies {
  /** Its options, if they lack the number to search for. Its policy then has 1. */
  readonly lacking: LackingOptions | undefined
}

/** The options that keep their ratio to a policy's main number, if it has them. */
const SCALED = ['burst', 'refill.tokens', 'initial', 'debt', 'leak.units']

export function lacksNumber(options: { readonly algorithm: string }): boolean {
  const main = mainOptionOf(options)
  return main !== undefined && !(main in options)
}

export const withoutNumber: PolicyFactory = (options, where) => {
  const main = mainOptionOf(options)
  const shape = main === undefined || !lacksNumber(options) ? options : { ...options, [main]: 1 }
  return asUsageError(where, () => policyOf(shape, 'the policy'))
}

/** Gives a policy's main number a value. Other numbers keep their ratio to a former value, and are at least 1. */
export function scaled(shape: PolicyShape, main: number): Policy {
  const name = searchedOption(shape)
  const { algorithm, ...options } = structuredClone(shape) as LackingOptions
  if (!lacksNumber(shape)) {
    const ratio = main / (read(options, name) as number)
    for (const other of SCALED) {
      const value = read(options, other)
      if (typeof value === 'number' && value > 0) {
        write(options, other, Math.max(1, Math.round(value * ratio)))
      }
    }
  }
  write(options, name, main)
  return policyOf({ algorithm, ...options })
}

function searchedOption(shape: PolicyShape): string {
  const name = mainOptionOf(shape)
  if (name === undefined) {
    throw usageError(`--suggest cannot search for several numbers at once, as ${shape.algorithm} with limits has them`)
  }
  return name
}

function read(options: Record<string, unknown>, path: string): unknown {
  return path
    .split('.')
    .reduce((target: unknown, name) => (target as Record<string, unknown> | undefined)?.[name], options)
}

function write(options: Record<string, unknown>, path: string, value: number): void {
  const names = path.split('.')
  const last = names.pop() as string
  const target = names.reduce((at, name) => at[name] as Record<string, unknown>, options)
  target[last] = value
}

/** The number of values that are tried in one replay, for each policy. */
const TRIALS = 4

/** The precision of the search, one part in 100: users set limits such as 10,000, and not 10,007. */
const PRECISION = 100

/** Replays the log through policies. `more` estimates the number of further replays, for the progress. */
export type ReplayFunction = (
  policies: readonly (readonly [LimiterPolicies, RefusalTally])[],
  more: number,
) => Promise<ReplayResult>

interface NumberSearch {
  readonly start: PolicyCandidate
  readonly shape: PolicyShape
  /** The largest number known to refuse too much. */
  low: number
  /** The smallest number known to be large enough; `undefined` while none is known. */
  high: number | undefined
  found: { readonly policy: Policy; readonly tally: SearchTally } | undefined
  replays: number
  isExhausted: boolean
}

/**
 * Searches for the smallest numbers that refuse at most the goal's share, by replaying the log through several
 * candidates at once.
 *
 * It tries numbers at growing distances until one is large enough; then numbers between the largest that is too small
 * and the smallest that is large enough, until the two are neighbours or within one percent. The search assumes that a
 * larger number refuses no more, which is nearly always true. The result itself has been replayed, so it holds in any
 * case.
 */
export async function suggest(
  policies: readonly PolicyCandidate[],
  goal: RefusalGoal,
  replayer: ReplayFunction,
  gapOf: (policy: LimiterPolicies['policy']) => PeakGap | null = () => null,
): Promise<Suggestion[]> {
  const searches = policies.map((start): NumberSearch => {
    return { start, shape: singleOf(start), low: 0, high: undefined, found: undefined, replays: 0, isExhausted: false }
  })
  for (
    let unfinished = searches;
    unfinished.length > 0;
    unfinished = unfinished.filter((search) => !isFinished(search))
  ) {
    const trials = unfinished.flatMap((search) => trialsOf(search))
    const { tables } = await replayer(
      trials.map(({ search: { start }, policy, tally }) => [{ ...start, policy }, tally]),
      Math.max(...unfinished.map(replaysLeft)) - 1,
    )
    const keys = tables.reduce((most, { size }) => Math.max(most, size), 0)
    for (const trial of trials) {
      recordTrial(trial, shareOf(goal, trial.tally, keys) <= goal.share)
    }
  }
  return searches.map((search) => suggestionOf(search, goal, gapOf(search.start.policy)))
}

/** The next numbers to try. Numbers that the algorithm does not accept end the search. */
function trialsOf(search: NumberSearch) {
  search.replays++
  const trials = numbersFor(search).flatMap((number) => {
    const policy = acceptedPolicy(() => scaled(search.shape, number))
    return policy === undefined ? [] : [{ search, number, policy, tally: new SearchTally() }]
  })
  search.isExhausted = trials.length === 0
  return trials
}

function acceptedPolicy(make: () => Policy): Policy | undefined {
  try {
    const policy = make()
    compilePolicy(engine, policy)
    return policy
  } catch (error) {
    if (TollgateError.is(error) && error.code === 'INVALID_POLICY') {
      return undefined
    }
    throw error
  }
}

function recordTrial({ search, number, policy, tally }: ReturnType<typeof trialsOf>[number], isEnough: boolean): void {
  if (isEnough && (search.high === undefined || number < search.high)) {
    search.high = number
    search.found = { policy, tally }
  } else if (!isEnough && number > search.low && (search.high === undefined || number < search.high)) {
    search.low = number
  }
}

function isFinished({ low, high, isExhausted }: NumberSearch): boolean {
  return isExhausted || (high !== undefined && high - low <= Math.max(1, Math.floor(high / PRECISION)))
}

/** The factor between the first numbers that are tried. */
const STEP = 8

function replaysLeft({ low, high }: Pick<NumberSearch, 'low' | 'high'>): number {
  if (high === undefined) {
    // One for the next steps, of which one is expected to be large enough.
    return 1 + replaysLeft({ low: STEP, high: STEP * STEP })
  }
  const byShare = Math.log(high / Math.max(1, low)) / Math.log(1 + 1 / PRECISION)
  return Math.max(1, Math.ceil(Math.log(Math.min(high - low, byShare)) / Math.log(TRIALS + 1)))
}

/** About how many replays a whole search needs. */
export const REPLAYS_OF_SEARCH = replaysLeft({ low: 0, high: undefined })

/** The numbers to try next, ascending. */
function numbersFor({ low, high }: NumberSearch): number[] {
  if (high === undefined) {
    // 1, 8, 64, … or the same steps up from the largest number that is too small.
    return Array.from({ length: TRIALS }, (_, step) => Math.max(1, low * STEP) * STEP ** step)
  }
  const ratio = (high / Math.max(1, low)) ** (1 / (TRIALS + 1))
  const between = Array.from({ length: TRIALS }, (_, step) => {
    const even = low + ((high - low) * (step + 1)) / (TRIALS + 1)
    return Math.round(high - low > 4 * TRIALS ? Math.max(1, low) * ratio ** (step + 1) : even)
  })
  return [...new Set(between)].filter((number) => number > low && number < high)
}

function shareOf({ of }: RefusalGoal, { decided, refused, refusedKeys }: SearchTally, keys: number): number {
  const [part, whole] = of === 'requests' ? [refused, decided] : [refusedKeys, keys]
  return whole === 0 ? 0 : part / whole
}

function suggestionOf(
  { start, shape, found, low, replays }: NumberSearch,
  goal: RefusalGoal,
  gap: PeakGap | null,
): Suggestion {
  const middle = gap === null ? undefined : acceptedPolicy(() => scaled(shape, gap.middle))
  const { decided = 0, refused = 0, refusedKeys = 0 } = found?.tally ?? {}
  return {
    name: start.name,
    goal,
    policy: found?.policy ?? null,
    text: found === undefined ? null : formatPolicyText(found.policy),
    refusedShare: decided === 0 ? 0 : refused / decided,
    refused,
    refusedKeys,
    tooSmall: low === 0 ? null : low,
    replays,
    inGap:
      gap === null || middle === undefined
        ? null
        : { policy: middle, text: formatPolicyText(middle), busyKeys: gap.keys },
  }
}

function singleOf({ name, policy, lacking }: PolicyCandidate): PolicyShape {
  if (!('algorithm' in policy) || typeof policy.algorithm !== 'string') {
    const names = Object.keys(policy).join(', ')
    throw usageError(`--suggest searches for the number of a single policy, and ${name} is several (${names})`)
  }
  searchedOption(policy as Policy)
  return lacking ?? (policy as Policy)
}
