/** The form of the traffic. */
import type { Complaint, Sent } from '../model/messages.js'
import { type TypedTraffic, trafficOf } from '../model/state.js'
import { SHAPE_NAMES, SHAPES } from '../model/traffic.js'
import { Form } from './field.js'
import { counted, span } from './words.js'

interface TrafficPanelProps {
  readonly traffic: TypedTraffic
  readonly sent: Sent | undefined
  readonly complaint: Complaint | undefined
  /** Whether the address tells all of it. */
  readonly fits: boolean
  readonly onChange: (traffic: TypedTraffic) => void
  readonly onWatch: (key: string) => void
}

/** The shape of the traffic, its numbers, and whose level is watched. */
export function TrafficPanel({ traffic, sent, complaint, fits, onChange, onWatch }: TrafficPanelProps) {
  const { says, leaves } = SHAPES[traffic.shape]
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
                onChange={() => onChange(trafficOf(name, traffic.values))}
              />
              <span>{SHAPES[name].title}</span>
            </label>
          ))}
        </fieldset>
      </header>
      <p class="says">{says}</p>
      <Form
        id="traffic"
        leaves={leaves}
        values={traffic.values}
        complaint={complaint}
        onChange={(values) => onChange({ shape: traffic.shape, values })}
      />
      {!fits && <p class="note">So many times do not fit into a link: this page’s address leaves them out.</p>}
      {sent !== undefined && (
        <div class="sent">
          <p>
            {counted(sent.calls, 'call')} in {span(sent.lengthUs)}, from{' '}
            {new Date(sent.startMs).toISOString().replace('T', ' ').slice(0, 19)} UTC
          </p>
          {sent.keys.length > 1 && (
            <label>
              Whose level:{' '}
              <select value={sent.watched} onChange={({ currentTarget }) => onWatch(currentTarget.value)}>
                {[...new Set([...sent.keys, sent.watched])].map((key) => (
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
