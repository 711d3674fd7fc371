import { addAbortListener, removeAbortListener } from '../api/scheduled-waits.js'
import type { AbortSignalLike } from '../api/wait.js'
import { timers } from '../platform/timers.js'
import type { PlatformTimer, WaitingTime } from '../platform/waiting-time.js'
import { Heap } from './heap.js'
import { deadlineOf, type ScheduledCall } from './scheduled-call.js'
import { nameOfNeed, type TurnNeed } from './turn-need.js'

/** The most calls that leave together in one turn of the event loop. Their callers react in the same turn. */
const MAX_LEAVING = 256

export type LeavingReason = 'aborted' | 'late' | 'closed'

interface Waiting {
  readonly call: ScheduledCall
  readonly group: Group
  /** Its place in the heap of its group. */
  groupIndex: number
  /** Its place in the heap of all calls. */
  orderIndex: number
  /** Its place in the heap of all deadlines. */
  deadlineIndex: number
  /** `false`: it is in no order any more, and leaves soon. */
  canStart: boolean
}

/** The calls that need the same turn, in the order in which they start. */
interface Group {
  readonly name: string
  readonly need: TurnNeed
  readonly calls: Heap<'groupIndex', Waiting>
}

interface Signalled {
  readonly calls: Set<Waiting>
  readonly onAbort: () => void
}

export interface WaitingCallsOwner {
  readonly time: WaitingTime
  /** A call that cannot wait until this time is late. */
  hopelessUntil(): number
  leave(call: ScheduledCall, reason: LeavingReason): void
  onLeft(): void
}

/**
 * The waiting calls of one key. Adding a call, taking the next one and removing one cost O(log n). Calls that leave at
 * the same time, by one signal or at one deadline, leave in several turns of the event loop.
 */
export class WaitingCalls {
  readonly #owner: WaitingCallsOwner
  readonly #waiting = new Map<ScheduledCall, Waiting>()
  readonly #groups = new Map<string, Group>()
  /** All calls in order: with costs by meter there may be as many groups as calls. */
  readonly #order = new Heap<'orderIndex', Waiting>('orderIndex', startsBefore)
  readonly #deadlines = new Heap<'deadlineIndex', Waiting>('deadlineIndex', isDueBefore)
  readonly #signals = new Map<AbortSignalLike, Signalled>()
  /** The calls of aborted signals that have not left yet. An iterator does not pass those again that have. */
  readonly #aborted: Iterator<Waiting>[] = []
  #isClosing = false
  #timer: PlatformTimer | undefined
  #timerAt = Number.POSITIVE_INFINITY
  #isLeavingLater = false

  constructor(owner: WaitingCallsOwner) {
    this.#owner = owner
  }

  /** The calls that have not left, also those that will not start. */
  get size(): number {
    return this.#waiting.size
  }

  /** The calls that may start. */
  get startable(): number {
    return this.#order.size
  }

  add(call: ScheduledCall): void {
    if (call.signal?.aborted === true) {
      // Its signal tells nobody any more.
      this.#owner.leave(call, 'aborted')
      return
    }
    const name = nameOfNeed(call)
    const group = this.#groups.get(name) ?? { name, need: call, calls: new Heap('groupIndex', startsBefore) }
    this.#groups.set(name, group)
    const waiting: Waiting = { call, group, groupIndex: 0, orderIndex: 0, deadlineIndex: 0, canStart: true }
    this.#waiting.set(call, waiting)
    group.calls.add(waiting)
    this.#order.add(waiting)
    this.#deadlines.add(waiting)
    this.#listen(waiting)
    if (deadlineOf(call) < this.#owner.hopelessUntil()) {
      this.#remove(waiting)
      this.#owner.leave(call, 'late')
    } else {
      this.#setTimer()
    }
  }

  allNeed(need: TurnNeed): boolean {
    return this.#groups.size === 1 && this.needs(need)
  }

  needs(need: TurnNeed): boolean {
    return this.#groups.has(nameOfNeed(need))
  }

  /** The first calls, at most `count`, in order. */
  first(count: number): ScheduledCall[] {
    const first: Waiting[] = []
    while (first.length < count) {
      const next = this.#order.take()
      if (next === undefined) {
        break
      }
      first.push(next)
    }
    for (const waiting of first) {
      this.#order.add(waiting)
    }
    return first.map(({ call }) => call)
  }

  take(need: TurnNeed): ScheduledCall | undefined {
    const calls = this.#groups.get(nameOfNeed(need))?.calls
    for (let next = calls?.peek(); next !== undefined; next = calls?.peek()) {
      if (next.call.signal?.aborted !== true) {
        this.#remove(next)
        return next.call
      }
      this.#setAside(next)
    }
    return undefined
  }

  remove(call: ScheduledCall): boolean {
    const waiting = this.#waiting.get(call)
    if (waiting === undefined) {
      return false
    }
    this.#remove(waiting)
    return true
  }

  close(): void {
    this.#isClosing = true
    this.letLeave()
  }

  /** Lets the calls leave that are aborted or late, some in each turn of the event loop. */
  letLeave(): void {
    let left = 0
    for (; left < MAX_LEAVING; left++) {
      const [waiting, reason] = this.#nextToLeave() ?? []
      if (waiting === undefined) {
        break
      }
      this.#remove(waiting)
      this.#owner.leave(waiting.call, reason as LeavingReason)
    }
    this.#setTimer()
    if (left === MAX_LEAVING && !this.#isLeavingLater) {
      this.#isLeavingLater = true
      timers.setImmediate(() => {
        this.#isLeavingLater = false
        this.letLeave()
      })
    }
    if (left > 0) {
      this.#owner.onLeft()
    }
  }

  #nextToLeave(): readonly [Waiting, LeavingReason] | undefined {
    for (let calls = this.#aborted[0]; calls !== undefined; calls = this.#aborted[0]) {
      const { done, value } = calls.next()
      if (done !== true) {
        return [value, 'aborted']
      }
      this.#aborted.shift()
    }
    const first = this.#deadlines.peek()
    if (first === undefined) {
      return undefined
    }
    if (this.#isClosing) {
      return [first, 'closed']
    }
    const deadline = deadlineOf(first.call)
    const isLate = deadline <= this.#owner.time.now() || deadline < this.#owner.hopelessUntil()
    return isLate ? [first, 'late'] : undefined
  }

  /** Removes a call from the order in which calls start. It has yet to leave. */
  #setAside(waiting: Waiting): void {
    if (waiting.canStart) {
      waiting.canStart = false
      this.#order.remove(waiting)
      waiting.group.calls.remove(waiting)
      if (waiting.group.calls.size === 0) {
        this.#groups.delete(waiting.group.name)
      }
    }
  }

  #remove(waiting: Waiting): void {
    this.#setAside(waiting)
    this.#deadlines.remove(waiting)
    this.#waiting.delete(waiting.call)
    const { signal } = waiting.call
    const signalled = signal === undefined ? undefined : this.#signals.get(signal)
    if (signal !== undefined && signalled !== undefined) {
      signalled.calls.delete(waiting)
      if (signalled.calls.size === 0) {
        this.#signals.delete(signal)
        removeAbortListener(signal, signalled.onAbort)
      }
    }
    if (this.size === 0) {
      this.#setTimer()
    }
  }

  /** Many calls may share a signal, which then has one listener. */
  #listen(waiting: Waiting): void {
    const { signal } = waiting.call
    if (signal === undefined) {
      return
    }
    let signalled = this.#signals.get(signal)
    if (signalled === undefined) {
      const calls = new Set<Waiting>()
      const onAbort = () => {
        // None of them gets a turn while they leave. A heap removes its latest items fastest.
        for (const aborted of [...calls].reverse()) {
          this.#setAside(aborted)
        }
        this.#aborted.push(calls.values())
        this.letLeave()
      }
      signalled = { calls, onAbort }
      this.#signals.set(signal, signalled)
      addAbortListener(signal, onAbort)
    }
    signalled.calls.add(waiting)
  }

  /** One timer for all deadlines. It keeps the process alive while calls wait. */
  #setTimer(): void {
    const { time } = this.#owner
    const first = this.#deadlines.peek()
    const at = first === undefined ? Number.POSITIVE_INFINITY : deadlineOf(first.call)
    if (first !== undefined && this.#timer !== undefined && at >= this.#timerAt) {
      // `onDeadline` sets it again.
      return
    }
    time.clearTimeout(this.#timer)
    this.#timer = undefined
    this.#timerAt = at
    if (first !== undefined) {
      const onDeadline = () => {
        this.#timer = undefined
        this.letLeave()
      }
      this.#timer = time.setTimeout(onDeadline, Math.max(0, Math.ceil(at - time.now())))
    }
  }
}

/** Calls start by rank, then in the order in which they were made. */
function startsBefore({ call: one }: Waiting, { call: other }: Waiting): boolean {
  return one.rank < other.rank || (one.rank === other.rank && one.sequence < other.sequence)
}

function isDueBefore({ call: one }: Waiting, { call: other }: Waiting): boolean {
  const [first, second] = [deadlineOf(one), deadlineOf(other)]
  return first < second || (first === second && one.sequence < other.sequence)
}
