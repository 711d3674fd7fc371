/** A form, made of the description of its fields. */

import { type Leaf, limitsText, typedLimits, type Values } from '../model/fields.js'
import type { Complaint } from '../model/messages.js'

interface FormProps {
  /** Sets the ids of this form apart. */
  readonly id: string
  readonly leaves: readonly Leaf[]
  readonly values: Values
  readonly complaint?: Complaint | undefined
  readonly onChange: (values: Values) => void
}

/** What a field needs to know besides what it is. */
interface FieldProps {
  readonly id: string
  readonly leaf: Leaf
  readonly value: string
  readonly describedBy: string | undefined
  readonly onInput: (text: string) => void
}

/** All fields, and what is wrong with one of them right below it. */
export function Form({ id, leaves, values, complaint, onChange }: FormProps) {
  const errorId = `${id}-error`
  const isKnown = leaves.some(({ path }) => path === complaint?.path)
  return (
    <div class="form">
      {leaves.map((leaf) => {
        const isWrong = complaint !== undefined && complaint.path === leaf.path
        const isWide = leaf.kind === 'lines' || leaf.kind === 'limits'
        return (
          <div key={leaf.path} class={`field${isWide ? ' wide' : ''}`}>
            <Labelled
              id={`${id}-${leaf.path}`}
              leaf={leaf}
              value={values[leaf.path] ?? ''}
              describedBy={isWrong ? errorId : undefined}
              onInput={(text) => onChange({ ...values, [leaf.path]: text })}
            />
            {isWrong && <Wrong id={errorId} message={complaint.message} />}
          </div>
        )
      })}
      {complaint !== undefined && !isKnown && <Wrong id={errorId} message={complaint.message} />}
    </div>
  )
}

function Wrong({ id, message }: { readonly id: string; readonly message: string }) {
  return (
    <p id={id} class="wrong">
      {message}
    </p>
  )
}

function Labelled(props: FieldProps) {
  const { id, leaf, value, describedBy, onInput } = props
  if (leaf.kind === 'limits') {
    return <Limits {...props} />
  }
  if (leaf.kind === 'flag') {
    return (
      <label class="flag">
        <input
          id={id}
          type="checkbox"
          checked={value === 'true'}
          onChange={({ currentTarget }) => onInput(currentTarget.checked ? 'true' : '')}
        />
        {leaf.label}
      </label>
    )
  }
  return (
    <>
      <label for={id}>{leaf.label}</label>
      {leaf.kind === 'choice' ? (
        <select id={id} value={value} onChange={({ currentTarget }) => onInput(currentTarget.value)}>
          {leaf.choices?.map((choice) => (
            <option key={choice}>{choice}</option>
          ))}
        </select>
      ) : leaf.kind === 'lines' ? (
        <textarea
          id={id}
          rows={7}
          spellcheck={false}
          value={value}
          {...marks(describedBy)}
          onInput={({ currentTarget }) => onInput(currentTarget.value)}
        />
      ) : (
        <Text id={id} leaf={leaf} value={value} describedBy={describedBy} onInput={onInput} />
      )}
    </>
  )
}

function Text({ id, leaf, value, describedBy, onInput }: FieldProps) {
  return (
    <input
      id={id}
      type="text"
      inputMode={leaf.kind === 'whole' || leaf.kind === 'number' ? 'decimal' : 'text'}
      autocomplete="off"
      autocapitalize="off"
      spellcheck={false}
      value={value}
      placeholder={leaf.hint ?? ''}
      {...marks(describedBy)}
      onInput={({ currentTarget }) => onInput(currentTarget.value)}
    />
  )
}

/** For those who do not see it: that a field is wrong, and why. */
function marks(describedBy: string | undefined) {
  return describedBy === undefined ? {} : { 'aria-invalid': true as const, 'aria-describedby': describedBy }
}

const PARTS = [
  ['name', 'Name'],
  ['limit', 'Limit'],
  ['window', 'Window'],
] as const

const MOST_LIMITS = 8

/** Limits by name: a row for each. */
function Limits({ id, leaf, value, describedBy, onInput }: FieldProps) {
  const limits = typedLimits(value)
  const change = (index: number, part: 'name' | 'limit' | 'window', text: string) =>
    onInput(limitsText(limits.map((limit, other) => (other === index ? { ...limit, [part]: text } : limit))))
  return (
    <fieldset class="limits" {...(describedBy !== undefined && { 'aria-describedby': describedBy })}>
      <legend>{leaf.label}</legend>
      {limits.map((limit, index) => (
        // Rows have no name but their place: the name in them is being typed.
        <div class="limit" key={index}>
          {PARTS.map(([part, label]) => (
            <input
              key={part}
              id={`${id}-${index}-${part}`}
              type="text"
              aria-label={`${label} ${index + 1}`}
              placeholder={label}
              autocomplete="off"
              spellcheck={false}
              value={limit[part]}
              onInput={({ currentTarget }) => change(index, part, currentTarget.value)}
            />
          ))}
          <button
            type="button"
            class="quiet"
            aria-label={`Remove limit ${index + 1}`}
            disabled={limits.length === 1}
            onClick={() => onInput(limitsText(limits.filter((_, other) => other !== index)))}
          >
            ×
          </button>
        </div>
      ))}
      {limits.length < MOST_LIMITS && (
        <button
          type="button"
          class="quiet"
          onClick={() => onInput(limitsText([...limits, { name: 'hour', limit: '100', window: '1h' }]))}
        >
          Add a limit
        </button>
      )}
    </fieldset>
  )
}
