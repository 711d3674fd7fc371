/** Three questions that lead to an algorithm. */
import { useState } from 'preact/hooks'
import { type ChooserAnswers, QUESTION_NAMES, QUESTIONS, recommend } from '../model/chooser.js'
import { switchedPolicy, type TypedPolicy } from '../model/state.js'
import { docsLink } from './docs.js'

interface ChooserProps {
  /** The policy whose place the recommended one takes. */
  readonly current: TypedPolicy
  readonly onChoose: (policy: TypedPolicy) => void
}

/** Asks three questions, names an algorithm, and puts it in the place of the first policy. */
export function Chooser({ current, onChoose }: ChooserProps) {
  const [answers, setAnswers] = useState<ChooserAnswers>({ calendar: false, hard: false, bursts: true })
  const { algorithm, values, reason } = recommend(answers)
  const { burst } = values
  const link = docsLink(`algorithms#${algorithm}`)
  return (
    <details class="chooser">
      <summary>Which algorithm? Three questions</summary>
      <div>
        {QUESTION_NAMES.map((name) => (
          <fieldset key={name}>
            <legend>{QUESTIONS[name]}</legend>
            {[true, false].map((answer) => (
              <label key={String(answer)}>
                <input
                  type="radio"
                  name={`question-${name}`}
                  checked={answers[name] === answer}
                  onChange={() => setAnswers({ ...answers, [name]: answer })}
                />{' '}
                {answer ? 'Yes' : 'No'}
              </label>
            ))}
          </fieldset>
        ))}
        <p class="recommendation" role="status">
          <b>{algorithm}</b>
          {burst !== undefined && ` with burst ${burst}`}. {reason}{' '}
          {link !== undefined && <a href={link}>More about {algorithm}</a>}
        </p>
        <button
          type="button"
          onClick={() => {
            const kept = switchedPolicy(current, algorithm)
            onChoose({ ...kept, values: { ...kept.values, ...values } })
          }}
        >
          Use it as policy 1
        </button>
      </div>
    </details>
  )
}
