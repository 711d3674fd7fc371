/** What became of the traffic under one policy. */
import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import type { Sent } from '../model/messages.js'
import type { Kept, Outcome } from '../model/run.js'
import { Chart } from './chart.js'
import type { Plot } from './plots.js'
import { count, counted, share, span, time } from './words.js'

interface ResultsProps {
  readonly name: string
  readonly sent: Sent
  readonly outcome: Outcome
  /** The tops of the scales that policies side by side have in common. */
  readonly tops: Tops
  /** What stands below the plots. */
  readonly children: ComponentChildren
}

/** The largest values of all policies. */
export interface Tops {
  readonly calls: number
  readonly rolling: number
}

/** So many columns are counted together in a bar, which would be too thin. */
const COLUMNS_PER_BAR = 3

function bars(columns: readonly number[]): readonly number[] {
  const starts = Array.from({ length: columns.length / COLUMNS_PER_BAR }, (_, bar) => bar * COLUMNS_PER_BAR)
  return starts.map((start) => sum(columns.slice(start, start + COLUMNS_PER_BAR)))
}

/** The scales that several outcomes have in common. */
export function topsOf(outcomes: readonly Outcome[]): Tops {
  const calls = outcomes.flatMap(({ admittedIn, refusedIn }) => {
    const refused = bars(refusedIn)
    return bars(admittedIn).map((admitted, bar) => admitted + (refused[bar] ?? 0))
  })
  const rolling = outcomes.map(({ rolling, laws, drawn }) => largest([...rolling, laws[drawn]?.most ?? 0]))
  return { calls: largest(calls), rolling: largest(rolling) }
}

/** The numbers, the laws, and the plots, also as a table: three parts, that those of other policies stand beside. */
export function Results({ name, sent, outcome, tops, children }: ResultsProps) {
  const { admitted, refused, impossible, remaining, full, rolling } = outcome
  const law = outcome.laws[outcome.drawn] as Kept
  const { lengthUs } = sent
  const column = lengthUs / rolling.length
  const plots = useMemo(() => plotsOf(outcome, lengthUs, tops), [outcome, lengthUs, tops.calls, tops.rolling])
  const whose = sent.keys.length > 1 ? `, ${sent.watched}` : ''
  const at = (index: number) => time((index + 1) * column, lengthUs)
  const [admittedBars = [], refusedBars = []] = plots.calls.series
  return (
    <>
      <dl class="counts">
        <div>
          <dt>
            <i class="swatch admitted" aria-hidden="true" />
            admitted
          </dt>
          <dd data-count="admitted">{count(admitted)}</dd>
        </div>
        <div>
          <dt>
            <i class="swatch refused" aria-hidden="true" />
            refused
          </dt>
          <dd data-count="refused">{count(refused)}</dd>
        </div>
      </dl>
      <ul class="laws">
        {impossible > 0 && <li class="note">{counted(impossible, 'call')} cost more than this policy ever admits.</li>}
        {outcome.laws.map((one, index) => (
          <LawLine
            key={one.name ?? ''}
            law={one}
            unit={sent.unitCosts ? 'call' : 'unit'}
            lengthUs={lengthUs}
            isDrawn={index === outcome.drawn}
          />
        ))}
      </ul>
      <div class="plots">
        <Chart
          title="Calls"
          plot={plots.calls}
          says={`${name}: ${count(admitted)} calls admitted and ${count(refused)} refused over ${span(lengthUs)}`}
          read={(bar) =>
            `${at((bar + 1) * COLUMNS_PER_BAR - 1)}: ${admittedBars[bar]} admitted, ${refusedBars[bar]} refused`
          }
        />
        <Chart
          title={`Left to take${whose}`}
          plot={plots.level}
          says={`${name}: what is left over time, ${count(Math.min(...remaining))} of ${count(full)} at the least`}
          read={(index) => `${at(index)}: ${count(remaining[index] ?? 0)} of ${count(full)}`}
        />
        <Chart
          title={`Admitted within ${span(law.spanUs)}${whose}`}
          plot={plots.rolling}
          bound={`the law: at most ${count(law.most)}`}
          says={`${name}: admitted in the last ${span(law.spanUs)}, ${count(largest(rolling))} at the most; the law’s bound is ${count(law.most)}`}
          read={(index) => `${at(index)}: ${count(rolling[index] ?? 0)} of at most ${count(law.most)}`}
        />
        <Table sent={sent} outcome={outcome} name={name} />
        {children}
      </div>
    </>
  )
}

interface LawLineProps {
  readonly law: Kept
  readonly unit: string
  readonly lengthUs: number
  /** Whether its worst time is shaded in the plots. */
  readonly isDrawn: boolean
}

function LawLine({ law, unit, lengthUs, isDrawn }: LawLineProps) {
  const { worst, most, spanUs, name } = law
  return (
    <li>
      <span class="law-text">
        Worst {span(spanUs)}
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

function plotsOf(outcome: Outcome, lengthUs: number, tops: Tops): { readonly [Kind in Plot['kind']]: Plot } {
  const { admittedIn, refusedIn, remaining, full, rolling, laws, drawn } = outcome
  const { most, worst, spanUs } = laws[drawn] as Kept
  const band = [worst.fromUs, worst.fromUs + spanUs] as const
  return {
    calls: { kind: 'calls', lengthUs, series: [bars(admittedIn), bars(refusedIn)], top: tops.calls, band },
    level: { kind: 'level', lengthUs, series: [remaining], top: full, band },
    rolling: { kind: 'rolling', lengthUs, series: [rolling], top: tops.rolling, line: most, band },
  }
}

const ROWS = 20

/** What the plots show, in rows. */
function Table({ sent, outcome, name }: { readonly sent: Sent; readonly outcome: Outcome; readonly name: string }) {
  const columns = outcome.admittedIn.length
  const each = columns / ROWS
  const rows = Array.from({ length: ROWS }, (_, row) => {
    const within = (list: readonly number[]) => list.slice(row * each, (row + 1) * each)
    return {
      until: time(((row + 1) * sent.lengthUs) / ROWS, sent.lengthUs),
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
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be in reach of the keyboard */}
      <section class="scrolls" tabIndex={0} aria-label={`${name} as a table`}>
        <table>
          <thead>
            <tr>
              {['until', 'admitted', 'refused', 'left', 'worst'].map((title) => (
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

function largest(numbers: readonly number[]): number {
  return numbers.reduce((most, number) => Math.max(most, number), 0)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
