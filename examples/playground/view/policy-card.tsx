/** The card of one policy. */
import { useRef } from 'preact/hooks'
import { ALGORITHM_NAMES, ALGORITHMS, functionOf, isAlgorithm } from '../model/algorithms.js'
import { codeOf } from '../model/code.js'
import type { PolicyResult, TrafficSummary } from '../model/messages.js'
import type { RunResult } from '../model/run.js'
import { switchedPolicy, type TypedPolicy } from '../model/state.js'
import { Code } from './code.js'
import { docsLink } from './docs.js'
import { Form } from './field.js'
import { Results, type ScaleMaxima } from './results.js'

interface PolicyCardProps {
  readonly index: number
  readonly policy: TypedPolicy
  readonly summary: TrafficSummary | undefined
  readonly result: PolicyResult | undefined
  readonly tops: ScaleMaxima
  /** Whether an error in the traffic makes the results those of an earlier input. */
  readonly isStale: boolean
  readonly onChange: (policy: TypedPolicy) => void
  /** Missing for the last policy. */
  readonly onRemove: (() => void) | undefined
}

/** A policy's form, its results, and its code. */
export function PolicyCard(props: PolicyCardProps) {
  const { index, policy, summary, result, tops, isStale, onChange, onRemove } = props
  const { algorithm, values } = policy
  const { description, law, leaves } = ALGORITHMS[algorithm]
  const id = `policy-${index}`
  const inputError = result !== undefined && 'inputError' in result ? result.inputError : undefined
  // After an error the last results of the same algorithm stay visible, so that the page does not
  // jump while the user types.
  const last = useRef<{ readonly algorithm: string; readonly outcome: RunResult }>(undefined)
  if (result !== undefined && 'outcome' in result) {
    last.current = { algorithm, outcome: result.outcome }
  }
  const outcome = last.current?.algorithm === algorithm ? last.current.outcome : undefined
  const link = docsLink(`algorithms#${functionOf(algorithm)}`)
  return (
    <section class="card" id={`${id}-form`} aria-labelledby={`${id}-title`} data-policy={index}>
      <header>
        <h3 id={`${id}-title`} class="hidden">
          Policy {index + 1}: {algorithm}
        </h3>
        <i class={`line line-${index + 1}`} aria-hidden="true" />
        <select
          id={`${id}-algorithm`}
          class="algorithm"
          aria-label={`Algorithm of policy ${index + 1}`}
          value={algorithm}
          onChange={({ currentTarget: { value } }) => {
            if (isAlgorithm(value)) {
              onChange(switchedPolicy(policy, value))
            }
          }}
        >
          {ALGORITHM_NAMES.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        {onRemove !== undefined && (
          <button
            type="button"
            class="quiet"
            aria-label={`Remove policy ${index + 1}: ${algorithm}`}
            onClick={onRemove}
          >
            Remove
          </button>
        )}
      </header>
      <p class="description">
        {description} {link !== undefined && <a href={link}>More about {algorithm}</a>}
      </p>
      <Form
        id={id}
        leaves={leaves}
        values={values}
        inputError={inputError}
        onChange={(next) => onChange({ algorithm, values: next })}
      />
      <div class={isStale || inputError !== undefined ? 'results stale' : 'results'}>
        {summary !== undefined && outcome !== undefined && (
          <Results name={algorithm} summary={summary} outcome={outcome} tops={tops}>
            <p class="formula">
              <b>The law:</b> at most {law}.
            </p>
            <Code code={codeOf(policy, summary.first)} name={`policy ${index + 1}`} />
          </Results>
        )}
      </div>
    </section>
  )
}
