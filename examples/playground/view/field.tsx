/** A form, generated from the description of its fields. */

import { type FieldLeaf, type FieldValues, limitsText, typedLimits } from '../model/fields.js'
import type { InputError } from '../model/input-error.js'
import { hasSteps, stepped } from '../model/steps.js'
import { focusLater } from './focus.js'

interface FormProps {
  /** A prefix for the ids of this form. */
  readonly id: string
  readonly leaves: readonly FieldLeaf[]
  readonly values: FieldValues
  readonly inputError?: InputError | undefined
  readonly onChange: (values: FieldValues) => void
}

/** The properties of a field's input. */
interface FieldProps {
  readonly id: string
  readonly leaf: FieldLeaf
  readonly value: string
  readonly describedBy: string | undefined
  readonly onInput: (text: string) => void
}

/** All fields. An error is shown directly below its field. */
export function Form({ id, leaves, values, inputError, onChange }: FormProps) {
  const errorId = `${id}-error`
  const isKnown = leaves.some(({ path }) => path === inputError?.path)
  return (
    <div class="form">
      {leaves.map((leaf) => {
        const hasError = inputError !== undefined && inputError.path === leaf.path
        const isWide = leaf.kind === 'lines' || leaf.kind === 'limits'
        return (
          <div key={leaf.path} class={`field${isWide ? ' wide' : ''}`}>
            <LabelledInput
              id={`${id}-${leaf.path}`}
              leaf={leaf}
              value={values[leaf.path] ?? ''}
              describedBy={hasError ? errorId : undefined}
              onInput={(text) => onChange({ ...values, [leaf.path]: text })}
            />
            {hasError && <ErrorMessage id={errorId} message={inputError.message} />}
          </div>
        )
      })}
      {inputError !== undefined && !isKnown && <ErrorMessage id={errorId} message={inputError.message} />}
    </div>
  )
}

function ErrorMessage({ id, message }: { readonly id: string; readonly message: string }) {
  return (
    <p id={id} class="error">
      {message}
    </p>
  )
}

function LabelledInput(props: FieldProps) {
  const { id, leaf, value, describedBy, onInput } = props
  if (leaf.kind === 'limits') {
    return <LimitsInput {...props} />
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
          {...errorAttributes(describedBy)}
          onInput={({ currentTarget }) => onInput(currentTarget.value)}
        />
      ) : (
        <TextInput id={id} leaf={leaf} value={value} describedBy={describedBy} onInput={onInput} />
      )}
    </>
  )
}

function TextInput({ id, leaf, value, describedBy, onInput }: FieldProps) {
  const step = (direction: 1 | -1) => onInput(stepped(leaf, value, direction))
  const input = (
    <input
      id={id}
      type="text"
      inputMode={leaf.kind === 'whole' || leaf.kind === 'number' ? 'decimal' : 'text'}
      autocomplete="off"
      autocapitalize="off"
      spellcheck={false}
      value={value}
      placeholder={leaf.hint ?? ''}
      {...errorAttributes(describedBy)}
      onInput={({ currentTarget }) => onInput(currentTarget.value)}
      onKeyDown={(event) => {
        const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key] as 1 | -1 | undefined
        if (direction !== undefined && hasSteps(leaf)) {
          event.preventDefault()
          step(direction)
        }
      }}
    />
  )
  if (!hasSteps(leaf)) {
    return input
  }
  // The arrow keys do the same, so the buttons are not in the order of focus.
  return (
    <div class="steps">
      {input}
      <button type="button" class="quiet" tabIndex={-1} aria-label={`${leaf.label}: less`} onClick={() => step(-1)}>
        −
      </button>
      <button type="button" class="quiet" tabIndex={-1} aria-label={`${leaf.label}: more`} onClick={() => step(1)}>
        +
      </button>
    </div>
  )
}

/** The attributes that report an error of the field to screen readers. */
function errorAttributes(describedBy: string | undefined) {
  return describedBy === undefined ? {} : { 'aria-invalid': true as const, 'aria-describedby': describedBy }
}

const PARTS = [
  ['name', 'Name'],
  ['limit', 'Limit'],
  ['window', 'Window'],
] as const

const MAX_LIMITS = 8

/** Limits by name: one row for each. */
function LimitsInput({ id, leaf, value, describedBy, onInput }: FieldProps) {
  const limits = typedLimits(value)
  const change = (index: number, part: 'name' | 'limit' | 'window', text: string) =>
    onInput(limitsText(limits.map((limit, other) => (other === index ? { ...limit, [part]: text } : limit))))
  return (
    <fieldset class="limits" {...(describedBy !== undefined && { 'aria-describedby': describedBy })}>
      <legend>{leaf.label}</legend>
      {limits.map((limit, index) => (
        // Rows are identified by their index, because their names are being edited.
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
            onClick={() => {
              onInput(limitsText(limits.filter((_, other) => other !== index)))
              focusLater(`${id}-${Math.max(0, Math.min(index, limits.length - 2))}-name`)
            }}
          >
            ×
          </button>
        </div>
      ))}
      {limits.length < MAX_LIMITS && (
        <button
          type="button"
          class="quiet"
          onClick={() => {
            onInput(limitsText([...limits, { name: 'hour', limit: '100', window: '1h' }]))
            focusLater(`${id}-${limits.length}-name`)
          }}
        >
          Add a limit
        </button>
      )}
    </fieldset>
  )
}
