/** One of the policies side by side. */
import { useRef } from 'preact/hooks'
import { ALGORITHM_NAMES, ALGORITHMS, isAlgorithm } from '../model/algorithms.js'
import { codeOf } from '../model/code.js'
import type { Judged, Sent } from '../model/messages.js'
import type { Outcome } from '../model/run.js'
import { policyOf, type TypedPolicy } from '../model/state.js'
import { Code } from './code.js'
import { Form } from './field.js'
import { Results, type Tops } from './results.js'

interface PolicyCardProps {
  readonly index: number
  readonly policy: TypedPolicy
  readonly sent: Sent | undefined
  readonly judged: Judged | undefined
  readonly tops: Tops
  /** What calls cost, for the code. */
  readonly cost: number
  readonly onChange: (policy: TypedPolicy) => void
  /** Not there for the last policy. */
  readonly onRemove: (() => void) | undefined
}

/** A policy's form, what became of the traffic, and its code. */
export function PolicyCard(props: PolicyCardProps) {
  const { index, policy, sent, judged, tops, cost, onChange, onRemove } = props
  const { algorithm, values } = policy
  const { says, law, leaves } = ALGORITHMS[algorithm]
  const id = `policy-${index}`
  const complaint = judged !== undefined && 'complaint' in judged ? judged.complaint : undefined
  // While something is wrong its place is kept: the page does not jump at each key.
  const last = useRef<Outcome>(undefined)
  if (judged !== undefined && 'outcome' in judged) {
    last.current = judged.outcome
  }
  return (
    <section class="card" aria-labelledby={`${id}-title`} data-policy={index}>
      <header>
        <h3 id={`${id}-title`} class="hidden">
          Policy {index + 1}: {algorithm}
        </h3>
        <select
          class="algorithm"
          aria-label={`Algorithm of policy ${index + 1}`}
          value={algorithm}
          onChange={({ currentTarget: { value } }) => {
            if (isAlgorithm(value)) {
              // Numbers of the same names go along.
              onChange(policyOf(value, values))
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
      <p class="says">{says}</p>
      <Form
        id={id}
        leaves={leaves}
        values={values}
        complaint={complaint}
        onChange={(next) => onChange({ algorithm, values: next })}
      />
      <div class={complaint === undefined ? 'results' : 'results stale'}>
        {sent !== undefined && last.current !== undefined && (
          <Results name={algorithm} sent={sent} outcome={last.current} tops={tops}>
            <p class="formula">
              <b>The law:</b> at most {law}.
            </p>
            <Code code={codeOf(policy, cost)} name={`policy ${index + 1}`} />
          </Results>
        )}
      </div>
    </section>
  )
}
