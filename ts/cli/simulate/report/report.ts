import type { Policy } from '../../../policies/policy.js'
import type { Policies } from '../../../policies/policy-set.js'
import { type LimiterPolicies, textLinesOf } from '../../policies.js'
import type { KeyTable } from '../log/key-table.js'
import type { PeakReport, Peaks } from '../peaks.js'
import type { LogPosition, ReplayResult } from '../replay.js'
import type { Suggestion } from '../suggest.js'
import type { Refusals, ReportTally } from '../tally.js'

/** Refusals in a report. Times are epoch milliseconds; `null` if there is none. */
export interface RefusalsReport {
  readonly refused: number
  readonly first: number | null
  readonly last: number | null
  readonly worstMinute: { readonly at: number; readonly refused: number } | null
}

export interface KeyReport extends RefusalsReport {
  readonly key: string
  /** The kind of key, as in `--key`; `global` for a limit on all calls together. */
  readonly by: string
  readonly requests: number
}

export interface PolicyReport extends RefusalsReport {
  readonly name: string
  /** The policy as text: one line for each of several. */
  readonly text: readonly string[]
  readonly policy: Policy | Policies
  /** Requests that have the keys which the policy counts by. */
  readonly requests: number
  /** The refused share of them, from 0 to 1. */
  readonly share: number
  /** Refused requests whose cost exceeds the limit. They would be refused at any time. */
  readonly impossible: number
  readonly byLimit: { readonly [limit: string]: number }
  readonly refusedKeys: number
  /** The keys with the most refusals, in descending order. */
  readonly keys: readonly KeyReport[]
  /** Refusals in each interval of the timeline. */
  readonly timeline: readonly number[]
}

/** The whole report: the output of `--format json`. */
export interface SimulationReport {
  readonly files: readonly string[]
  readonly lines: number
  readonly requests: number
  readonly from: number | null
  readonly to: number | null
  readonly broken: { readonly lines: number; readonly first: readonly (LogPosition & { readonly reason: string })[] }
  readonly order: {
    /** Requests behind a newer one, and the maximum distance in milliseconds. */
    readonly disordered: number
    readonly furthestMs: number
    readonly windowMs: number
    /** Those of them that were further behind than the window. */
    readonly late: number
    readonly firstLate: LogPosition | null
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
  /** The peaks of the keys, for each window of a policy that is searched. */
  readonly peaks: readonly PeakReport[]
  /** Requests in each interval of time. */
  readonly timeline: { readonly from: number; readonly stepMs: number; readonly requests: readonly number[] }
}

/** The report of a replay. `top` is the number of keys that it lists for each policy. */
export function reportOf(
  files: readonly string[],
  { summary, order, tables, timeline }: ReplayResult,
  policies: readonly (readonly [LimiterPolicies, ReportTally])[],
  { suggestions, peaks }: { readonly suggestions: readonly Suggestion[]; readonly peaks: readonly Peaks[] },
  top: number,
): SimulationReport {
  return {
    files,
    lines: summary.lines,
    requests: summary.requests,
    from: timeOrNull(summary.from),
    to: timeOrNull(summary.to),
    broken: { lines: summary.broken, first: summary.firstBroken },
    order: {
      disordered: order.disordered,
      furthestMs: order.furthest,
      windowMs: order.window,
      late: order.late,
      firstLate: summary.firstLate ?? null,
    },
    keys: tables.map((table) => ({
      by: table.spec.text,
      keys: table.size,
      requestsWithout: table.requests[0] as number,
      tooLong: table.tooLong,
    })),
    withoutCost: summary.withoutCost,
    policies: policies.map(([policy, tally], index) => ({
      ...policyReport(policy, tally, tables, top),
      timeline: timeline.column(index + 1),
    })),
    suggestions,
    peaks: peaks.map(({ report }) => report),
    timeline: { from: timeline.from, stepMs: timeline.step, requests: timeline.column(0) },
  }
}

function policyReport(
  { name, policy }: LimiterPolicies,
  tally: ReportTally,
  tables: readonly KeyTable[],
  top: number,
): Omit<PolicyReport, 'timeline'> {
  const refused = [...tally.byKey].flatMap(([kind, keys]) => [...keys].map(([key, all]) => ({ kind, key, all })))
  refused.sort((a, b) => b.all.count - a.all.count || a.key - b.key)
  return {
    name,
    text: textLinesOf(policy),
    policy,
    requests: tally.decided,
    share: tally.decided === 0 ? 0 : tally.refused / tally.decided,
    ...refusals(tally.all),
    impossible: tally.impossible,
    byLimit: Object.fromEntries(tally.byLimit),
    refusedKeys: refused.filter(({ kind }) => kind >= 0).length,
    keys: refused.slice(0, top).map(({ kind, key, all }) => {
      const table = tables[kind]
      return table === undefined
        ? { key: '', by: 'global', requests: tally.decided, ...refusals(all) }
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
