import { areSame, type Units } from '../backends/units.js'
import { type Linked, LinkedList } from '../platform/linked-list.js'
import type { PlatformTimer, WaitingTime } from '../platform/waiting-time.js'
import type { Allowed, Decision } from './decision.js'
import type { PermitRequest } from './held-permit.js'
import type { Permit } from './permit.js'
import { abortError, addAbortListener, removeAbortListener } from './scheduled-waits.js'
import type { AbortSignalLike } from './wait.js'

/** The longest time between two requests for the calls of a queue, if the store has no permits for them. */
const POLL_MS = 20

/** The shortest such time. Three processes used 82 % of the time of 10 permits of 100 ms with 20 ms, 92 % with 5. */
const MIN_POLL_MS = 5

/** The requests in the mean time for which permits are held. */
const POLLS_PER_HOLD = 20

/** The longest time between two requests, if a rate or a window refuses them. */
const MAX_POLL_MS = 1_000

/** The number of calls of a new queue for which the store is asked at a time. */
const FIRST_WINDOW = 16

/** The most calls of a queue for which the store is asked at a time. */
const MAX_WINDOW = 64

/** The most requests under way beyond the number of calls that wait. Their calls have got other permits. */
const MAX_SURPLUS = 16

export interface QueuedCall {
  readonly id: number
  readonly units: Units
  readonly maxWaitMs: number
  readonly signal: AbortSignalLike | undefined
}

interface PermitQueueCalls {
  readonly time: WaitingTime
  ask(
    id: number,
    units: Units,
    waitedUs: number,
  ): Promise<{ readonly decision: Decision; readonly request: PermitRequest }>
  /** The permit of an admitted request. */
  grant(request: PermitRequest, decision: Allowed): Permit
  refuse(decision: Exclude<Decision, Allowed>): Permit
  /** Releases a permit that nobody uses, and gives its units back. */
  giveBack(request: PermitRequest, decision: Allowed): void
  /** Drops a ticket. */
  leave(id: number, source: Decision['source']): void
  /** Whether a limit is one of units at a time. */
  isConcurrency(limit: string): boolean
  /** The mean time for which the latest permits were held, in milliseconds; `undefined` before the first. */
  meanHoldMs(): number | undefined
  /** No calls wait any more, and no requests for them are under way. */
  onEmpty(): void
}

interface Waiter extends Linked<Waiter> {
  readonly call: QueuedCall
  readonly since: number
  readonly resolve: (permit: Permit) => void
  readonly reject: (error: unknown) => void
  readonly onAbort: () => void
  /** The timer of the end of its time to wait. */
  timer?: PlatformTimer
  /** Whether the store has been asked, so that it may have a ticket. */
  wasAsked: boolean
  isAsking: boolean
  /** The origin of the last answer, which may have its ticket. */
  source: Decision['source']
  /** Whether the time to wait is over. */
  isLate: boolean
  hasEnded: boolean
}

/**
 * The calls of this process that wait for permits of one key, in order.
 *
 * Until the store refuses a call, the queue asks for up to {@link FIRST_WINDOW} calls at once. From then on it asks for
 * the first one every {@link POLL_MS}, or more often if permits are held for a short time, and for more with each
 * permit that it gets. If a rate refuses the first call, the queue asks again when the rate admits it.
 *
 * The first call has a request of its own under way, or its last answer is {@link POLL_MS} old at most. Only if
 * {@link MAX_SURPLUS} requests of calls that wait no more are under way, it waits for the answer to one of them.
 */
export class PermitQueue {
  readonly #calls: PermitQueueCalls
  readonly #waiters = new LinkedList<Waiter>()
  /** The timer of the next request; `undefined` if the store has not refused a call. */
  #timer: PlatformTimer | undefined
  #timerMs = 0
  #asking = 0
  /** Whether the store has refused a call since the queue was empty. */
  #hasRefused = false
  /** The number of calls for which the store is asked at a time. */
  #window = FIRST_WINDOW
  /** Whether units have been released since the requests under way were sent. */
  #hasReleased = false
  /** A rate admits no call before this time. */
  #rateUntil = Number.NEGATIVE_INFINITY
  /** The permits granted since the store refused the first call. */
  #granted = 0

  constructor(calls: PermitQueueCalls) {
    this.#calls = calls
  }

  /** Waits for a permit. The store is asked synchronously, unless it refuses earlier calls. */
  wait(call: QueuedCall): Promise<Permit> {
    const { time } = this.#calls
    const { signal } = call
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        call,
        since: time.now(),
        resolve,
        reject,
        onAbort: () => this.#abandon(waiter, abortError(signal as AbortSignalLike, 'unknown')),
        wasAsked: false,
        isAsking: false,
        source: 'store',
        isLate: false,
        hasEnded: false,
      }
      waiter.timer = time.setTimeout(() => this.#onLate(waiter), call.maxWaitMs)
      if (signal !== undefined) {
        addAbortListener(signal, waiter.onAbort)
      }
      this.#waiters.insertAfter(this.#waiters.last, waiter)
      // Where calls wait, most get the permit of another call of this process.
      const isNext = this.#asking === this.#waiters.size - 1 && this.#asking < this.#window
      if (isNext && !this.#hasRefused) {
        void this.#ask(waiter, waiter.since)
      } else {
        this.#askIfIdle()
      }
    })
  }

  /** Gives a permit of `units` units to the first call; returns whether that call takes as many. */
  give(units: Units, permitOf: () => Permit): boolean {
    const { first } = this.#waiters
    if (first === undefined || !areSame(first.call.units, units)) {
      return false
    }
    // A request under way is for the next call then.
    if (first.wasAsked && !first.isAsking) {
      this.#calls.leave(first.call.id, first.source)
    }
    this.#resolve(first, permitOf())
    return true
  }

  /** Asks for the first call now, because units have been released. */
  askNow(): void {
    if (this.#waiters.first?.isAsking === true) {
      this.#hasReleased = true
    } else if (this.#timer !== undefined && this.#calls.time.now() >= this.#rateUntil) {
      this.#endPoll()
    }
  }

  close(error: Error): void {
    while (this.#waiters.first !== undefined) {
      this.#abandon(this.#waiters.first, error)
    }
  }

  #endPoll(): void {
    this.#calls.time.clearTimeout(this.#timer)
    this.#timer = undefined
    this.#askIfIdle()
  }

  /**
   * Asks for the first calls, up to the window, unless the first one is being asked for or waits for the timer. All
   * have the same time, and those after the first one have no tickets, so that the store sees their order.
   */
  #askIfIdle(): void {
    const { first } = this.#waiters
    if (first === undefined || first.isAsking || this.#timer !== undefined) {
      return
    }
    this.#hasReleased = false
    const now = this.#calls.time.now()
    let waiter: Waiter | undefined = first
    for (let place = 0; waiter !== undefined && place < this.#window; place++, waiter = waiter.next) {
      // While permits pass to other calls at once, each new first call would send a request. The store would
      // then grant permits for which no call waits: eight callers made 1,700 instead of 44,000 calls a second.
      if (!waiter.isAsking && this.#asking < this.#waiters.size + MAX_SURPLUS) {
        void this.#ask(waiter, now)
      }
    }
  }

  async #ask(waiter: Waiter, now: number): Promise<void> {
    const { id, units } = waiter.call
    // Calls of one millisecond have equal times, and their ids have their order.
    const waitedUs = Math.floor(now - waiter.since) * 1_000
    waiter.isAsking = true
    waiter.wasAsked = true
    this.#asking++
    try {
      const { decision, request } = await this.#calls.ask(id, units, waitedUs)
      this.#onAnswer(waiter)
      this.#onDecision(waiter, decision, request)
    } catch (error) {
      this.#onAnswer(waiter)
      if (!waiter.hasEnded) {
        this.#reject(waiter, error)
      }
    }
    this.#askIfIdle()
    this.#endIfEmpty()
  }

  #onAnswer(waiter: Waiter): void {
    waiter.isAsking = false
    this.#asking--
  }

  #onDecision(waiter: Waiter, decision: Decision, request: PermitRequest): void {
    waiter.source = decision.source
    if (decision.allowed) {
      this.#granted++
      // There may be more units.
      if (this.#timer === undefined) {
        this.#window = Math.min(2 * this.#window, MAX_WINDOW)
      }
      // The call may have been aborted meanwhile, or got the permit of another call.
      const grant = () => this.#calls.grant(request, decision)
      if (!waiter.hasEnded) {
        this.#resolve(waiter, grant())
      } else if (!this.give(waiter.call.units, grant)) {
        this.#calls.giveBack(request, decision)
      }
      return
    }
    const canWait = !waiter.isLate && decision.status === 'refused' && decision.source !== 'none'
    if (waiter !== this.#waiters.first || !canWait) {
      // The ticket of a later call could be before that of the first one, because requests take different
      // times. Then the first call would wait for a ticket that nobody uses.
      this.#calls.leave(waiter.call.id, waiter.source)
    }
    if (!canWait && !waiter.hasEnded) {
      this.#resolve(waiter, this.#calls.refuse(decision))
    } else if (decision.status === 'refused') {
      this.#hasRefused = true
      if (waiter === this.#waiters.first) {
        this.#pollAfter(decision)
      }
    }
  }

  /** Asks for the first call later, after a refusal of it. */
  #pollAfter({ policy, retryAfterMs }: Extract<Decision, { readonly status: 'refused' }>): void {
    if (this.#calls.isConcurrency(policy)) {
      this.#window = 1
      this.#setTimer(this.#hasReleased ? 0 : this.#pollMs())
    } else {
      // A rate admits the call no earlier than this. It will then admit about as many calls as before.
      this.#window = Math.max(1, Math.min(2 * this.#granted, MAX_WINDOW))
      const delayMs = Math.min(retryAfterMs, MAX_POLL_MS)
      this.#rateUntil = this.#calls.time.now() + delayMs
      this.#setTimer(delayMs)
    }
    this.#granted = 0
  }

  #pollMs(): number {
    const meanHoldMs = this.#calls.meanHoldMs() ?? Number.POSITIVE_INFINITY
    return Math.min(Math.max(MIN_POLL_MS, Math.ceil(meanHoldMs / POLLS_PER_HOLD)), POLL_MS)
  }

  #setTimer(delayMs: number): void {
    const { time } = this.#calls
    time.clearTimeout(this.#timer)
    this.#timerMs = delayMs
    this.#timer = time.setTimeout(() => this.#endPoll(), delayMs)
  }

  #onLate(waiter: Waiter): void {
    waiter.isLate = true
    if (!waiter.isAsking) {
      // The last request keeps the turn of the call.
      void this.#ask(waiter, this.#calls.time.now())
    }
  }

  #abandon(waiter: Waiter, error: Error): void {
    // A request in flight drops the ticket when it is answered.
    if (waiter.wasAsked && !waiter.isAsking) {
      this.#calls.leave(waiter.call.id, waiter.source)
    }
    this.#reject(waiter, error)
  }

  #resolve(waiter: Waiter, permit: Permit): void {
    this.#end(waiter)
    waiter.resolve(permit)
  }

  #reject(waiter: Waiter, error: unknown): void {
    this.#end(waiter)
    waiter.reject(error)
  }

  #end(waiter: Waiter): void {
    const { signal } = waiter.call
    waiter.hasEnded = true
    this.#calls.time.clearTimeout(waiter.timer)
    if (signal !== undefined) {
      removeAbortListener(signal, waiter.onAbort)
    }
    const wasFirst = waiter === this.#waiters.first
    this.#waiters.remove(waiter)
    if (wasFirst && this.#timer !== undefined && this.#timerMs > POLL_MS) {
      // The rate may admit the next call earlier.
      this.#setTimer(POLL_MS)
    }
    if (this.#waiters.size === 0) {
      this.#calls.time.clearTimeout(this.#timer)
      this.#timer = undefined
      this.#hasRefused = false
      this.#window = Math.max(this.#window, FIRST_WINDOW)
      this.#endIfEmpty()
    }
  }

  /** Requests under way keep the queue, so that their permits go to later calls, which need no requests. */
  #endIfEmpty(): void {
    if (this.#waiters.size === 0 && this.#asking === 0) {
      this.#calls.onEmpty()
    }
  }
}
