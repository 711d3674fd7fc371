import { type Attributes, type Counter, type Histogram, type Meter, metrics } from '@opentelemetry/api'
import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import { invalid, nameOf, optionsOf } from '../input/options.js'

/** The options of `instrument`, `instrumentStore` and `instrumentClient`. */
export interface InstrumentOptions {
  /**
   * The value of the attribute `tollgate.limiter`, `tollgate.store` or `tollgate.client`: up to 32 letters, digits,
   * `_`, `.` and `-`, starting with a letter. Metrics with the same name are added up.
   */
  readonly name: string
  /**
   * Creates the instruments. Default: the meter `tollgate` of the global `MeterProvider`. Set that provider first:
   * until then, the meter of OpenTelemetry does nothing.
   */
  readonly meter?: Meter
}

/** The names of attributes. No attribute holds a key. */
export const ATTRIBUTES = {
  limiter: 'tollgate.limiter',
  policy: 'tollgate.policy',
  status: 'tollgate.status',
  source: 'tollgate.source',
  meter: 'tollgate.meter',
  store: 'tollgate.store',
  storeKind: 'tollgate.store.kind',
  client: 'tollgate.client',
  success: 'tollgate.success',
  error: 'error.type',
  httpStatus: 'http.response.status_code',
} as const

/** The `error.type` of errors without a code of tollgate, as OpenTelemetry defines it. */
const OTHER = '_OTHER'

/**
 * The bounds of the duration buckets, in seconds. The embedded store takes microseconds, Redis 0.2 ms or more. A call
 * ends after at most `commandTimeout`, 1 s by default.
 */
const BOUNDARIES = [
  0.000005, 0.00001, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
]

/** @param where - The function whose options they are, for messages. */
export function optionsFor(where: string, value: unknown): { readonly name: string; readonly meter: Meter } {
  const { name, meter = metrics.getMeter('tollgate') } = optionsOf('INVALID_OPTION', where, value, ['name', 'meter'])
  if (typeof meter !== 'object' || meter === null || !('createCounter' in meter)) {
    throw invalid('INVALID_OPTION', 'meter', 'must be a Meter of @opentelemetry/api', meter)
  }
  return { name: nameOf('name', name), meter: meter as Meter }
}

/** Records the results of one limiter's calls. */
export class CallRecorder {
  readonly #name: string
  readonly #decisions: Counter
  readonly #errors: Counter
  readonly #duration: Histogram
  readonly #units: Counter
  /** The attributes of decisions by source, status and policy. A lookup is faster than a new object. */
  readonly #attributes = new Map<string, Attributes>()

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
    this.#units = meter.createCounter('tollgate.units', {
      description: 'Units of admitted calls, by meter.',
      unit: '{unit}',
    })
    this.#duration = meter.createHistogram('tollgate.decision.duration', {
      description: 'How long callers waited for a decision or a failure.',
      unit: 's',
      advice: { explicitBucketBoundaries: BOUNDARIES },
    })
  }

  /** @param millis - The duration; `undefined` if it is not recorded. */
  recordDecision(decision: Decision, millis: number | undefined): void {
    const attributes = this.#attributesOf(decision)
    this.#decisions.add(1, attributes)
    if (millis !== undefined) {
      this.#duration.record(millis / 1_000, attributes)
    }
  }

  /** @param of - What the units are. */
  recordUnits(of: string, units: number): void {
    this.#units.add(units, { [ATTRIBUTES.limiter]: this.#name, [ATTRIBUTES.meter]: of })
  }

  recordError(error: unknown, millis: number | undefined): void {
    const type = TollgateError.is(error) ? error.code : OTHER
    const attributes = { [ATTRIBUTES.limiter]: this.#name, [ATTRIBUTES.error]: type }
    this.#errors.add(1, attributes)
    if (millis !== undefined) {
      this.#duration.record(millis / 1_000, attributes)
    }
  }

  #attributesOf({ source, status, policy }: Decision): Attributes {
    const name = `${source} ${status} ${policy}`
    let attributes = this.#attributes.get(name)
    if (attributes === undefined) {
      attributes = {
        [ATTRIBUTES.limiter]: this.#name,
        [ATTRIBUTES.policy]: policy,
        [ATTRIBUTES.status]: status,
        [ATTRIBUTES.source]: source,
      }
      this.#attributes.set(name, attributes)
    }
    return attributes
  }
}
