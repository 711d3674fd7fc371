import { timers } from '../../../platform/timers.js'
import type { PendingCall } from './deadlines.js'
import { FLUSHES_AT_SERVER, RttEstimator } from './rtt-estimator.js'

/**
 * The longest time that a partial flush holds others back. Waiting longer for a slow server, or for
 * the slowest node of a cluster, gains nothing.
 */
const MAX_HOLD_MS = 10

/** A flush in flight. */
interface ActiveFlush {
  readonly calls: readonly PendingCall[]
  /** How many of its calls have no response. */
  unanswered: number
  /** Whether it holds other flushes back. */
  holdsOthers: boolean
  readonly age: number
  /** The time at which it was sent. */
  readonly sentMs: number
  /** Whether no other flush was in flight then. */
  readonly wasAlone: boolean
  /** Whether its round trip has been measured. */
  isMeasured: boolean
}

/**
 * The flushes in flight, by number, and the limit on partial ones. Not a `Map`: its outgrown tables are garbage that
 * keeps later tables alive until a full collection, which took half of all time.
 */
export class Backpressure {
  readonly #release: () => void
  readonly #flushes: (ActiveFlush | undefined)[] = []
  readonly #freeNumbers: number[] = []
  readonly #rtt = new RttEstimator()
  #holdingCount = 0
  /** The number of timers so far. A flush with a lower age began before the latest timer was set. */
  #age = 0
  #timer: NodeJS.Timeout | undefined

  /** @param release - Called when flushes have held others back for long enough. */
  constructor(release: () => void) {
    this.#release = release
  }

  /**
   * Whether the server may run out of work before the tick ends. A distant server cannot be kept
   * busy by a few calls, so more than these few flushes are sent only at the end of ticks.
   */
  get mayIdle(): boolean {
    return this.#holdingCount < FLUSHES_AT_SERVER
  }

  /** Whether further calls should be sent a little later, together. Sets a timer that ends the wait. */
  shouldWait(): boolean {
    if (this.#holdingCount < this.#rtt.maxInFlight) {
      return false
    }
    if (this.#timer === undefined) {
      this.#age++
      this.#timer = timers.setTimeout(this.#onTimeout, MAX_HOLD_MS)
      // The deadlines of pending calls keep the process alive.
      this.#timer.unref()
    }
    return true
  }

  /** Registers a flush, and returns its number. */
  begin(calls: readonly PendingCall[], holdsOthers: boolean): number {
    const wasAlone = this.#freeNumbers.length === this.#flushes.length
    const number = this.#freeNumbers.pop() ?? this.#flushes.length
    this.#flushes[number] = {
      calls,
      unanswered: calls.length,
      holdsOthers,
      age: this.#age,
      sentMs: timers.now(),
      wasAlone,
      isMeasured: false,
    }
    this.#holdingCount += holdsOthers ? 1 : 0
    return number
  }

  /**
   * Ends a flush, or only its calls at `indices`, and returns the answered calls. A flush of which half is answered
   * holds no others back: slow nodes of a cluster must not delay the others.
   */
  end(number: number, indices: Uint32Array | undefined): readonly PendingCall[] {
    const flush = this.#flushes[number]
    if (flush === undefined) {
      return []
    }
    flush.unanswered -= indices?.length ?? flush.unanswered
    if (flush.unanswered * 2 <= flush.calls.length) {
      this.#stopHolding(flush)
      if (!flush.isMeasured) {
        flush.isMeasured = true
        this.#rtt.add(timers.now() - flush.sentMs, flush.wasAlone)
      }
    }
    if (flush.unanswered === 0) {
      this.#flushes[number] = undefined
      this.#freeNumbers.push(number)
    }
    return indices === undefined ? flush.calls : Array.from(indices, (index) => flush.calls[index] as PendingCall)
  }

  #stopHolding(flush: ActiveFlush): void {
    this.#holdingCount -= flush.holdsOthers ? 1 : 0
    flush.holdsOthers = false
  }

  readonly #onTimeout = (): void => {
    this.#timer = undefined
    for (const flush of this.#flushes) {
      if (flush !== undefined && flush.age < this.#age) {
        this.#stopHolding(flush)
      }
    }
    this.#release()
  }
}
