import { ANSWER_LENGTH, decisionAt, failureAt } from '../answer.js'
import type { Decision } from '../decision.js'
import { TollgateError } from '../error.js'
import { severalAt } from '../several.js'
import { Pending } from './pending.js'

/** What the native store answers to a batch. */
export interface RedisAnswers {
  readonly answers: Float64Array
  readonly texts: readonly string[]
}

/** A limiter, as one whose calls are answered. */
export class Asker {
  /** Its calls that wait to be sent or to be answered. */
  readonly pending = new Pending()

  /** @param names - The names of the policy's limits, if they have names. */
  constructor(readonly names: readonly string[] | undefined) {}
}

/** The decision or the error that stands at `index`. */
export function resultAt({ answers, texts }: RedisAnswers, index: number, asker: Asker): Decision | TollgateError {
  const start = index * ANSWER_LENGTH
  const decision = decisionAt(answers, start)
  if (decision !== undefined) {
    return decision
  }
  const several = asker.names === undefined ? undefined : severalAt(answers, start, asker.names)
  if (several !== undefined) {
    return several
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
