/** The results of the traffic under one policy, in detail. */
import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import type { TrafficSummary } from '../model/messages.js'
import type { LawResult, RunResult } from '../model/run.js'
import { count, counted, share, span, time } from '../model/words.js'
import { Chart } from './chart.js'
import type { Plot } from './plots.js'

interface ResultsProps {
  readonly name: string
  readonly summary: TrafficSummary
  readonly outcome: RunResult
  /** The scales that all policies share. */
  readonly tops: ScaleMaxima
  /** The content below the plots. */
  readonly children: ComponentChildren
}

/** The largest values of all policies. */
export interface ScaleMaxima {
  readonly calls: number
  readonly rolling: number
  readonly level: number
}

/** The scales that several results share. */
export function topsOf(outcomes: readonly RunResult[]): ScaleMaxima {
  const calls = outcomes.flatMap(({ admittedIn, refusedIn }) =>
    admittedIn.map((admitted, column) => admitted + (refusedIn[column] ?? 0)),
  )
  const rolling = outcomes.map(({ rolling, laws, drawn }) => largest([...rolling, laws[drawn]?.most ?? 0]))
  return { calls: largest(calls), rolling: largest(rolling), level: largest(outcomes.map(({ full }) => full)) }
}

/** The bounds, and the plots, also as a table. */
export function Results({ name, summary, outcome, tops, children }: ResultsProps) {
  const { admitted, refused, admittedIn, refusedIn, impossible, remaining, full, rolling } = outcome
  const law = outcome.laws[outcome.drawn] as LawResult
  const { lengthUs } = summary
  const column = lengthUs / rolling.length
  const plots = useMemo(
    () => plotsOf(outcome, lengthUs, tops),
    [outcome, lengthUs, tops.calls, tops.rolling, tops.level],
  )
  const whose = summary.keyCount > 1 ? `, ${summary.watched}` : ''
  const at = (index: number) => time((index + 1) * column, lengthUs)
  return (
    <>
      <ul class="laws">
        {impossible > 0 && <li class="note">{counted(impossible, 'call')} cost more than this policy ever admits.</li>}
        {outcome.laws.map((one, index) => (
          <LawLine
            key={one.name ?? ''}
            law={one}
            unit={summary.unitCosts && outcome.meter === undefined ? 'call' : 'unit'}
            lengthUs={lengthUs}
            isDrawn={index === outcome.drawn}
          />
        ))}
      </ul>
      <div class="plots">
        <Chart
          title="Calls"
          plot={plots.calls}
          description={`${name}: ${count(admitted)} calls admitted and ${count(refused)} refused over ${span(lengthUs)}`}
          read={(index) => `${at(index)}: ${admittedIn[index]} admitted, ${refusedIn[index]} refused`}
        />
        <Chart
          title={`Remaining${whose}`}
          plot={plots.level}
          description={`${name}: remaining over time, at least ${count(Math.min(...remaining))} of ${count(full)}`}
          read={(index) => `${at(index)}: ${count(remaining[index] ?? 0)} of ${count(full)}`}
        />
        <Chart
          title={`Admitted within ${span(law.spanUs)}${whose}`}
          plot={plots.rolling}
          bound={`the law: at most ${count(law.most)}`}
          description={`${name}: admitted in the last ${span(law.spanUs)}, at most ${count(largest(rolling))}; the law’s bound is ${count(law.most)}`}
          read={(index) => `${at(index)}: ${count(rolling[index] ?? 0)} of at most ${count(law.most)}`}
        />
        <Table summary={summary} outcome={outcome} name={name} />
        {children}
      </div>
    </>
  )
}

interface LawLineProps {
  readonly law: LawResult
  readonly unit: string
  readonly lengthUs: number
  /** Whether its worst span is shaded in the plots. */
  readonly isDrawn: boolean
}

function LawLine({ law, unit, lengthUs, isDrawn }: LawLineProps) {
  const { worst, most, spanUs, name } = law
  return (
    <li>
      <span class="law-text">
        Most in any {span(spanUs)}
        {name !== undefined && ` (${name})`}: <b data-worst={name ?? ''}>{count(worst.units)}</b> of at most{' '}
        <b>{counted(most, unit)}</b>
      </span>
      <span class="bar" aria-hidden="true">
        <i style={{ width: `${Math.min(100, (100 * worst.units) / most)}%` }} />
      </span>
      <span class="law-note">
        {worst.units === 0
          ? 'nothing was admitted'
          : `${share(worst.units, most)} of the bound, from ${time(worst.fromUs, lengthUs)}${isDrawn ? ' (shaded)' : ''}`}
      </span>
    </li>
  )
}

function plotsOf(
  outcome: RunResult,
  lengthUs: number,
  tops: ScaleMaxima,
): { readonly [Kind in Exclude<Plot['kind'], 'compared'>]: Plot } {
  const { admittedIn, refusedIn, remaining, rolling, laws, drawn } = outcome
  const { most, worst, spanUs } = laws[drawn] as LawResult
  const band = [worst.fromUs, worst.fromUs + spanUs] as const
  return {
    calls: { kind: 'calls', lengthUs, series: [admittedIn, refusedIn], top: tops.calls, band },
    level: { kind: 'level', lengthUs, series: [remaining], top: tops.level, band },
    rolling: { kind: 'rolling', lengthUs, series: [rolling], top: tops.rolling, lines: [most], band },
  }
}

const MAX_ROWS = 20

/** The data of the plots as a table. */
function Table({
  summary,
  outcome,
  name,
}: {
  readonly summary: TrafficSummary
  readonly outcome: RunResult
  readonly name: string
}) {
  const columns = outcome.admittedIn.length
  const each = Math.ceil(columns / MAX_ROWS)
  const rows = Array.from({ length: Math.ceil(columns / each) }, (_, row) => {
    const within = (list: readonly number[]) => list.slice(row * each, (row + 1) * each)
    return {
      until: time((Math.min(columns, (row + 1) * each) * summary.lengthUs) / columns, summary.lengthUs),
      cells: [
        sum(within(outcome.admittedIn)),
        sum(within(outcome.refusedIn)),
        within(outcome.remaining).at(-1) ?? 0,
        largest(within(outcome.rolling)),
      ],
    }
  })
  return (
    <details>
      <summary>As a table</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling section must be reachable by keyboard */}
      <section class="scrolls" tabIndex={0} aria-label={`${name} as a table`}>
        <table>
          <thead>
            <tr>
              {['until', 'admitted', 'refused', 'remaining', 'most'].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ until, cells }) => (
              <tr key={until}>
                <th scope="row">{until}</th>
                {cells.map((number, index) => (
                  <td key={index}>{count(number)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </details>
  )
}

/** The largest number; 0 for none. */
export function largest(numbers: readonly number[]): number {
  return numbers.reduce((most, number) => Math.max(most, number), 0)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
