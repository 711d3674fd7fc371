import type { Ledger } from '../backends/limiter-backend.js'
import type { Booked, Booking } from '../backends/operation.js'
import type { Keys } from '../input/keys.js'
import { timers } from '../platform/timers.js'
import type { Decision } from './decision.js'
import { stamped } from './decision-metadata.js'
import { TollgateError } from './error.js'
import { type AbortSignalLike, tooLong, type WaitCall, type WaitedOrRefused } from './wait.js'

/** A slot that nobody wants any more. */
interface Unwanted {
  readonly ledger: Ledger
  readonly keys: Keys
  readonly booked: Booked
  readonly source: Decision['source']
  /** When the answer on it came, among all. */
  readonly number: number
}

/**
 * The calls of a limiter that wait for their slots.
 *
 * A slot can be given back only if nobody is behind it. So slots that are given up together, by one signal or by
 * {@link close}, go back in reverse order.
 */
export class Waiters {
  readonly #waiting = new Set<Waiter>()
  /** Bookings that are on their way, and slots that are being given back. */
  readonly #underWay = new Set<Promise<unknown>>()
  #unwanted: Unwanted[] = []
  #isClosing = false
  #answers = 0

  /** Books a slot, and resolves when it has come. The ledger is asked at once. */
  wait(ledger: Ledger, keys: Keys, call: WaitCall): Promise<WaitedOrRefused> {
    return new Promise((resolve, reject) => {
      const waiter = new Waiter(ledger, keys, call, { resolve, reject, over: () => this.#over(waiter) })
      this.#waiting.add(waiter)
      // Whether the ledger throws or rejects is the same then.
      const ask = async () => ledger.book(keys, call.cost, call.maxWaitMs * 1_000)
      const answered = ask().then(
        (booking) => {
          waiter.answered(booking, this.#answers++)
          this.#collect(waiter)
        },
        (error) => waiter.leave(error),
      )
      this.#track(answered)
    })
  }

  /**
   * Rejects all calls that wait, and resolves when their slots have been given back, as far as that is possible;
   * `undefined` if there is nothing to wait for.
   */
  close(): Promise<void> | undefined {
    this.#isClosing = true
    for (const waiter of [...this.#waiting]) {
      waiter.leave(new TollgateError('CLOSED', 'the limiter has been closed', { charged: 'unknown' }))
    }
    return this.#underWay.size === 0 && this.#unwanted.length === 0 ? undefined : this.#closed()
  }

  async #closed(): Promise<void> {
    // Those on their way have the last slots.
    await Promise.all(this.#underWay)
    this.#giveBack()
    await Promise.all(this.#underWay)
  }

  #over(waiter: Waiter): void {
    this.#waiting.delete(waiter)
    this.#collect(waiter)
  }

  /** Sees to it that the slot of a call that has left is given back. */
  #collect(waiter: Waiter): void {
    const unwanted = waiter.unwanted()
    if (unwanted !== undefined && this.#unwanted.push(unwanted) === 1 && !this.#isClosing) {
      // Others may leave by the same signal.
      timers.queueMicrotask(() => this.#giveBack())
    }
  }

  #giveBack(): void {
    const unwanted = this.#unwanted.sort((a, b) => b.number - a.number)
    this.#unwanted = []
    for (const { ledger, keys, booked, source } of unwanted) {
      const ask = async () => ledger.perform(keys, { kind: 'unbook', source, booked })
      // Nobody hears of it: the call has been rejected already.
      this.#track(ask().catch(() => {}))
    }
  }

  #track(promise: Promise<unknown>): void {
    const tracked = promise.finally(() => this.#underWay.delete(tracked))
    this.#underWay.add(tracked)
  }
}

/** What hears of the end of a wait. */
interface Ends {
  readonly resolve: (decision: WaitedOrRefused) => void
  readonly reject: (error: unknown) => void
  /** The wait is over, either way. */
  readonly over: () => void
}

/** A call that waits for its slot. */
class Waiter {
  readonly #ledger: Ledger
  readonly #keys: Keys
  readonly #call: WaitCall
  readonly #ends: Ends
  readonly #leave = (): void => this.leave(abortedBy(this.#call.signal as AbortSignalLike, 'unknown'))
  #timer: NodeJS.Timeout | undefined
  #isOver = false
  #hasLeft = false
  #booked: Booked | undefined
  #source: Decision['source'] = 'store'
  #number = 0

  constructor(ledger: Ledger, keys: Keys, call: WaitCall, ends: Ends) {
    this.#ledger = ledger
    this.#keys = keys
    this.#call = call
    this.#ends = ends
    if (call.signal !== undefined) {
      listen(call.signal, this.#leave)
    }
  }

  /** Takes what became of the booking. */
  answered({ decision, waitUs, booked }: Booking, number: number): void {
    this.#booked = booked
    this.#source = decision.source
    this.#number = number
    if (!this.#isOver) {
      const answer = { ...decision, waitedMs: waitUs / 1_000 }
      stamped(answer, this.#ledger.origin, this.#keys, this.#call.cost)
      if (answer.allowed || this.#call.isRefusalAnswer) {
        this.#sleep(answer, timers.now() + answer.waitedMs)
      } else {
        this.#end()
        this.#ends.reject(tooLong(answer, this.#call))
      }
    }
  }

  /** Ends the wait early. */
  leave(error: unknown): void {
    if (!this.#isOver) {
      this.#hasLeft = true
      this.#end()
      this.#ends.reject(error)
    }
  }

  /** The slot that is to be given back, once. */
  unwanted(): Unwanted | undefined {
    const booked = this.#booked
    if (!this.#hasLeft || booked === undefined) {
      return undefined
    }
    this.#booked = undefined
    return { ledger: this.#ledger, keys: this.#keys, booked, source: this.#source, number: this.#number }
  }

  #sleep(answer: WaitedOrRefused, until: number): void {
    const left = until - timers.now()
    if (left > 0) {
      // A timer may ring a millisecond early: then it is set again.
      this.#timer = timers.setTimeout(() => this.#sleep(answer, until), Math.ceil(left))
    } else {
      this.#end()
      this.#ends.resolve(answer)
    }
  }

  #end(): void {
    this.#isOver = true
    timers.clearTimeout(this.#timer)
    if (this.#call.signal !== undefined) {
      unlisten(this.#call.signal, this.#leave)
    }
    this.#ends.over()
  }
}

/** What hears of a signal. */
interface Ear {
  readonly listeners: Set<() => void>
  readonly hear: () => void
}

/**
 * Many calls wait by one signal, such as that of a process which is to end; but Node warns of a leak when an event
 * target has more than ten listeners. So each signal has one of ours, for all of them.
 */
const ears = new WeakMap<AbortSignalLike, Ear>()

function listen(signal: AbortSignalLike, listener: () => void): void {
  const known = ears.get(signal)
  if (known !== undefined) {
    known.listeners.add(listener)
    return
  }
  const listeners = new Set([listener])
  const hear = () => {
    for (const one of [...listeners]) {
      one()
    }
  }
  ears.set(signal, { listeners, hear })
  signal.addEventListener('abort', hear)
}

function unlisten(signal: AbortSignalLike, listener: () => void): void {
  const ear = ears.get(signal)
  if (ear?.listeners.delete(listener) && ear.listeners.size === 0) {
    ears.delete(signal)
    signal.removeEventListener('abort', ear.hear)
  }
}

/** The error for a call whose signal has been aborted. */
export function abortedBy(signal: AbortSignalLike, charged: false | 'unknown'): TollgateError {
  return new TollgateError('ABORTED', 'the wait has been aborted', { cause: signal.reason, charged })
}
