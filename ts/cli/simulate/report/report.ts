import type { Policy } from '../../../policies/policy.js'
import type { Policies } from '../../../policies/policy-set.js'
import { type NamedPolicy, textsOf } from '../../policies.js'
import type { KeyTable } from '../log/key-table.js'
import type { Place, Replay } from '../replay.js'
import type { Suggestion } from '../suggest.js'
import type { FullTally, Refusals } from '../tally.js'

/** Refusals as a report has them. Times are epoch milliseconds; `null` where there is none. */
export interface RefusalsReport {
  readonly refused: number
  readonly first: number | null
  readonly last: number | null
  readonly worstMinute: { readonly at: number; readonly refused: number } | null
}

/** A key that would have been refused. */
export interface KeyReport extends RefusalsReport {
  readonly key: string
  /** What kind of key it is, as `--key` has it; `global` for a limit on all calls together. */
  readonly by: string
  /** The requests of this key. */
  readonly requests: number
}

/** What a policy would have done. */
export interface PolicyReport extends RefusalsReport {
  readonly name: string
  /** The policy in text, a line for each of several. */
  readonly text: readonly string[]
  readonly policy: Policy | Policies
  /** Requests that have the keys which it counts by. */
  readonly requests: number
  /** The part of them that was refused, from 0 to 1. */
  readonly share: number
  /** Refused requests whose cost is above the limit: they would be refused at any time. */
  readonly impossible: number
  /** By the name of the limit that refused. */
  readonly byLimit: { readonly [limit: string]: number }
  readonly refusedKeys: number
  /** Those with the most refusals, the most first. */
  readonly keys: readonly KeyReport[]
  /** Refusals in each stretch of the timeline. */
  readonly timeline: readonly number[]
}

/** All that a simulation tells: what `--format json` prints. */
export interface Report {
  readonly files: readonly string[]
  readonly lines: number
  readonly requests: number
  readonly from: number | null
  readonly to: number | null
  readonly broken: { readonly lines: number; readonly first: readonly (Place & { readonly reason: string })[] }
  readonly order: {
    /** Requests that were behind a newer one, and how far at most, in milliseconds. */
    readonly disordered: number
    readonly furthestMs: number
    readonly windowMs: number
    /** Those of them that were further behind than the window. */
    readonly late: number
    readonly firstLate: Place | null
  }
  readonly keys: readonly {
    readonly by: string
    readonly keys: number
    readonly requestsWithout: number
    readonly tooLong: number
  }[]
  readonly withoutCost: number
  readonly policies: readonly PolicyReport[]
  readonly suggestions: readonly Suggestion[]
  /** Requests in each stretch of time. */
  readonly timeline: { readonly from: number; readonly stepMs: number; readonly requests: readonly number[] }
}

/** Makes the report of a replay. `top` is how many keys it names for each policy. */
export function reportOf(
  files: readonly string[],
  { reading, order, tables, timeline }: Replay,
  policies: readonly (readonly [NamedPolicy, FullTally])[],
  suggestions: readonly Suggestion[],
  top: number,
): Report {
  return {
    files,
    lines: reading.lines,
    requests: reading.requests,
    from: timeOrNull(reading.from),
    to: timeOrNull(reading.to),
    broken: { lines: reading.broken, first: reading.firstBroken },
    order: {
      disordered: order.disordered,
      furthestMs: order.furthest,
      windowMs: order.window,
      late: order.late,
      firstLate: reading.firstLate ?? null,
    },
    keys: tables.map((table) => ({
      by: table.spec.text,
      keys: table.size,
      requestsWithout: table.requests[0] as number,
      tooLong: table.tooLong,
    })),
    withoutCost: reading.withoutCost,
    policies: policies.map(([policy, tally], index) => ({
      ...policyReport(policy, tally, tables, top),
      timeline: timeline.column(index + 1),
    })),
    suggestions,
    timeline: { from: timeline.from, stepMs: timeline.step, requests: timeline.column(0) },
  }
}

function policyReport(
  { name, policy }: NamedPolicy,
  tally: FullTally,
  tables: readonly KeyTable[],
  top: number,
): Omit<PolicyReport, 'timeline'> {
  const refused = [...tally.byKey].flatMap(([kind, keys]) => [...keys].map(([key, all]) => ({ kind, key, all })))
  refused.sort((a, b) => b.all.count - a.all.count || a.key - b.key)
  return {
    name,
    text: textsOf(policy),
    policy,
    requests: tally.judged,
    share: tally.judged === 0 ? 0 : tally.refused / tally.judged,
    ...refusals(tally.all),
    impossible: tally.impossible,
    byLimit: Object.fromEntries(tally.byLimit),
    refusedKeys: refused.filter(({ kind }) => kind >= 0).length,
    keys: refused.slice(0, top).map(({ kind, key, all }) => {
      const table = tables[kind]
      return table === undefined
        ? { key: '', by: 'global', requests: tally.judged, ...refusals(all) }
        : {
            key: table.keys[key] as string,
            by: table.spec.text,
            requests: table.requests[key] as number,
            ...refusals(all),
          }
    }),
  }
}

function refusals({ count, first, last, worst, worstMinute }: Refusals): RefusalsReport {
  return {
    refused: count,
    first: timeOrNull(first),
    last: timeOrNull(last),
    worstMinute: count === 0 ? null : { at: worstMinute, refused: worst },
  }
}

function timeOrNull(time: number): number | null {
  return Number.isNaN(time) ? null : time
}
