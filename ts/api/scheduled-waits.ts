import type { LimiterBackend } from '../backends/limiter-backend.js'
import type { ScheduledCharges, ScheduledReservation } from '../backends/operation.js'
import type { Keys } from '../input/keys.js'
import { type Linked, LinkedList } from '../platform/linked-list.js'
import { HAS_REQUEST_IO } from '../platform/request-io.js'
import { timers } from '../platform/timers.js'
import type { PlatformTimer, WaitingTime } from '../platform/waiting-time.js'
import { withUnits } from './decision-metadata.js'
import { TollgateError } from './error.js'
import { type AbortSignalLike, type WaitCall, type WaitedOrRefused, waitTooLongError } from './wait.js'

interface Slot extends Linked<Slot> {
  readonly answer: WaitedOrRefused
  /** When it comes, by the clock of the waits. */
  readonly until: number
  /** The name of its queue. */
  readonly name: string
  readonly currentBackend: () => LimiterBackend
  readonly keys: Keys
  /** For cancelling it. */
  readonly charges: ScheduledCharges | undefined
  /** The position of its response among all responses. */
  readonly sequence: number
  timer?: PlatformTimer | undefined
}

/** The waits for one key, tier and cost, and their slots. The first wait gets the first slot. */
interface SlotQueue {
  readonly waits: LinkedList<PendingWait>
  readonly slots: LinkedList<Slot>
}

interface PendingWait extends Linked<PendingWait> {
  readonly call: WaitCall
  readonly resolve: (decision: WaitedOrRefused) => void
  readonly reject: (error: unknown) => void
  readonly onAbort: () => void
  /** When it began, by the clock of the waits. */
  readonly startedAt: number
  /** Until the units that the key owes are paid. */
  timer?: PlatformTimer | undefined
  /** The queue in which it waits, once its slot is scheduled. */
  queueName?: string
  hasEnded: boolean
}

/**
 * The waits of a limiter for their scheduled slots.
 *
 * A slot that comes goes to the first wait of its key, tier and cost. So if a wait is aborted, the later ones of
 * this process move up, and their last slot is cancelled: no other can be, once a later one is scheduled.
 * Slots that are abandoned together, by one signal or by {@link close}, are cancelled in reverse order.
 *
 * Where timers belong to one request, each wait keeps its own slot.
 */
export class ScheduledWaits {
  readonly #time: WaitingTime
  readonly #pending = new Set<PendingWait>()
  /** Scheduling and cancelling requests without a response yet. */
  readonly #inFlight = new Set<Promise<unknown>>()
  readonly #queues = new Map<string, SlotQueue>()
  #abandoned: Slot[] = []
  #isClosing = false
  #responseCount = 0

  constructor(time: WaitingTime) {
    this.#time = time
  }

  /** Schedules a slot, and resolves when it arrives. The backend is called synchronously. */
  wait(currentBackend: () => LimiterBackend, keys: Keys, call: WaitCall): Promise<WaitedOrRefused> {
    return new Promise((resolve, reject) => {
      const { signal } = call
      const onAbort = (): void => this.#reject(wait, abortError(signal as AbortSignalLike, 'unknown'))
      const startedAt = this.#time.now()
      const wait: PendingWait = { call, resolve, reject, onAbort, startedAt, hasEnded: false }
      this.#pending.add(wait)
      if (signal !== undefined) {
        addAbortListener(signal, onAbort)
      }
      this.#schedule(wait, currentBackend, keys, call.maxWaitMs)
    })
  }

  #schedule(wait: PendingWait, currentBackend: () => LimiterBackend, keys: Keys, maxWaitMs: number): void {
    // An async function turns a thrown error into a rejection.
    const schedule = async () => currentBackend().schedule(keys, wait.call.cost, maxWaitMs * 1_000)
    const scheduled = schedule().then(
      (reservation) => this.#onScheduled(wait, currentBackend, keys, reservation),
      (error) => this.#reject(wait, error),
    )
    this.#track(scheduled)
  }

  /** Rejects all waits. Resolves when their slots have been cancelled, if there are any. */
  close(): Promise<void> | undefined {
    this.#isClosing = true
    for (const wait of this.#pending) {
      this.#reject(wait, new TollgateError('CLOSED', 'the limiter has been closed', { charged: 'unknown' }))
    }
    return this.#inFlight.size === 0 && this.#abandoned.length === 0 ? undefined : this.#finishClosing()
  }

  async #finishClosing(): Promise<void> {
    // Requests in flight have the last slots.
    await Promise.all(this.#inFlight)
    this.#cancelAbandoned()
    await Promise.all(this.#inFlight)
  }

  #onScheduled(
    wait: PendingWait,
    currentBackend: () => LimiterBackend,
    keys: Keys,
    { decision, waitUs, charges }: ScheduledReservation,
  ): void {
    const { call } = wait
    const elapsedMs = wait.timer === undefined ? 0 : this.#time.now() - wait.startedAt
    const answer: WaitedOrRefused = { ...decision, waitedMs: elapsedMs + waitUs / 1_000 }
    withUnits(answer, currentBackend().origin, keys, call.cost)
    const until = this.#time.now() + waitUs / 1_000
    const sequence = this.#responseCount++
    const own = HAS_REQUEST_IO ? [sequence] : []
    const name = waitUs > 0 ? JSON.stringify([keys.keys, keys.tag, call.tier, call.cost, ...own]) : ''
    const slot: Slot = { answer, until, name, currentBackend, keys, charges, sequence }
    if (wait.hasEnded) {
      this.#abandon(slot)
    } else if (!answer.allowed) {
      const leftMs = Math.floor(call.maxWaitMs - elapsedMs)
      if (isOwing(answer, leftMs)) {
        wait.timer = this.#time.setTimeout(() => {
          const leftMs = Math.max(0, Math.floor(call.maxWaitMs - (this.#time.now() - wait.startedAt)))
          this.#schedule(wait, currentBackend, keys, leftMs)
        }, answer.retryAfterMs)
      } else if (call.resolvesRefusal) {
        this.#resolve(wait, answer)
      } else {
        this.#reject(wait, waitTooLongError(answer, call))
      }
    } else if (waitUs > 0) {
      this.#enqueue(wait, slot)
    } else {
      this.#resolve(wait, answer)
    }
  }

  /** A wait and its slot take their places, usually the last ones. */
  #enqueue(wait: PendingWait, slot: Slot): void {
    const queue = this.#queues.get(slot.name) ?? { waits: new LinkedList(), slots: new LinkedList() }
    this.#queues.set(slot.name, queue)
    wait.queueName = slot.name
    queue.waits.insertAfter(this.#insert(queue, slot), wait)
    // Not before the wait has its place: the slot may have come already.
    this.#sleep(queue, slot)
  }

  /** Adds a slot in order. @returns The wait that gets the slot before it. */
  #insert({ waits, slots }: SlotQueue, slot: Slot): PendingWait | undefined {
    let [previous, wait] = [slots.last, waits.last]
    while (previous !== undefined && previous.until > slot.until) {
      ;[previous, wait] = [previous.previous, wait?.previous]
    }
    slots.insertAfter(previous, slot)
    return wait
  }

  #dropLast({ slots }: SlotQueue): Slot {
    const last = slots.last as Slot
    slots.remove(last)
    this.#time.clearTimeout(last.timer)
    return last
  }

  #sleep(queue: SlotQueue, slot: Slot): void {
    const left = slot.until - this.#time.now()
    if (left > 0) {
      // A timer may fire a millisecond early: then it is set again.
      slot.timer = this.#time.setTimeout(() => this.#sleep(queue, slot), Math.ceil(left))
      return
    }
    // The timer of an earlier slot may fire a moment later. Each call gets its own slot all the same.
    const { slots, waits } = queue
    while (slots.first !== undefined && slots.first.until <= slot.until) {
      const { timer, answer } = slots.first
      slots.remove(slots.first)
      this.#time.clearTimeout(timer)
      this.#resolve(waits.first as PendingWait, answer)
    }
  }

  #resolve(wait: PendingWait, answer: WaitedOrRefused): void {
    this.#end(wait)
    wait.resolve(answer)
  }

  #reject(wait: PendingWait, error: unknown): void {
    if (!wait.hasEnded) {
      this.#end(wait)
      wait.reject(error)
    }
  }

  #end(wait: PendingWait): void {
    wait.hasEnded = true
    this.#time.clearTimeout(wait.timer)
    if (wait.call.signal !== undefined) {
      removeAbortListener(wait.call.signal, wait.onAbort)
    }
    this.#pending.delete(wait)
    const name = wait.queueName
    const queue = name === undefined ? undefined : this.#queues.get(name)
    if (name === undefined || queue === undefined) {
      return
    }
    queue.waits.remove(wait)
    if (queue.slots.size > queue.waits.size) {
      this.#abandon(this.#dropLast(queue))
    }
    if (queue.waits.size === 0) {
      this.#queues.delete(name)
    }
  }

  /** Schedules the cancellation of a slot that no wait uses. */
  #abandon(slot: Slot): void {
    if (slot.charges !== undefined && this.#abandoned.push(slot) === 1 && !this.#isClosing) {
      // Other waits may be aborted by the same signal.
      timers.queueMicrotask(() => this.#cancelAbandoned())
    }
  }

  #cancelAbandoned(): void {
    const abandoned = this.#abandoned.map((slot) => this.#exchanged(slot)).sort((a, b) => b.sequence - a.sequence)
    this.#abandoned = []
    for (const { currentBackend, keys, charges, answer } of abandoned) {
      const { source } = answer
      const cancel = async () => {
        return currentBackend().execute(keys, { kind: 'cancelScheduled', source, charges: charges as ScheduledCharges })
      }
      // The error is ignored: the wait has been rejected already.
      this.#track(cancel().catch(() => {}))
    }
  }

  /** Exchanges a slot for a later one of its queue, if there is one: its wait may have ended before the response. */
  #exchanged(slot: Slot): Slot {
    const queue = this.#queues.get(slot.name)
    const last = queue?.slots.last
    if (queue === undefined || last === undefined || last.until <= slot.until) {
      return slot
    }
    const later = this.#dropLast(queue)
    this.#insert(queue, slot)
    this.#sleep(queue, slot)
    return later
  }

  #track(promise: Promise<unknown>): void {
    const tracked = promise.finally(() => this.#inFlight.delete(tracked))
    this.#inFlight.add(tracked)
  }
}

/**
 * Whether a call got no slot because its key owes units, which are paid in time: any other slot that is near enough is
 * scheduled.
 */
function isOwing(
  answer: WaitedOrRefused,
  leftMs: number,
): answer is Extract<WaitedOrRefused, { allowed: false }> & {
  readonly retryAfterMs: number
} {
  return answer.status === 'refused' && answer.source !== 'none' && answer.retryAfterMs <= leftMs
}

/**
 * The abort listener that all waits with one signal share, such as that of a process shutdown. Node warns of a
 * leak when an event target has more than ten listeners.
 */
const sharedListeners = new WeakMap<
  AbortSignalLike,
  { readonly listeners: Set<() => void>; readonly notify: () => void }
>()

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

export function removeAbortListener(signal: AbortSignalLike, listener: () => void): void {
  const shared = sharedListeners.get(signal)
  if (shared?.listeners.delete(listener) && shared.listeners.size === 0) {
    sharedListeners.delete(signal)
    signal.removeEventListener('abort', shared.notify)
  }
}

export function abortError(signal: AbortSignalLike, charged: false | 'unknown'): TollgateError {
  return new TollgateError('ABORTED', 'the wait has been aborted', { cause: signal.reason, charged })
}
