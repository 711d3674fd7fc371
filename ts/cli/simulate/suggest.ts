import { TollgateError } from '../../api/error.js'
import { engine } from '../../backends/addon.js'
import { compiled } from '../../backends/compiled.js'
import { type Policy, policyOf } from '../../policies/policy.js'
import type { Policies } from '../../policies/policy-set.js'
import { checked, wrongUsage } from '../failure.js'
import type { Maker, NamedPolicy } from '../policies.js'
import { textOfPolicy } from '../policy-text.js'
import type { Replay } from './replay.js'
import { ShortTally, type Tally } from './tally.js'

/** What may be refused, as `--suggest` says it. */
export interface Goal {
  /** From 0 to 1. */
  readonly share: number
  readonly of: 'requests' | 'keys'
}

/** Numbers that would have refused no more than was asked. */
export interface Suggestion {
  /** The policy that they were searched for. */
  readonly name: string
  readonly goal: Goal
  /** The policy with the numbers found, and its text; `null` if none that it takes is large enough. */
  readonly policy: Policy | null
  readonly text: string | null
  /** What it would have refused: replayed, not estimated. */
  readonly refusedShare: number
  readonly refused: number
  readonly refusedKeys: number
  /** The largest number that was tried and refused more; `null` if even 1 does not. */
  readonly tooSmall: number | null
  /** How many times the log was replayed. */
  readonly replays: number
}

/** Reads `--suggest`: `1%`, `0.5% of keys`. */
export function goalOf(text: string): Goal {
  const [, percent, of = 'requests'] = /^\s*(\d+(?:\.\d+)?)\s*%(?:\s+of\s+(requests|keys))?\s*$/.exec(text) ?? []
  const share = Number(percent) / 100
  if (percent === undefined || share >= 1) {
    throw wrongUsage(`--suggest must be a share below 100 %, such as '1%', '0.1% of requests' or '1% of keys'`)
  }
  return { share, of: of as Goal['of'] }
}

/** What is searched for where no policy says it: even rates by the second, the minute and the hour. */
export const DEFAULT_SHAPES = ['gcra period=1s', 'gcra period=1m', 'gcra period=1h']

/** The option whose number is searched for, and those that keep their ratio to it, by algorithm. */
const SCALED: Readonly<Record<string, readonly [string, ...(readonly string[])]>> = {
  fixedWindow: ['limit'],
  calendarWindow: ['limit'],
  slidingWindow: ['limit'],
  slidingCounter: ['limit'],
  slidingLog: ['limit'],
  gcra: ['limit', 'burst'],
  tokenBucket: ['capacity', 'refill.tokens', 'initial', 'debt'],
  leakyBucket: ['capacity', 'leak.units'],
}

/** Whether a policy's options lack the number that is searched for. */
export function lacksNumber(options: { readonly algorithm: string }): boolean {
  const [main] = SCALED[options.algorithm] ?? []
  return main !== undefined && !(main in options)
}

/** Takes a policy that may lack the number which is searched for: it is 1 then. */
export const withoutNumber: Maker = (options, where) => {
  const [main] = SCALED[options.algorithm] ?? []
  const shape = main === undefined || !lacksNumber(options) ? options : { ...options, [main]: 1 }
  return checked(where, () => policyOf(shape, 'the policy'))
}

/** A policy's numbers times a ratio, each at least 1, the main one as given. */
export function scaled(policy: Policy, main: number): Policy {
  const [name, ...others] = scaledOptions(policy)
  const { algorithm, ...options } = structuredClone(policy) as Policy & Record<string, unknown>
  const ratio = main / (read(options, name) as number)
  write(options, name, main)
  for (const other of others) {
    const value = read(options, other)
    if (typeof value === 'number' && value > 0) {
      write(options, other, Math.max(1, Math.round(value * ratio)))
    }
  }
  return policyOf({ algorithm, ...options })
}

function scaledOptions(policy: Policy): readonly [string, ...(readonly string[])] {
  const names = SCALED[policy.algorithm]
  if (names === undefined) {
    throw wrongUsage(`--suggest cannot search for several numbers at once, as ${policy.algorithm} has them`)
  }
  return names
}

function read(options: Record<string, unknown>, path: string): unknown {
  return path.split('.').reduce((place: unknown, name) => (place as Record<string, unknown>)[name], options)
}

function write(options: Record<string, unknown>, path: string, value: number): void {
  const names = path.split('.')
  const last = names.pop() as string
  const place = names.reduce((at, name) => at[name] as Record<string, unknown>, options)
  place[last] = value
}

/** How many numbers are tried in one replay, for each policy. */
const TRIED = 4

/** Numbers are searched for to one part in so many: nobody sets a limit of 10,007. */
const PRECISION = 100

/** What replays the log through policies. */
export type Replayer = (policies: readonly (readonly [NamedPolicy, Tally])[]) => Promise<Replay>

interface Search {
  readonly named: NamedPolicy
  readonly shape: Policy
  /** The largest number known to refuse too much. */
  low: number
  /** The smallest known not to; `undefined` while none is known. */
  high: number | undefined
  found: { readonly policy: Policy; readonly tally: ShortTally } | undefined
  replays: number
  /** Whether there are no more numbers to be tried. */
  isExhausted: boolean
}

/**
 * Searches for the smallest numbers that refuse no more than the goal says, by replaying the log through several at once.
 *
 * Numbers are tried at growing distances, until one is large enough; then between the largest that is too small and the
 * smallest that is not, until these are neighbours or a hundredth apart. That a larger number refuses no more is what it builds
 * on, and nearly always so; what it answers with has been replayed, and so holds in any case.
 */
export async function suggest(policies: readonly NamedPolicy[], goal: Goal, replayer: Replayer): Promise<Suggestion[]> {
  const searches = policies.map((named): Search => {
    return { named, shape: singleOf(named), low: 0, high: undefined, found: undefined, replays: 0, isExhausted: false }
  })
  for (let open = searches; open.length > 0; open = open.filter((search) => !isOver(search))) {
    const candidates = open.flatMap((search) => candidatesOf(search))
    const { tables } = await replayer(
      candidates.map(({ search: { named }, policy, tally }) => [{ ...named, policy }, tally]),
    )
    const keys = tables.reduce((most, { size }) => Math.max(most, size), 0)
    for (const { search, number, policy, tally } of candidates) {
      judge(search, number, policy, tally, shareOf(goal, tally, keys) <= goal.share)
    }
  }
  return searches.map((search) => suggestionOf(search, goal))
}

interface Candidate {
  readonly search: Search
  readonly number: number
  readonly policy: Policy
  readonly tally: ShortTally
}

/** What is to be tried next; numbers that the algorithm does not take end the search. */
function candidatesOf(search: Search): Candidate[] {
  search.replays++
  const candidates = numbersFor(search).flatMap((number) => {
    const policy = legal(() => scaled(search.shape, number))
    return policy === undefined ? [] : [{ search, number, policy, tally: new ShortTally() }]
  })
  search.isExhausted = candidates.length === 0
  return candidates
}

function legal(make: () => Policy): Policy | undefined {
  try {
    const policy = make()
    compiled(engine, policy)
    return policy
  } catch (error) {
    if (TollgateError.is(error) && error.code === 'INVALID_POLICY') {
      return undefined
    }
    throw error
  }
}

function judge(search: Search, number: number, policy: Policy, tally: ShortTally, isEnough: boolean): void {
  if (isEnough && (search.high === undefined || number < search.high)) {
    search.high = number
    search.found = { policy, tally }
  } else if (!isEnough && number > search.low && (search.high === undefined || number < search.high)) {
    search.low = number
  }
}

function isOver({ low, high, isExhausted }: Search): boolean {
  return isExhausted || (high !== undefined && high - low <= Math.max(1, Math.floor(high / PRECISION)))
}

/** The numbers to be tried next, ascending. */
function numbersFor({ low, high }: Search): number[] {
  if (high === undefined) {
    // 1, 8, 64, … and on from what is known to be too small.
    return Array.from({ length: TRIED }, (_, step) => Math.max(1, low * 8) * 8 ** step)
  }
  const ratio = (high / Math.max(1, low)) ** (1 / (TRIED + 1))
  const between = Array.from({ length: TRIED }, (_, step) => {
    const even = low + ((high - low) * (step + 1)) / (TRIED + 1)
    return Math.round(high - low > 4 * TRIED ? Math.max(1, low) * ratio ** (step + 1) : even)
  })
  return [...new Set(between)].filter((number) => number > low && number < high)
}

function shareOf({ of }: Goal, { judged, refused, refusedKeys }: ShortTally, keys: number): number {
  const [part, whole] = of === 'requests' ? [refused, judged] : [refusedKeys, keys]
  return whole === 0 ? 0 : part / whole
}

function suggestionOf({ named, found, low, replays }: Search, goal: Goal): Suggestion {
  const { judged = 0, refused = 0, refusedKeys = 0 } = found?.tally ?? {}
  return {
    name: named.name,
    goal,
    policy: found?.policy ?? null,
    text: found === undefined ? null : textOfPolicy(found.policy),
    refusedShare: judged === 0 ? 0 : refused / judged,
    refused,
    refusedKeys,
    tooSmall: low === 0 ? null : low,
    replays,
  }
}

function singleOf({ name, policy }: NamedPolicy): Policy {
  if (!('algorithm' in policy) || typeof policy.algorithm !== 'string') {
    throw wrongUsage(`--suggest searches for the number of a single policy, and ${name} is several (${names(policy)})`)
  }
  scaledOptions(policy as Policy)
  return policy as Policy
}

function names(policies: Policy | Policies): string {
  return Object.keys(policies).join(', ')
}
