import { millisOfText } from '../input/duration.js'
import { invalid } from '../input/options.js'
import { type Answer, type AttemptResult, answerOf } from './answer.js'
import type { ReadResult } from './attempt.js'
import type { CheckedClientOptions } from './checked-options.js'
import type { ClientEvents } from './options.js'
import { mayRetry } from './retry.js'
import type { ScheduledCall } from './scheduled-call.js'
import { boundedDelay } from './server-times.js'

/** Calls the functions of the options. If one fails, `onError` is called, and the client decides without it. */
export class Hooks {
  readonly #options: CheckedClientOptions
  readonly #onError: (event: ClientEvents<unknown>['hookError']) => void

  constructor(options: CheckedClientOptions, onError: (event: ClientEvents<unknown>['hookError']) => void) {
    this.#options = options
    this.#onError = onError
  }

  read(call: ScheduledCall, result: AttemptResult): Answer | Promise<Answer> {
    const answer = answerOf(result, this.#options.time.epochMs())
    return this.#options.refusalOf === undefined ? answer : this.#withRefusal(call, result, answer)
  }

  async #withRefusal({ key }: ScheduledCall, result: AttemptResult, answer: Answer): Promise<Answer> {
    try {
      const time = await this.#options.refusalOf?.(result.isError ? result.error : result.value)
      if (time === undefined || time === null) {
        return answer
      }
      const millis: unknown = typeof time === 'string' ? millisOfText(time) : time
      if (typeof millis !== 'number' || !Number.isFinite(millis)) {
        const rule = "must be a number of milliseconds, a duration such as '5s', or nothing"
        throw invalid('INVALID_OPTION', 'the result of refusalOf', rule, time)
      }
      // A time that has passed names none.
      return { ...answer, isRefusal: true, delayMs: boundedDelay(Math.max(millis, answer.delayMs ?? 0)) }
    } catch (error) {
      this.#onError({ key, hook: 'refusalOf', error })
      return answer
    }
  }

  mayRetry(call: ScheduledCall, { result, answer }: ReadResult): boolean {
    const { key, shouldRetry, attempt, isIdempotent } = call
    try {
      const decided: unknown = shouldRetry?.(result.isError ? result.error : result.value, attempt)
      if (decided !== undefined && typeof decided !== 'boolean') {
        throw invalid('INVALID_OPTION', 'the result of shouldRetry', 'must be true, false or undefined', decided)
      }
      if (decided !== undefined) {
        return decided
      }
    } catch (error) {
      this.#onError({ key, hook: 'shouldRetry', error })
    }
    return mayRetry(result, answer, isIdempotent)
  }
}
