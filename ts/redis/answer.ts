import { ANSWER_LENGTH, decisionAt, failureAt } from '../answer.js'
import type { Decision } from '../decision.js'
import { TollgateError } from '../error.js'

/** What the native store answers to a batch. */
export interface RedisAnswers {
  readonly answers: Float64Array
  readonly texts: readonly string[]
}

/** The decision or the error that stands at `index`, or `undefined` for a call without either. */
export function resultAt({ answers, texts }: RedisAnswers, index: number): Decision<'default'> | TollgateError {
  const start = index * ANSWER_LENGTH
  const decision = decisionAt(answers, start)
  if (decision !== undefined) {
    return decision
  }
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
