import type { Decision } from '../../../api/decision.js'
import { type DecisionOrigin, withUnits } from '../../../api/decision-metadata.js'
import { TollgateError } from '../../../api/error.js'
import type { Keys } from '../../../input/keys.js'
import { decisionOf } from '../../decision-of.js'
import { multiLimitDecisionAt, operationResultAt, scheduledReservationAt, type UnitsShape } from '../../multi-policy.js'
import type { OperationResult, ScheduledReservation } from '../../operation.js'
import { FAILURE_CODES } from '../../protocol.js'
import { decisionAt, errorAt, RESPONSE_LENGTH, withMarks } from '../../response.js'
import type { Units } from '../../units.js'
import type { InFlightCounter } from './in-flight.js'

export interface FlushResponses {
  readonly numbers: Float64Array
  readonly texts: readonly string[]
}

export interface CallContext {
  readonly key: string | Keys
  /** The units that it takes. */
  readonly cost: Units
}

export interface ResponseDecoder<T> {
  readonly inFlight: InFlightCounter
  decodeAt(responses: FlushResponses, index: number, call: CallContext): T | TollgateError
}

export class TakeDecoder implements ResponseDecoder<Decision> {
  constructor(
    readonly inFlight: InFlightCounter,
    readonly names: readonly string[],
    readonly origin: DecisionOrigin,
  ) {}

  decodeAt(responses: FlushResponses, index: number, { key, cost }: CallContext): Decision | TollgateError {
    const start = index * RESPONSE_LENGTH
    const decision =
      this.#namedDecision(decisionAt(responses.numbers, start)) ??
      multiLimitDecisionAt(responses.numbers, start, this.names)
    return decision === undefined ? errorIn(responses, index) : withUnits(decision, this.origin, key, cost)
  }

  /** A decision on a single limit, under the limit's name if it has one. */
  #namedDecision(decision: Decision<'default'> | undefined): Decision | undefined {
    const name = this.names[0] as string
    if (decision === undefined || name === 'default') {
      return decision
    }
    const { status, policies, at, source, marks } = decision
    const numbers = policies.default
    const named = decisionOf(status, name, numbers, decision, { [name]: numbers }, at, source)
    return marks === undefined ? named : withMarks(named, { [name]: marks.default })
  }
}

export class OperationDecoder implements ResponseDecoder<OperationResult> {
  /** @param shape - As for {@link operationResultAt}. */
  constructor(
    readonly inFlight: InFlightCounter,
    readonly names: readonly string[],
    readonly shape?: UnitsShape,
  ) {}

  decodeAt(responses: FlushResponses, index: number): OperationResult | TollgateError {
    const start = index * RESPONSE_LENGTH
    return operationResultAt(responses.numbers, start, this.names, this.shape) ?? errorIn(responses, index)
  }
}

export class ScheduledReservationDecoder implements ResponseDecoder<ScheduledReservation> {
  /** @param policies - The number of policies. */
  constructor(
    readonly inFlight: InFlightCounter,
    readonly names: readonly string[],
    readonly policies: number,
  ) {}

  decodeAt(responses: FlushResponses, index: number): ScheduledReservation | TollgateError {
    const start = index * RESPONSE_LENGTH
    return scheduledReservationAt(responses.numbers, start, this.names, this.policies) ?? errorIn(responses, index)
  }
}

export function errorIn({ numbers, texts }: FlushResponses, index: number): TollgateError {
  const start = index * RESPONSE_LENGTH
  const text = texts[numbers[start + 1] as number] ?? ''
  switch (numbers[start]) {
    case FAILURE_CODES.unavailable:
      return new TollgateError('STORE_UNAVAILABLE', text)
    case FAILURE_CODES.broken:
      return new TollgateError('STORE_UNAVAILABLE', text, { charged: 'unknown' })
    case FAILURE_CODES.timedOut:
      return new TollgateError('STORE_TIMEOUT', text, { charged: 'unknown' })
    case FAILURE_CODES.refused:
      return new TollgateError('STORE_ERROR', text)
    case FAILURE_CODES.closed:
      return new TollgateError('CLOSED', text)
    case FAILURE_CODES.malformed:
      return new TollgateError('STORE_ERROR', text, { charged: 'unknown' })
    default:
      return errorAt(numbers, start, undefined)
  }
}
