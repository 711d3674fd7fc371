/** The form of the traffic. */
import type { InputError } from '../model/input-error.js'
import type { TrafficSummary } from '../model/messages.js'
import { switchedTraffic, type TypedTraffic } from '../model/state.js'
import { SHAPE_NAMES, SHAPES } from '../model/traffic.js'
import { counted, span } from '../model/words.js'
import { Form } from './field.js'

interface TrafficPanelProps {
  readonly traffic: TypedTraffic
  readonly summary: TrafficSummary | undefined
  readonly inputError: InputError | undefined
  /** Whether the address contains the whole state. */
  readonly fits: boolean
  readonly onChange: (traffic: TypedTraffic) => void
  readonly onWatch: (key: string) => void
}

/** The shape of the traffic, its numbers, and the watched key. */
export function TrafficPanel({ traffic, summary, inputError, fits, onChange, onWatch }: TrafficPanelProps) {
  const { description, leaves } = SHAPES[traffic.shape]
  return (
    <section class="traffic" aria-labelledby="traffic-title">
      <header>
        <h2 id="traffic-title">Traffic</h2>
        <fieldset class="shapes">
          <legend class="hidden">Shape of the traffic</legend>
          {SHAPE_NAMES.map((name) => (
            <label key={name}>
              <input
                type="radio"
                name="shape"
                value={name}
                checked={name === traffic.shape}
                onChange={() => onChange(switchedTraffic(traffic, name))}
              />
              <span>{SHAPES[name].title}</span>
            </label>
          ))}
        </fieldset>
      </header>
      <p class="description">{description}</p>
      <Form
        id="traffic"
        leaves={leaves}
        values={traffic.values}
        inputError={inputError}
        onChange={(values) => onChange({ shape: traffic.shape, values })}
      />
      {!fits && <p class="note">The list of times is too long for a link: this page’s address omits it.</p>}
      {summary !== undefined && (
        <div class="sent">
          <p>
            {counted(summary.calls, 'call')} in {span(summary.lengthUs)}, from{' '}
            {new Date(summary.startMs).toISOString().replace('T', ' ').slice(0, 19)} UTC
          </p>
          {summary.keyCount > 1 && (
            <label>
              Key to plot:{' '}
              <select value={summary.watched} onChange={({ currentTarget }) => onWatch(currentTarget.value)}>
                {[...new Set([...summary.keys.map(({ key }) => key), summary.watched])].map((key) => (
                  <option key={key}>{key}</option>
                ))}
              </select>
            </label>
          )}
        </div>
      )}
    </section>
  )
}
