import type { LimiterBackend } from '../backends/limiter-backend.js'
import type { ScheduledCharges, ScheduledReservation } from '../backends/operation.js'
import type { Keys } from '../input/keys.js'
import { timers } from '../platform/timers.js'
import type { PlatformTimer, WaitingTime } from '../platform/waiting-time.js'
import type { Decision } from './decision.js'
import { withMetadata } from './decision-metadata.js'
import { TollgateError } from './error.js'
import { type AbortSignalLike, type WaitCall, type WaitedOrRefused, waitTooLongError } from './wait.js'

/** The slot of a wait that was aborted. */
interface AbandonedSlot {
  readonly currentBackend: () => LimiterBackend
  readonly keys: Keys
  readonly charges: ScheduledCharges
  readonly source: Decision['source']
  /** The position of its response among all responses. */
  readonly sequence: number
}

/**
 * The waits of a limiter for their scheduled slots.
 *
 * A slot can be cancelled only if no later slot is scheduled. Slots that are abandoned together, by
 * one signal or by {@link close}, are therefore cancelled in reverse order.
 */
export class ScheduledWaits {
  readonly #time: WaitingTime
  readonly #pending = new Set<PendingWait>()
  /** Scheduling and cancelling requests without a response yet. */
  readonly #inFlight = new Set<Promise<unknown>>()
  #abandoned: AbandonedSlot[] = []
  #isClosing = false
  #responseCount = 0

  constructor(time: WaitingTime) {
    this.#time = time
  }

  /**
   * Schedules a slot, and resolves when it arrives. The backend is called synchronously.
   *
   * @param currentBackend - The limiter's backend, which is replaced by updates.
   */
  wait(currentBackend: () => LimiterBackend, keys: Keys, call: WaitCall): Promise<WaitedOrRefused> {
    return new Promise((resolve, reject) => {
      const callbacks = { resolve, reject, onEnd: () => this.#onEnd(wait) }
      const wait = new PendingWait(currentBackend, keys, call, callbacks, this.#time)
      this.#pending.add(wait)
      // An async function turns a thrown error into a rejection.
      const schedule = async () => currentBackend().schedule(keys, call.cost, call.maxWaitMs * 1_000)
      const scheduled = schedule().then(
        (reservation) => {
          wait.onScheduled(reservation, this.#responseCount++)
          this.#collectAbandoned(wait)
        },
        (error) => wait.abandon(error),
      )
      this.#track(scheduled)
    })
  }

  /**
   * Rejects all pending waits, and resolves when their slots have been cancelled as far as
   * possible; `undefined` if there is nothing to wait for.
   */
  close(): Promise<void> | undefined {
    this.#isClosing = true
    for (const wait of [...this.#pending]) {
      wait.abandon(new TollgateError('CLOSED', 'the limiter has been closed', { charged: 'unknown' }))
    }
    return this.#inFlight.size === 0 && this.#abandoned.length === 0 ? undefined : this.#finishClosing()
  }

  async #finishClosing(): Promise<void> {
    // Requests in flight have the last slots.
    await Promise.all(this.#inFlight)
    this.#cancelAbandoned()
    await Promise.all(this.#inFlight)
  }

  #onEnd(wait: PendingWait): void {
    this.#pending.delete(wait)
    this.#collectAbandoned(wait)
  }

  /** Schedules the cancellation of the slot of an abandoned wait. */
  #collectAbandoned(wait: PendingWait): void {
    const abandoned = wait.takeAbandonedSlot()
    if (abandoned !== undefined && this.#abandoned.push(abandoned) === 1 && !this.#isClosing) {
      // Other waits may be aborted by the same signal.
      timers.queueMicrotask(() => this.#cancelAbandoned())
    }
  }

  #cancelAbandoned(): void {
    const abandoned = this.#abandoned.sort((a, b) => b.sequence - a.sequence)
    this.#abandoned = []
    for (const { currentBackend, keys, charges, source } of abandoned) {
      const cancel = async () => currentBackend().execute(keys, { kind: 'cancelSchedule', source, charges })
      // The error is ignored: the wait has been rejected already.
      this.#track(cancel().catch(() => {}))
    }
  }

  #track(promise: Promise<unknown>): void {
    const tracked = promise.finally(() => this.#inFlight.delete(tracked))
    this.#inFlight.add(tracked)
  }
}

/** Callbacks at the end of a wait. */
interface WaitCallbacks {
  readonly resolve: (decision: WaitedOrRefused) => void
  readonly reject: (error: unknown) => void
  /** The wait is over, either way. */
  readonly onEnd: () => void
}

/** A call that waits for its slot. */
class PendingWait {
  readonly #currentBackend: () => LimiterBackend
  readonly #keys: Keys
  readonly #call: WaitCall
  readonly #callbacks: WaitCallbacks
  readonly #time: WaitingTime
  readonly #onAbort = (): void => this.abandon(abortError(this.#call.signal as AbortSignalLike, 'unknown'))
  #timer: PlatformTimer | undefined
  #hasEnded = false
  #isAbandoned = false
  #charges: ScheduledCharges | undefined
  #source: Decision['source'] = 'store'
  #sequence = 0

  constructor(
    currentBackend: () => LimiterBackend,
    keys: Keys,
    call: WaitCall,
    callbacks: WaitCallbacks,
    time: WaitingTime,
  ) {
    this.#time = time
    this.#currentBackend = currentBackend
    this.#keys = keys
    this.#call = call
    this.#callbacks = callbacks
    if (call.signal !== undefined) {
      addAbortListener(call.signal, this.#onAbort)
    }
  }

  /** Handles the response to the scheduling request. */
  onScheduled({ decision, waitUs, charges }: ScheduledReservation, sequence: number): void {
    this.#charges = charges
    this.#source = decision.source
    this.#sequence = sequence
    if (!this.#hasEnded) {
      const answer = { ...decision, waitedMs: waitUs / 1_000 }
      withMetadata(answer, this.#currentBackend().origin, this.#keys, this.#call.cost)
      if (answer.allowed || this.#call.resolvesRefusal) {
        this.#sleep(answer, this.#time.now() + answer.waitedMs)
      } else {
        this.#end()
        this.#callbacks.reject(waitTooLongError(answer, this.#call))
      }
    }
  }

  /** Ends the wait early. */
  abandon(error: unknown): void {
    if (!this.#hasEnded) {
      this.#isAbandoned = true
      this.#end()
      this.#callbacks.reject(error)
    }
  }

  /** The slot to cancel. Only the first call returns it. */
  takeAbandonedSlot(): AbandonedSlot | undefined {
    const charges = this.#charges
    if (!this.#isAbandoned || charges === undefined) {
      return undefined
    }
    this.#charges = undefined
    return {
      currentBackend: this.#currentBackend,
      keys: this.#keys,
      charges,
      source: this.#source,
      sequence: this.#sequence,
    }
  }

  #sleep(decision: WaitedOrRefused, until: number): void {
    const left = until - this.#time.now()
    if (left > 0) {
      // A timer may fire a millisecond early: then it is set again.
      this.#timer = this.#time.setTimeout(() => this.#sleep(decision, until), Math.ceil(left))
    } else {
      this.#end()
      this.#callbacks.resolve(decision)
    }
  }

  #end(): void {
    this.#hasEnded = true
    this.#time.clearTimeout(this.#timer)
    if (this.#call.signal !== undefined) {
      removeAbortListener(this.#call.signal, this.#onAbort)
    }
    this.#callbacks.onEnd()
  }
}

/** The abort listener that all waits with one signal share. */
interface SharedAbortListener {
  readonly listeners: Set<() => void>
  readonly notify: () => void
}

/**
 * Many waits may share one signal, for example that of a process shutdown. Node warns of a leak
 * when an event target has more than ten listeners, so each signal gets one shared listener.
 */
const sharedListeners = new WeakMap<AbortSignalLike, SharedAbortListener>()

/** Calls `listener` once the signal is aborted. */
export function addAbortListener(signal: AbortSignalLike, listener: () => void): void {
  const shared = sharedListeners.get(signal)
  if (shared !== undefined) {
    shared.listeners.add(listener)
    return
  }
  const listeners = new Set([listener])
  const notify = () => {
    for (const each of [...listeners]) {
      each()
    }
  }
  sharedListeners.set(signal, { listeners, notify })
  signal.addEventListener('abort', notify)
}

/** Removes a listener. */
export function removeAbortListener(signal: AbortSignalLike, listener: () => void): void {
  const shared = sharedListeners.get(signal)
  if (shared?.listeners.delete(listener) && shared.listeners.size === 0) {
    sharedListeners.delete(signal)
    signal.removeEventListener('abort', shared.notify)
  }
}

/** The error for a call whose signal has been aborted. */
export function abortError(signal: AbortSignalLike, charged: false | 'unknown'): TollgateError {
  return new TollgateError('ABORTED', 'the wait has been aborted', { cause: signal.reason, charged })
}
