import { addAbortListener, removeAbortListener } from '../api/scheduled-waits.js'
import type { AbortSignalLike } from '../api/wait.js'
import type { WaitingTime } from '../platform/waiting-time.js'
import { abortedError, closedError } from './errors.js'
import type { ScheduledCall } from './scheduled-call.js'

/** The calls between two attempts. */
export class DelayedCalls {
  readonly #time: WaitingTime
  readonly #giveUp: (call: ScheduledCall, error: unknown) => void
  /** The calls, with functions that end their delay. */
  readonly #calls = new Map<ScheduledCall, () => void>()

  /** @param giveUp - A call ends, because it is aborted or the client is closed. */
  constructor(time: WaitingTime, giveUp: (call: ScheduledCall, error: unknown) => void) {
    this.#time = time
    this.#giveUp = giveUp
  }

  /** Calls `onDue` after the delay, unless the call ends before. */
  add(call: ScheduledCall, delayMs: number, onDue: () => void): void {
    const { signal } = call
    const stop = () => {
      this.#time.clearTimeout(timer)
      this.#calls.delete(call)
      if (signal !== undefined) {
        removeAbortListener(signal, onAbort)
      }
    }
    const timer = this.#time.setTimeout(() => {
      stop()
      onDue()
    }, delayMs)
    const onAbort = () => {
      stop()
      this.#giveUp(call, abortedError(signal as AbortSignalLike, call.attempt - 1))
    }
    if (signal !== undefined) {
      addAbortListener(signal, onAbort)
    }
    this.#calls.set(call, stop)
  }

  close(): void {
    for (const [call, stop] of [...this.#calls]) {
      stop()
      this.#giveUp(call, closedError(call.attempt - 1))
    }
  }
}
