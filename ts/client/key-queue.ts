import type { Decision } from '../api/decision.js'
import type { PermitSignal } from '../api/permit.js'
import type { AbortSignalLike } from '../api/wait.js'
import type { PlatformTimer, WaitingTime } from '../platform/waiting-time.js'
import { abortedError, closedError, limiterError, tooLongError } from './errors.js'
import type { PeekRefusal, TurnRefusal } from './refusal.js'
import { deadlineOf, type ScheduledCall } from './scheduled-call.js'
import type { AskForTurn, Turn } from './turn.js'
import { nameOfNeed, type TurnNeed } from './turn-need.js'
import { type LeavingReason, WaitingCalls } from './waiting-calls.js'

/** The most requests for turns at a time. */
const MAX_WINDOW = 64

/** The first number of requests at a time. */
const FIRST_WINDOW = 4

/** The shortest pause after a refusal, in milliseconds: timers have no shorter times. */
const MIN_PAUSE_MS = 1

/**
 * The milliseconds between two questions to the store whether a pause still holds. An operator may have ended it with
 * `unblock`, `reset` or other numbers.
 */
const CHECK_MS = 5_000

export interface QueueClient {
  readonly ask: AskForTurn
  readonly peek: PeekRefusal
  readonly time: WaitingTime
  start(call: ScheduledCall, turn: Turn): void
  /** A call has left the queue without a turn. */
  giveUp(call: ScheduledCall, error: unknown): void
  /** No call waits, and there is no pause to remember. */
  onIdle(): void
}

interface Ask extends TurnNeed {
  readonly name: string
  readonly controller: AbortController
}

/**
 * The waiting calls of one key, by priority, then in the order in which they were made.
 *
 * A turn goes to the first call that needs such a turn when it comes, and not to the call for which it was requested.
 * So a call with a high priority overtakes others.
 *
 * The store serves requests in their order, so the queue makes few of them ahead: their number doubles while turns come
 * at once, and halves while they are delayed.
 */
export class KeyQueue {
  readonly #key: unknown
  readonly #client: QueueClient
  readonly #waiting: WaitingCalls
  readonly #asks = new Set<Ask>()
  #window = FIRST_WINDOW
  #pausedUntil = Number.NEGATIVE_INFINITY
  #pauseTimer: PlatformTimer | undefined
  /** The decision of the store that caused the pause; `undefined` if the store does not know of the pause. */
  #refusal: Decision | undefined
  /** The need of the turn that it refused. The first call may have come later, and may need less. */
  #refusedNeed = ''
  /** When the store made it. */
  #checkedAt = 0
  /** Whether the store is being asked if the pause holds. */
  #isChecking = false
  #isClosed = false

  constructor(key: unknown, client: QueueClient) {
    this.#key = key
    this.#client = client
    this.#waiting = new WaitingCalls({
      time: client.time,
      hopelessUntil: () => (this.#isPaused && this.#isCertain ? this.#pausedUntil : Number.NEGATIVE_INFINITY),
      leave: (call, reason) => client.giveUp(call, this.#errorOf(call, reason)),
      onLeft: () => this.#onChange(),
    })
  }

  get isIdle(): boolean {
    return this.#waiting.size === 0 && this.#asks.size === 0 && !this.#isPaused
  }

  add(call: ScheduledCall): void {
    this.#waiting.add(call)
    this.#onChange()
  }

  /**
   * Starts no calls for a time. It never shortens another pause. Calls that cannot wait so long get the decision of the
   * store, on a turn of this need, if it is known.
   */
  pause(millis: number, need: TurnNeed, decision: Decision | undefined): void {
    if (decision !== undefined) {
      this.#setRefusal(decision, need)
    }
    this.#window = 1
    this.#setPause(Math.max(this.#pausedUntil, this.#client.time.now() + millis))
    if (decision !== undefined) {
      this.#waiting.letLeave()
      this.#onChange()
    }
  }

  resume(): void {
    this.#setPause(Number.NEGATIVE_INFINITY)
    this.#endPause()
  }

  close(): void {
    this.#isClosed = true
    this.#waiting.close()
    this.#requestTurns()
  }

  get #isPaused(): boolean {
    return this.#client.time.now() < this.#pausedUntil
  }

  /** Whether the store has said lately that the pause holds for the first call. */
  get #isCertain(): boolean {
    const isRecent = this.#client.time.now() - this.#checkedAt < CHECK_MS
    if (this.#refusal === undefined || this.#isChecking || !isRecent) {
      return false
    }
    const [first] = this.#waiting.first(1)
    return first === undefined || nameOfNeed(first) === this.#refusedNeed
  }

  /** Other calls wait than before. */
  #onChange(): void {
    if (this.#isPaused && !this.#isCertain) {
      void this.#check()
    }
    this.#requestTurns()
  }

  #setRefusal(refusal: Decision | undefined, need: TurnNeed): void {
    this.#refusal = refusal
    this.#refusedNeed = nameOfNeed(need)
    this.#checkedAt = this.#client.time.now()
  }

  #setPause(until: number): void {
    const { time } = this.#client
    this.#pausedUntil = until
    time.clearTimeout(this.#pauseTimer)
    this.#pauseTimer = undefined
    if (this.#isPaused) {
      const left = Math.min(until - time.now(), CHECK_MS)
      this.#pauseTimer = time.setTimeout(() => this.#onPauseTimer(), Math.ceil(left))
      // A waiting call has a timer of its own, which keeps the process alive.
      this.#pauseTimer.unref?.()
    }
  }

  #onPauseTimer(): void {
    if (this.#isPaused) {
      this.#setPause(this.#pausedUntil)
      void this.#check()
    } else {
      this.#endPause()
    }
  }

  /** Ends the pause if the store no longer knows of it. The store is asked only if calls wait. */
  async #check(): Promise<void> {
    const [need] = this.#waiting.first(1)
    if (this.#isChecking || this.#refusal === undefined || need === undefined) {
      return
    }
    const before = this.#pausedUntil
    // If the store fails, the next check comes as after its answer.
    this.#setRefusal(this.#refusal, need)
    this.#isChecking = true
    const refusal = await this.#client.peek(this.#key, need).catch(() => undefined)
    this.#isChecking = false
    // The server may have refused another call meanwhile.
    if (refusal?.decision.source === 'store' && this.#pausedUntil === before) {
      this.#setRefusal(refusal.decision, need)
      this.#setPause(this.#client.time.now() + refusal.pauseMs)
    }
    if (this.#isPaused) {
      this.#waiting.letLeave()
      this.#onChange()
    } else {
      this.#endPause()
    }
  }

  #endPause(): void {
    this.#refusal = undefined
    this.#requestTurns()
  }

  #errorOf(call: ScheduledCall, reason: LeavingReason): Error {
    switch (reason) {
      case 'aborted':
        return abortedError(call.signal as AbortSignalLike, call.attempt - 1)
      case 'closed':
        return closedError(call.attempt - 1)
      case 'late':
        return tooLongError(call, this.#refusal)
    }
  }

  #giveUp(call: ScheduledCall, error: unknown): void {
    if (this.#waiting.remove(call)) {
      this.#client.giveUp(call, error)
      this.#requestTurns()
    }
  }

  #requestTurns(): void {
    if (this.#isClosed) {
      // The calls leave over several turns of the event loop, and would ask for turns that none of them takes.
      this.#withdraw([...this.#asks])
    } else if (!this.#isPaused && !this.#hasEnoughAsks) {
      const others = [...this.#asks]
      for (const call of this.#waiting.first(this.#window)) {
        const name = nameOfNeed(call)
        const index = others.findIndex((ask) => ask.name === name)
        if (index >= 0) {
          others.splice(index, 1)
        } else if (this.#asks.size < this.#window) {
          void this.#ask(call)
        } else {
          // The store would serve the requests of later calls first.
          this.#withdraw(others)
          break
        }
      }
      this.#withdraw(others.filter((ask) => !this.#waiting.needs(ask)))
    }
    if (this.isIdle) {
      this.#client.onIdle()
    }
  }

  /** Whether the requests under way suffice for the first calls. Usually all calls need the same turn. */
  get #hasEnoughAsks(): boolean {
    const enough = Math.min(this.#window, this.#waiting.startable)
    return this.#asks.size === enough && [...this.#asks].every((ask) => this.#waiting.allNeed(ask))
  }

  #withdraw(asks: readonly Ask[]): void {
    for (const { controller } of asks) {
      controller.abort()
    }
  }

  async #ask(call: ScheduledCall): Promise<void> {
    const { cost, tier } = call
    const ask: Ask = { cost, tier, name: nameOfNeed(call), controller: new AbortController() }
    this.#asks.add(ask)
    const maxWaitMs = Math.max(0, Math.floor(deadlineOf(call) - this.#client.time.now()))
    const signal = ask.controller.signal as PermitSignal
    try {
      const answer = await this.#client.ask({ key: this.#key, cost, tier, maxWaitMs, signal })
      this.#asks.delete(ask)
      if ('end' in answer) {
        this.#onTurn(answer, ask)
      } else {
        this.#onRefusal(call, ask, answer)
      }
    } catch (error) {
      this.#asks.delete(ask)
      if (!ask.controller.signal.aborted) {
        this.#giveUp(call, limiterError(call, error))
      }
    }
    this.#requestTurns()
  }

  #onTurn(turn: Turn, need: TurnNeed): void {
    // The server may have refused another call since the request.
    const next = this.#isPaused || this.#isClosed ? undefined : this.#waiting.take(need)
    if (next === undefined) {
      turn.giveBack()
      return
    }
    this.#window = turn.isDelayed ? Math.ceil(this.#window / 2) : Math.min(this.#window * 2, MAX_WINDOW)
    this.#client.start(next, turn)
  }

  #onRefusal(call: ScheduledCall, need: TurnNeed, { decision, pauseMs }: TurnRefusal): void {
    const millis = Math.max(pauseMs, MIN_PAUSE_MS)
    if (decision.status === 'impossible' || this.#client.time.now() + millis > deadlineOf(call)) {
      this.#giveUp(call, tooLongError(call, decision))
    } else {
      this.pause(millis, need, decision)
    }
  }
}
