import type { PermitSignal } from '../api/permit.js'
import type { PlatformTimer, WaitingTime } from '../platform/waiting-time.js'
import { type Answer, type AttemptResult, bodyOf, discard, NO_ANSWER } from './answer.js'
import { attemptTimeoutError } from './errors.js'
import type { ScheduledCall } from './scheduled-call.js'
import { linkSignal, linkWithBody } from './signals.js'
import type { Turn } from './turn.js'

export interface ReadResult {
  readonly result: AttemptResult
  readonly answer: Answer
}

/** Whether an attempt has failed: by an error, by a refusal, or by a status that says so. */
export function isFailure({ result, answer: { status, isRefusal } }: ReadResult): boolean {
  return result.isError || isRefusal || (status !== undefined && status >= 400)
}

export class Attempt {
  readonly startedAt: number
  readonly number: number
  readonly #call: ScheduledCall
  readonly #turn: Turn
  readonly #time: WaitingTime
  readonly #controller = new AbortController()
  readonly #unlinks: readonly (() => void)[]
  /** Whether the function of the call still runs, perhaps after its time. */
  #isRunning = true
  #hasEnded = false
  #onEnd: () => Promise<unknown> | undefined = () => undefined

  constructor(call: ScheduledCall, turn: Turn, time: WaitingTime) {
    this.#call = call
    this.#turn = turn
    this.#time = time
    this.startedAt = time.now()
    this.number = call.attempt
    this.#unlinks = [call.signal, turn.signal].map((signal) => linkSignal(signal, this.#controller))
  }

  get signal(): PermitSignal {
    return this.#controller.signal as PermitSignal
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason)
  }

  /** Runs the function of the call, for `attemptTimeout` at most. `read` reads the result and does not reject. */
  async run(read: (result: AttemptResult) => Answer | Promise<Answer>): Promise<ReadResult> {
    const { attemptTimeoutMs } = this.#call
    if (attemptTimeoutMs === undefined) {
      return this.#runFunction(read)
    }
    let isLate = false
    let timer: PlatformTimer | undefined
    const late = new Promise<ReadResult>((resolve) => {
      timer = this.#time.setTimeout(() => {
        isLate = true
        const error = attemptTimeoutError(this.#call)
        this.abort(error)
        resolve({ result: { isError: true, error }, answer: NO_ANSWER })
      }, attemptTimeoutMs)
    })
    const ran = this.#runFunction(read).then((ended) => {
      if (isLate) {
        discard(ended.result)
      }
      return ended
    })
    const first = await Promise.race([ran, late])
    this.#time.clearTimeout(timer)
    return first
  }

  /** Lets the caller abort the body of the response, as with the platform's function, also after the attempt. */
  linkBody(result: AttemptResult): void {
    const { bodySignals } = this.#call
    const body = bodySignals.length === 0 ? undefined : bodyOf(result)
    if (body !== undefined) {
      for (const signal of bodySignals) {
        linkWithBody(signal, this.#controller, body)
      }
    }
  }

  /** Ends the attempt: once its function no longer runs, it calls `onEnd`, which ends its turn. */
  end(onEnd: () => Promise<unknown> | undefined): Promise<unknown> | undefined {
    this.#hasEnded = true
    this.#onEnd = onEnd
    return this.#endIfOver()
  }

  async #runFunction(read: (result: AttemptResult) => Answer | Promise<Answer>): Promise<ReadResult> {
    const { run } = this.#call
    const { signal, number: attempt } = this
    let result: AttemptResult
    try {
      result = { isError: false, value: await run({ signal, attempt, decision: this.#turn.decision }) }
    } catch (error) {
      result = { isError: true, error }
    }
    const answer = read(result)
    const ended = { result, answer: 'then' in answer ? await answer : answer }
    this.#isRunning = false
    void this.#endIfOver()
    return ended
  }

  #endIfOver(): Promise<unknown> | undefined {
    if (!this.#hasEnded || this.#isRunning) {
      return undefined
    }
    for (const unlink of this.#unlinks) {
      unlink()
    }
    return this.#onEnd()
  }
}
