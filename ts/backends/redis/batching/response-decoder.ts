import type { Decision } from '../../../api/decision.js'
import { stamped } from '../../../api/decision-metadata.js'
import { TollgateError } from '../../../api/error.js'
import type { Keys } from '../../../input/keys.js'
import { bookingAt, performedAt, severalAt } from '../../multi-policy.js'
import type { Booking, Performed } from '../../operation.js'
import { ANSWER_LENGTH, decisionAt, failureAt } from '../../response.js'
import type { Pending } from './in-flight.js'

/** What the native store answers to a batch. */
export interface RedisAnswers {
  readonly answers: Float64Array
  readonly texts: readonly string[]
}

/** What is remembered of a call until it is answered. */
export interface Asked {
  readonly key: string | Keys
  /** The units that it is to take. */
  readonly cost: number
}

/** A limiter, as one whose calls are answered; there is one for each kind of answer. */
export interface Asker<T> {
  /** Its calls that wait to be sent or to be answered. */
  readonly pending: Pending
  /** The result or the error that stands at `index`. */
  resultAt(answers: RedisAnswers, index: number, asked: Asked): T | TollgateError
}

/** A limiter, as one whose calls take units. */
export class TakeAsker implements Asker<Decision> {
  /**
   * @param names - The names of the limits that decisions tell of.
   * @param origin - What decisions are stamped with.
   */
  constructor(
    readonly pending: Pending,
    readonly names: readonly string[],
    readonly origin: object,
  ) {}

  resultAt(answers: RedisAnswers, index: number, { key, cost }: Asked): Decision | TollgateError {
    const start = index * ANSWER_LENGTH
    const decision = this.#named(decisionAt(answers.answers, start)) ?? severalAt(answers.answers, start, this.names)
    return decision === undefined ? failureIn(answers, index) : stamped(decision, this.origin, key, cost)
  }

  /** The decision on a single limit, by its name if it has one. */
  #named(decision: Decision<'default'> | undefined): Decision | undefined {
    const name = this.names[0] as string
    if (decision === undefined || name === 'default') {
      return decision
    }
    // Not spread: engines would make the copy a dictionary, which takes microseconds.
    const { allowed, status, limit, remaining, retryAfterMs, resetAfterMs, at, source } = decision
    const policies = { [name]: decision.policies.default }
    return {
      allowed,
      status,
      policy: name,
      limit,
      remaining,
      retryAfterMs,
      resetAfterMs,
      policies,
      at,
      source,
    } as Decision
  }
}

/** A limiter, as one whose operations are performed. */
export class OperationAsker implements Asker<Performed> {
  constructor(
    readonly pending: Pending,
    readonly names: readonly string[],
  ) {}

  resultAt(answers: RedisAnswers, index: number): Performed | TollgateError {
    return performedAt(answers.answers, index * ANSWER_LENGTH, this.names) ?? failureIn(answers, index)
  }
}

/** A limiter, as one on whose keys slots are booked. */
export class BookingAsker implements Asker<Booking> {
  /** @param policies - How many policies there are. */
  constructor(
    readonly pending: Pending,
    readonly names: readonly string[],
    readonly policies: number,
  ) {}

  resultAt(answers: RedisAnswers, index: number): Booking | TollgateError {
    const start = index * ANSWER_LENGTH
    return bookingAt(answers.answers, start, this.names, this.policies) ?? failureIn(answers, index)
  }
}

/** The error that stands at `index`. */
export function failureIn({ answers, texts }: RedisAnswers, index: number): TollgateError {
  const start = index * ANSWER_LENGTH
  const text = texts[answers[start + 1] as number] ?? ''
  switch (answers[start]) {
    case -6:
      return new TollgateError('STORE_UNAVAILABLE', text)
    case -7:
      return new TollgateError('STORE_UNAVAILABLE', text, { charged: 'unknown' })
    case -8:
      return new TollgateError('STORE_TIMEOUT', text, { charged: 'unknown' })
    case -9:
      return new TollgateError('STORE_ERROR', text)
    case -10:
      return new TollgateError('CLOSED', text)
    case -11:
      return new TollgateError('STORE_ERROR', text, { charged: 'unknown' })
    default:
      return failureAt(answers, start, undefined)
  }
}
