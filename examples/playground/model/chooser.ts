/** Recommends an algorithm from the answers to three questions. */
import type { AlgorithmName } from './algorithms.js'
import type { FieldValues } from './fields.js'

/** The questions. Each is answered with yes or no. */
export const QUESTIONS = {
  calendar: 'Does the quota follow the calendar, such as 5,000 per day?',
  hard: 'Must the limit hold in every window of time, not only on average?',
  bursts: 'May a client use its whole limit at once?',
} as const

/** The name of a question. */
export type QuestionName = keyof typeof QUESTIONS

/** The names of the questions, in their order. */
export const QUESTION_NAMES = Object.keys(QUESTIONS) as readonly QuestionName[]

/** The answers. */
export type ChooserAnswers = Readonly<Record<QuestionName, boolean>>

/** An algorithm, the numbers that it needs, and the reason. */
export interface Recommendation {
  readonly algorithm: AlgorithmName
  readonly values: FieldValues
  readonly reason: string
}

/** The algorithm for the answers. */
export function recommend({ calendar, hard, bursts }: ChooserAnswers): Recommendation {
  if (calendar) {
    return {
      algorithm: 'calendarWindow',
      values: { every: 'day' },
      reason: hard
        ? 'It counts per day or month of a time zone. Twice the limit fits around midnight: for a hard bound add a slidingWindow as a second policy of the same limiter.'
        : 'It counts per hour, day, week or month of a time zone, and everyone can see when it starts anew.',
    }
  }
  if (hard) {
    return bursts
      ? {
          algorithm: 'slidingWindow',
          values: {},
          reason:
            'No window of its length ever has more than the limit. For limits up to some hundreds, slidingLog is exact to the call.',
        }
      : {
          algorithm: 'gcra',
          values: { burst: '1' },
          reason:
            'With a burst of 1 the calls are evenly spaced, and one period has at most one call more than the limit. For an API of someone else, set the limit 10 to 20 % below theirs.',
        }
  }
  return bursts
    ? {
        algorithm: 'gcra',
        values: {},
        reason:
          'It is smooth, exact and small. An idle client may use the whole limit at once, so its first period can have almost twice the limit.',
      }
    : {
        algorithm: 'gcra',
        values: { burst: '5' },
        reason:
          'It spreads calls evenly, and the burst says how many may come at once. One period has at most the limit plus the burst.',
      }
}
