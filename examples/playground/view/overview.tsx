/** The comparison of all policies: numbers, verdicts, and one plot. */
import { useMemo } from 'preact/hooks'
import type { PolicyResult, TrafficSummary } from '../model/messages.js'
import type { RunResult } from '../model/run.js'
import type { TypedPolicy } from '../model/state.js'
import { equalsOf, excessOf, verdictOf } from '../model/verdict.js'
import { count, span, time } from '../model/words.js'
import { Chart } from './chart.js'
import type { Plot } from './plots.js'
import { largest } from './results.js'

interface OverviewProps {
  readonly policies: readonly TypedPolicy[]
  readonly summary: TrafficSummary | undefined
  readonly results: readonly PolicyResult[]
  /** Whether an error makes the numbers those of an earlier input. */
  readonly isStale: boolean
  /** Adds a burst to the traffic, at a time in microseconds or where none is yet. */
  readonly onBurst: ((atUs?: number) => void) | undefined
}

const PLOT_HEIGHT = 212

/** The results of all policies, before all forms. */
export function Overview({ policies, summary, results, isStale, onBurst }: OverviewProps) {
  const outcomes = policies.map((_, index) => outcomeOf(results[index]))
  return (
    <section class={`overview${isStale ? ' stale' : ''}`} aria-labelledby="results-title">
      <h2 id="results-title" class="hidden">
        Results
      </h2>
      {summary !== undefined && (
        <>
          <div class="numbers">
            <Comparison policies={policies} outcomes={outcomes} />
            <Verdicts policies={policies} outcomes={outcomes} />
          </div>
          <div class="compared">
            <ComparedPlot policies={policies} summary={summary} outcomes={outcomes} onBurst={onBurst} />
            {onBurst !== undefined && (
              <p class="burst">
                <button type="button" onClick={() => onBurst()}>
                  Send a burst
                </button>{' '}
                <span class="law-note">or click the plot where it should come</span>
              </p>
            )}
          </div>
          {summary.keyCount > 1 && <Keys policies={policies} summary={summary} outcomes={outcomes} />}
        </>
      )}
    </section>
  )
}

type Outcomes = readonly (RunResult | undefined)[]

function outcomeOf(result: PolicyResult | undefined): RunResult | undefined {
  return result !== undefined && 'outcome' in result ? result.outcome : undefined
}

/** The name of a policy; with its position if another one has the same algorithm. */
export function nameOf(policies: readonly TypedPolicy[], index: number): string {
  const name = policies[index]?.algorithm ?? ''
  const isUnique = policies.filter(({ algorithm }) => algorithm === name).length === 1
  return isUnique ? name : `${index + 1}: ${name}`
}

function Comparison({
  policies,
  outcomes,
}: {
  readonly policies: readonly TypedPolicy[]
  readonly outcomes: Outcomes
}) {
  return (
    <table class="comparison">
      <thead>
        <tr>
          <th scope="col">Policy</th>
          <th scope="col">
            <i class="swatch admitted" aria-hidden="true" /> admitted
          </th>
          <th scope="col">
            <i class="swatch refused" aria-hidden="true" /> refused
          </th>
          <th scope="col">most at a time</th>
        </tr>
      </thead>
      <tbody>
        {outcomes.map((outcome, index) => (
          <tr key={index} data-result={index}>
            <th scope="row">
              <i class={`line line-${index + 1}`} aria-hidden="true" />{' '}
              <a href={`#policy-${index}-form`}>{nameOf(policies, index)}</a>
            </th>
            <td data-count="admitted">{outcome === undefined ? '–' : count(outcome.admitted)}</td>
            <td data-count="refused">{outcome === undefined ? '–' : count(outcome.refused)}</td>
            <td>{outcome === undefined ? '–' : <Most outcome={outcome} />}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** `39 of 20`: the most units in a span, and the units that the policy's numbers say. */
function Most({ outcome }: { readonly outcome: RunResult }) {
  const [law] = outcome.laws.toSorted((one, other) => excessOf(other) - excessOf(one))
  if (law === undefined) {
    return null
  }
  const isMore = law.worst.units > law.asked
  return (
    <>
      <b class={isMore ? 'more' : ''}>{count(law.worst.units)}</b> of {count(law.asked)}{' '}
      <span class="law-note">in {span(law.spanUs)}</span>
    </>
  )
}

function Verdicts({ policies, outcomes }: { readonly policies: readonly TypedPolicy[]; readonly outcomes: Outcomes }) {
  const equal = equalsOf(outcomes.map((outcome) => outcome?.decisions))
  return (
    <ul class="verdicts">
      {outcomes.map((outcome, index) => {
        const verdict = outcome === undefined ? undefined : verdictOf(outcome.laws)
        return (
          verdict?.isMore === true && (
            <li key={index} class="more" data-verdict={index}>
              {nameOf(policies, index)}: {verdict.sentence}
            </li>
          )
        )
      })}
      {equal.map((group) => (
        <li key={group.join()} data-equal>
          {list(group.map((index) => nameOf(policies, index)))} decided every call alike.
        </li>
      ))}
    </ul>
  )
}

function list(names: readonly string[]): string {
  return new Intl.ListFormat('en', { type: 'conjunction' }).format(names)
}

interface ComparedPlotProps {
  readonly policies: readonly TypedPolicy[]
  readonly summary: TrafficSummary
  readonly outcomes: Outcomes
  readonly onBurst: ((atUs: number) => void) | undefined
}

function ComparedPlot({ policies, summary, outcomes, onBurst }: ComparedPlotProps) {
  const { lengthUs, comparedUs, watched, keyCount } = summary
  const plot = useMemo((): Plot => {
    const shown = outcomes.map((outcome) => outcome?.compared ?? [])
    const columns = Math.max(1, ...shown.map(({ length }) => length))
    const series = shown.map((values) => (values.length === 0 ? new Array<number>(columns).fill(0) : values))
    const laws = outcomes.flatMap((outcome) => outcome?.laws ?? [])
    const lines = [...new Set(laws.filter(({ spanUs }) => spanUs === comparedUs).map(({ asked }) => asked))]
    return { kind: 'compared', lengthUs, series, lines, top: largest([...series.flat(), ...lines]) }
  }, [lengthUs, comparedUs, ...outcomes])
  const { series, lines = [] } = plot
  const widthUs = lengthUs / (series[0]?.length ?? 1)
  const most = series.map((values, index) => `${nameOf(policies, index)} at most ${count(largest(values))}`)
  return (
    <Chart
      title={`Admitted in the last ${span(comparedUs)}${keyCount > 1 ? `, ${watched}` : ''}`}
      plot={plot}
      height={PLOT_HEIGHT}
      bound={`as typed: ${lines.map(count).join(', ')}`}
      description={`Admitted in the last ${span(comparedUs)}: ${list(most)}; typed: ${lines.map(count).join(', ')}`}
      read={(column) =>
        `${time((column + 1) * widthUs, lengthUs)}: ${series
          .map((values, index) => `${nameOf(policies, index)} ${count(values[column] ?? 0)}`)
          .join(', ')}`
      }
      {...(onBurst !== undefined && { onPick: onBurst })}
    />
  )
}

/** The rows of the table of keys. */
const MAX_ROWS = 6

interface KeysProps {
  readonly policies: readonly TypedPolicy[]
  readonly summary: TrafficSummary
  readonly outcomes: Outcomes
}

/** The calls of each client, and the calls that each policy admitted. */
function Keys({ policies, summary, outcomes }: KeysProps) {
  const { keys, keyCount } = summary
  const rows = keys.slice(0, MAX_ROWS)
  return (
    <div class="keys">
      <table class="comparison">
        <caption class="hidden">Admitted calls of each client</caption>
        <thead>
          <tr>
            <th scope="col">Client</th>
            <th scope="col">calls</th>
            {policies.map((_, index) => (
              <th key={index} scope="col">
                <i class={`line line-${index + 1}`} aria-hidden="true" /> {nameOf(policies, index)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, calls }) => (
            <tr key={key} data-key={key}>
              <th scope="row">{key}</th>
              <td>{count(calls)}</td>
              {outcomes.map((outcome, index) => (
                <td key={index}>{outcome === undefined ? '–' : count(outcome.admittedOf.get(key) ?? 0)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {keyCount > rows.length && <p class="law-note">and {count(keyCount - rows.length)} more clients</p>}
    </div>
  )
}
