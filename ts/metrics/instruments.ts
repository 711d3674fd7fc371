import { type Attributes, type Counter, type Histogram, type Meter, metrics } from '@opentelemetry/api'
import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import { invalid, nameOf, optionsOf } from '../input/options.js'

/** How metrics are to be made. */
export interface InstrumentOptions {
  /**
   * What tells this limiter's or this store's numbers from those of others, as `tollgate.limiter` or
   * `tollgate.store`. Letters, digits, `_`, `.` and `-`, up to 32, starting with a letter. Those of one name add up.
   */
  readonly name: string
  /**
   * Where the instruments are made. Default: the meter `tollgate` of the global `MeterProvider`, which must have been set
   * before: OpenTelemetry gives a meter that does nothing until then.
   */
  readonly meter?: Meter
}

/** The names of attributes; `error.type` is OpenTelemetry's own. None ever holds a key. */
export const ATTRIBUTES = {
  limiter: 'tollgate.limiter',
  policy: 'tollgate.policy',
  status: 'tollgate.status',
  source: 'tollgate.source',
  store: 'tollgate.store',
  error: 'error.type',
} as const

/** What errors are that have no code of ours: so OpenTelemetry calls them. */
const OTHER = '_OTHER'

/**
 * The buckets of durations, in seconds. The embedded store takes microseconds, Redis from a fifth of a millisecond
 * on; a call ends with its `commandTimeoutMs`, which is 1 s by default.
 */
const BOUNDARIES = [
  0.000005, 0.00001, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
]

/**
 * Takes a value as {@link InstrumentOptions}.
 *
 * @param where - Whose options they are, for the message.
 */
export function optionsFor(where: string, value: unknown): { readonly name: string; readonly meter: Meter } {
  const { name, meter = metrics.getMeter('tollgate') } = optionsOf('INVALID_OPTION', where, value, ['name', 'meter'])
  if (typeof meter !== 'object' || meter === null || !('createCounter' in meter)) {
    throw invalid('INVALID_OPTION', 'meter', 'must be a Meter of @opentelemetry/api', meter)
  }
  return { name: nameOf('name', name), meter: meter as Meter }
}

/** Records what becomes of one limiter's calls. */
export class Recorder {
  readonly #name: string
  readonly #decisions: Counter
  readonly #errors: Counter
  readonly #duration: Histogram
  /** The attributes of decisions by source, status and policy: there are few, and making them takes longer. */
  readonly #attributes = new Map<string, Map<string, Map<string, Attributes>>>()

  constructor(name: string, meter: Meter) {
    this.#name = name
    this.#decisions = meter.createCounter('tollgate.decisions', {
      description: 'Decisions on calls that take units.',
      unit: '{decision}',
    })
    this.#errors = meter.createCounter('tollgate.errors', {
      description: 'Calls that take units and failed, so that there was no decision.',
      unit: '{error}',
    })
    this.#duration = meter.createHistogram('tollgate.decision.duration', {
      description: 'How long callers waited for a decision or a failure.',
      unit: 's',
      advice: { explicitBucketBoundaries: BOUNDARIES },
    })
  }

  /** @param millis - How long it took; `undefined` if that tells nothing. */
  decided(decision: Decision, millis: number | undefined): void {
    const attributes = this.#attributesOf(decision)
    this.#decisions.add(1, attributes)
    if (millis !== undefined) {
      this.#duration.record(millis / 1_000, attributes)
    }
  }

  /** @param millis - How long it took; `undefined` if that tells nothing. */
  failed(error: unknown, millis: number | undefined): void {
    const type = TollgateError.is(error) ? error.code : OTHER
    const attributes = { [ATTRIBUTES.limiter]: this.#name, [ATTRIBUTES.error]: type }
    this.#errors.add(1, attributes)
    if (millis !== undefined) {
      this.#duration.record(millis / 1_000, attributes)
    }
  }

  #attributesOf({ source, status, policy }: Decision): Attributes {
    const bySource = within(this.#attributes, source, () => new Map<string, Map<string, Attributes>>())
    const byStatus = within(bySource, status, () => new Map<string, Attributes>())
    return within(byStatus, policy, () => ({
      [ATTRIBUTES.limiter]: this.#name,
      [ATTRIBUTES.policy]: policy,
      [ATTRIBUTES.status]: status,
      [ATTRIBUTES.source]: source,
    }))
  }
}

/** What a map has for a key; made if there is nothing yet. */
function within<T>(map: Map<string, T>, key: string, make: () => T): T {
  const known = map.get(key)
  if (known !== undefined) {
    return known
  }
  const made = make()
  map.set(key, made)
  return made
}
