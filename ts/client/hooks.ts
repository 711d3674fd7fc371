import { millisOf } from '../input/duration.js'
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
      if (time === undefined) {
        return answer
      }
      const delayMs = boundedDelay(millisOf('INVALID_OPTION', 'the result of refusalOf', time)) as number
      return { ...answer, isRefusal: true, delayMs: Math.max(delayMs, answer.delayMs ?? 0) }
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
      return decided ?? mayRetry(result, answer, isIdempotent)
    } catch (error) {
      this.#onError({ key, hook: 'shouldRetry', error })
      return mayRetry(result, answer, isIdempotent)
    }
  }
}
