import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import type { PermitSignal } from '../api/permit.js'
import { abortError, addAbortListener, removeAbortListener } from '../api/scheduled-waits.js'
import type { AbortSignalLike } from '../api/wait.js'
import type { PlatformTimer, WaitingTime } from '../platform/waiting-time.js'
import { deadlineOf, needSameTurn, type ScheduledCall, type TurnNeed } from './scheduled-call.js'
import type { AskForTurn, Turn } from './turn.js'

/** The most requests for turns at a time. */
const MAX_WINDOW = 64

/** The first number of requests at a time. */
const FIRST_WINDOW = 4

/** The shortest pause after a refusal, in milliseconds. */
const MIN_PAUSE_MS = 5

/** The functions of the client that a queue calls. */
export interface QueueClient {
  readonly ask: AskForTurn
  readonly time: WaitingTime
  /** A call has its turn. */
  start(call: ScheduledCall, turn: Turn): void
  /** A call left the queue without a turn. */
  giveUp(call: ScheduledCall, error: unknown): void
  /** Nothing waits in the queue any more, and there is no pause to remember. */
  onIdle(): void
}

/** A request for a turn under way. */
interface Ask extends TurnNeed {
  readonly controller: AbortController
}

/** A call in the queue. */
interface Waiting {
  readonly call: ScheduledCall
  /** Stops its timer, and its listener on the caller's signal. */
  readonly stop: () => void
}

/**
 * The waiting calls of one key, by priority, then in the order in which they were made.
 *
 * A turn belongs to no particular call: it goes to the first call that needs such a turn when it
 * comes. So a call with a high priority overtakes calls for which turns have been requested.
 *
 * The queue requests few turns ahead, because slots and tickets of the store are served in their own
 * order: the number of requests at a time doubles while turns come at once, and halves while they are
 * delayed.
 */
export class KeyQueue {
  readonly #key: unknown
  readonly #client: QueueClient
  #waiting: Waiting[] = []
  readonly #asks = new Set<Ask>()
  #window = FIRST_WINDOW
  #pausedUntil = Number.NEGATIVE_INFINITY
  #pauseTimer: PlatformTimer | undefined
  /** The decision behind the pause. */
  #refusal: Decision | undefined

  constructor(key: unknown, client: QueueClient) {
    this.#key = key
    this.#client = client
  }

  /** Whether nothing waits here, and there is no pause to remember. */
  get isIdle(): boolean {
    return this.#waiting.length === 0 && this.#asks.size === 0 && !this.#isPaused
  }

  /** Adds a call. */
  add(call: ScheduledCall): void {
    const goesBefore = ({ call: other }: Waiting) =>
      other.priority > call.priority || (other.priority === call.priority && other.sequence < call.sequence)
    this.#waiting.splice(this.#waiting.findLastIndex(goesBefore) + 1, 0, this.#waitingOf(call))
    if (this.#isPaused && this.#refusal !== undefined && deadlineOf(call) < this.#pausedUntil) {
      this.#giveUp(call, tooLongError(call, this.#refusal))
    }
    this.#requestTurns()
  }

  /**
   * Starts no calls for a time.
   *
   * @param refusal - The decision that says so. Calls that cannot wait so long are rejected with it.
   */
  pause(millis: number, refusal: Decision | undefined): void {
    this.#refusal = refusal ?? this.#refusal
    this.#window = 1
    const until = this.#client.time.now() + millis
    if (until > this.#pausedUntil) {
      this.#pausedUntil = until
      this.#setPauseTimer()
    }
    if (refusal !== undefined) {
      for (const { call } of [...this.#waiting]) {
        if (deadlineOf(call) < this.#pausedUntil) {
          this.#giveUp(call, tooLongError(call, refusal))
        }
      }
    }
  }

  /** Rejects all waiting calls. */
  close(error: () => Error): void {
    for (const { call } of [...this.#waiting]) {
      this.#giveUp(call, error())
    }
    this.#requestTurns()
  }

  get #isPaused(): boolean {
    return this.#client.time.now() < this.#pausedUntil
  }

  #setPauseTimer(): void {
    const { time } = this.#client
    time.clearTimeout(this.#pauseTimer)
    const left = this.#pausedUntil - time.now()
    // A timer may fire a millisecond early: then it is set again.
    const timer = time.setTimeout(() => (this.#isPaused ? this.#setPauseTimer() : this.#endPause()), Math.ceil(left))
    this.#pauseTimer = timer
    // A waiting call has a timer of its own, which keeps the process alive.
    timer.unref?.()
  }

  #endPause(): void {
    this.#pauseTimer = undefined
    this.#refusal = undefined
    this.#requestTurns()
  }

  #waitingOf(call: ScheduledCall): Waiting {
    const { time } = this.#client
    const { signal } = call
    const onAbort = () => this.#giveUp(call, abortError(signal as AbortSignalLike, false))
    const onDeadline = () => this.#giveUp(call, tooLongError(call, this.#refusal))
    const timer = time.setTimeout(onDeadline, Math.max(0, deadlineOf(call) - time.now()))
    if (signal !== undefined) {
      addAbortListener(signal, onAbort)
    }
    const stop = () => {
      time.clearTimeout(timer)
      if (signal !== undefined) {
        removeAbortListener(signal, onAbort)
      }
    }
    return { call, stop }
  }

  /** Takes a call out of the queue. Returns whether it was there. */
  #remove(call: ScheduledCall): boolean {
    const index = this.#waiting.findIndex((waiting) => waiting.call === call)
    const [removed] = index < 0 ? [] : this.#waiting.splice(index, 1)
    removed?.stop()
    return removed !== undefined
  }

  #giveUp(call: ScheduledCall, error: unknown): void {
    if (this.#remove(call)) {
      this.#client.giveUp(call, error)
      this.#requestTurns()
    }
  }

  /** Requests turns for the first calls. */
  #requestTurns(): void {
    if (!this.#isPaused) {
      const others = [...this.#asks]
      for (const { call } of this.#waiting.slice(0, this.#window)) {
        const index = others.findIndex((ask) => needSameTurn(ask, call))
        if (index >= 0) {
          others.splice(index, 1)
        } else if (this.#asks.size < this.#window) {
          void this.#ask(call)
        } else {
          // The store would serve these requests, of later calls, first.
          this.#withdraw(others)
          break
        }
      }
      this.#withdraw(others.filter((ask) => !this.#waiting.some(({ call }) => needSameTurn(ask, call))))
    }
    if (this.isIdle) {
      this.#client.onIdle()
    }
  }

  #withdraw(asks: readonly Ask[]): void {
    for (const { controller } of asks) {
      controller.abort()
    }
  }

  async #ask(call: ScheduledCall): Promise<void> {
    const { cost, tier } = call
    const ask: Ask = { cost, tier, controller: new AbortController() }
    this.#asks.add(ask)
    const maxWaitMs = Math.max(0, Math.floor(deadlineOf(call) - this.#client.time.now()))
    const signal = ask.controller.signal as PermitSignal
    try {
      const answer = await this.#client.ask({ key: this.#key, cost, tier, maxWaitMs, signal })
      this.#asks.delete(ask)
      if ('end' in answer) {
        this.#onTurn(answer, ask)
      } else {
        this.#onRefusal(call, answer)
      }
    } catch (error) {
      this.#asks.delete(ask)
      if (!ask.controller.signal.aborted) {
        this.#giveUp(call, error)
      }
    }
    this.#requestTurns()
  }

  #onTurn(turn: Turn, need: TurnNeed): void {
    const next = this.#waiting.find(({ call }) => needSameTurn(call, need))
    // The server may have refused another call since the request.
    if (next === undefined || this.#isPaused) {
      turn.giveBack()
      return
    }
    this.#window = turn.isDelayed ? Math.ceil(this.#window / 2) : Math.min(this.#window * 2, MAX_WINDOW)
    this.#remove(next.call)
    this.#client.start(next.call, turn)
  }

  #onRefusal(call: ScheduledCall, decision: Decision): void {
    const retryAfterMs = Math.max(decision.retryAfterMs ?? 0, MIN_PAUSE_MS)
    if (decision.status === 'impossible' || this.#client.time.now() + retryAfterMs > deadlineOf(call)) {
      this.#giveUp(call, tooLongError(call, decision))
    } else {
      this.pause(retryAfterMs, decision)
    }
  }
}

function tooLongError(call: ScheduledCall, decision: Decision | undefined): TollgateError {
  const { maxWaitMs, cost } = call
  const isImpossible = decision?.status === 'impossible'
  const message = isImpossible
    ? `a cost of ${cost} never fits: lower the cost or raise the limit`
    : `the call has no turn within maxWaitMs of ${maxWaitMs}; raise maxWaitMs, or make fewer calls`
  return new TollgateError('WAIT_TOO_LONG', message, decision === undefined ? {} : { decision })
}
