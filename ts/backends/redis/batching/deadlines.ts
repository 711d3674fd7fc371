import type { TollgateError } from '../../../api/error.js'
import { timers } from '../../../platform/timers.js'
import type { CallContext, ResponseDecoder } from './response-decoder.js'

/** A call without a result yet. */
export interface PendingCall<T = unknown> extends CallContext {
  readonly resolve: (result: T) => void
  readonly reject: (error: TollgateError) => void
  readonly decoder: ResponseDecoder<T>
  readonly tick: TickBatch
  isSettled: boolean
  /** Stops the timer of its own deadline, if that is earlier than those of its tick. */
  cancelTimer?: () => void
}

/** The calls of one tick of the event loop. */
export class TickBatch {
  #calls: PendingCall[] = []
  #pendingCount = 0
  /** When its calls expire, by `timers.now`: `commandTimeout` after the end of the tick. */
  deadline = 0
  onSettled: (() => void) | undefined

  get calls(): readonly PendingCall[] {
    return this.#calls
  }

  /** Whether all of its calls have a result. */
  get isSettled(): boolean {
    return this.#pendingCount === 0
  }

  add(call: PendingCall): void {
    this.#calls.push(call)
    this.#pendingCount++
  }

  /** After the last call the calls are released: results must not outlive their use. */
  callSettled(): void {
    this.#pendingCount--
    if (this.#pendingCount === 0) {
      this.#calls = []
      this.onSettled?.()
    }
  }
}

/**
 * The engine, and the transport of a client, have the same deadline and give a more precise reason. Their
 * answer therefore gets a little more time.
 */
const GRACE_MS = 40

/** The time from now until calls with this deadline expire. */
export function expiryMsOf(deadline: number): number {
  return Math.max(1, deadline + GRACE_MS - timers.now())
}

/** The settled ticks at the head of the list that are tolerated before it is cut. */
const MAX_SETTLED_HEAD = 64

/**
 * One timer for the deadlines of all calls, which keeps the process alive while calls are pending. All calls have the
 * same timeout, so they expire in call order.
 */
export class Deadlines {
  readonly #expire: (call: PendingCall) => void
  #ticks: TickBatch[] = []
  #head = 0
  #timer: NodeJS.Timeout | undefined

  constructor(expire: (call: PendingCall) => void) {
    this.#expire = expire
  }

  /** Tracks the calls of a tick that has ended. Deadlines never decrease. */
  add(tick: TickBatch): void {
    this.#ticks.push(tick)
    if (this.#timer === undefined) {
      this.#set(tick.deadline)
    }
    this.#skipSettled()
    this.#timer?.ref()
  }

  idle(): void {
    this.#timer?.unref()
  }

  #skipSettled(): void {
    while (this.#ticks[this.#head]?.isSettled) {
      this.#head++
    }
    if (this.#head > MAX_SETTLED_HEAD && this.#head * 2 > this.#ticks.length) {
      this.#ticks = this.#ticks.slice(this.#head)
      this.#head = 0
    }
  }

  #set(deadline: number): void {
    this.#timer = timers.setTimeout(this.#onTimer, expiryMsOf(deadline))
  }

  /** After the event loop was blocked, timers run first. Responses that have come must be read before calls expire. */
  readonly #onTimer = (): void => {
    timers.setImmediate(this.#expireDue)
  }

  readonly #expireDue = (): void => {
    const now = timers.now()
    this.#timer = undefined
    for (;;) {
      this.#skipSettled()
      const first = this.#ticks[this.#head]
      if (first === undefined) {
        return
      }
      if (first.deadline + GRACE_MS > now) {
        this.#set(first.deadline)
        return
      }
      for (const call of first.calls) {
        this.#expire(call)
      }
    }
  }
}
