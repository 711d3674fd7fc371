import type { LimiterBackend } from '../backends/limiter-backend.js'
import type { FirstCall, OperationResult } from '../backends/operation.js'
import { isNone } from '../backends/units.js'
import { microsOf } from '../input/duration.js'
import type { Keys } from '../input/keys.js'
import { HAS_REQUEST_IO } from '../platform/request-io.js'
import { timers } from '../platform/timers.js'
import type { PlatformTimer, WaitingTime } from '../platform/waiting-time.js'
import type { PolicySet } from '../policies/policy-set.js'
import { canSettle } from './can-settle.js'
import type { Allowed, Decision } from './decision.js'
import { TollgateError } from './error.js'
import {
  grantedAt,
  HeldPermit,
  isAboutToExpire,
  type PermitHold,
  type PermitRequest,
  type StoredPermit,
} from './held-permit.js'
import { HoldTimes } from './hold-times.js'
import { checkExtension } from './metered-units.js'
import { type AcquireCall, expiresMsOf, type Permit, permitKeys } from './permit.js'
import { PermitQueue } from './permit-queue.js'
import { chargeFor } from './refund.js'
import { type HoldCall, MAX_EXPIRY_US, ReservationHandle } from './reservation.js'
import { HOLD_BYTES, type KnownReservation } from './reservation-id.js'
import { abortError } from './scheduled-waits.js'
import { StorePermit } from './store-permit.js'

/** How long a granted permit may pass to other calls of this process, and overtake those of other processes. */
const PASSING_MS = 50

/** The most permits that pass in one tick. Holders that release them at once would otherwise block the event loop. */
const MAX_PASSES_IN_TICK = 64

/** The checks of held permits in the life of the shortest one: a signal is aborted before its permit expires. */
const CHECKS_PER_LIFE = 20

export class PermitPool {
  readonly #time: WaitingTime
  readonly #held = new Set<HeldPermit>()
  readonly #holdTimes = new HoldTimes()
  /** By key, tag and tier. A queue without calls is removed. */
  readonly #queues = new Map<string, PermitQueue>()
  #nextId = Math.floor(Math.random() * 2 ** 52) + 1
  #timer: PlatformTimer | undefined
  #checkMs = Number.POSITIVE_INFINITY
  #isClosed = false
  #passesInTick = 0
  /** The number of requests under way for calls that have no permit yet. */
  #requests = 0
  /** Called by the last of them, once the pool is closed. */
  #onLastRequest: (() => void) | undefined

  constructor(time: WaitingTime) {
    this.#time = time
  }

  /** Takes units with a permit. The backend is called synchronously, unless earlier calls on the key wait. */
  async acquire(currentBackend: () => LimiterBackend, keys: Keys, call: AcquireCall): Promise<Permit> {
    if (call.signal?.aborted) {
      throw abortError(call.signal, false)
    }
    if (call.maxWaitMs === 0) {
      const id = this.#newId()
      const { decision, request } = await this.#ask(currentBackend, keys, id, call, -1)
      return decision.allowed
        ? this.#permitOf(this.#hold(request, decision, ''), '')
        : this.#refusedPermit(currentBackend, decision)
    }
    const { tier, callId } = call
    const id = this.#newId()
    // A call with an id never gets the permit of another call, and its permit passes to no other call. Where timers
    // belong to one request, each call waits by its own.
    const isAlone = callId !== undefined || HAS_REQUEST_IO
    const name = JSON.stringify([keys.keys, keys.tag, tier, ...(isAlone ? [id] : [])])
    let queue = this.#queues.get(name)
    if (queue === undefined) {
      queue = this.#newQueue(name, currentBackend, keys, { tier, callId })
      this.#queues.set(name, queue)
    }
    return queue.wait({ id, units: call.units, maxWaitMs: call.maxWaitMs, signal: call.signal })
  }

  /** Rejects waiting calls, aborts the signals of permits and releases them, also those that are granted meanwhile. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const queue of this.#queues.values()) {
      queue.close(closedError())
    }
    const released = [...this.#held].map((permit) => {
      permit.lose()
      return permit.release().catch(() => undefined)
    })
    this.#held.clear()
    this.#setTimer()
    await Promise.all(released)
    if (this.#requests > 0) {
      await new Promise<void>((resolve) => {
        this.#onLastRequest = resolve
      })
    }
  }

  #newQueue(
    name: string,
    currentBackend: () => LimiterBackend,
    keys: Keys,
    call: Pick<AcquireCall, 'tier' | 'callId'>,
  ): PermitQueue {
    return new PermitQueue({
      time: this.#time,
      ask: (id, units, waitedUs) => this.#ask(currentBackend, keys, id, { ...call, units }, waitedUs),
      grant: (request, decision) => this.#permitOf(this.#hold(request, decision, name), name),
      giveBack: (request, decision) => void this.#giveBack(keys, request, decision),
      refuse: (decision) => this.#refusedPermit(currentBackend, decision),
      leave: (id, source) => void this.#leave(currentBackend, keys, id, source),
      isConcurrency: (policy) => isConcurrency(currentBackend().policySet, policy),
      meanHoldMs: () => this.#holdTimes.meanMs,
      onEmpty: () => this.#queues.delete(name),
    })
  }

  #newId(): number {
    this.#nextId = this.#nextId >= Number.MAX_SAFE_INTEGER ? 1 : this.#nextId + 1
    return this.#nextId
  }

  /**
   * Asks the store for a permit. If the outcome is unknown, the permit is released; that of a call with an id is kept
   * for the call that repeats it, until it expires.
   */
  async #ask(
    currentBackend: () => LimiterBackend,
    keys: Keys,
    id: number,
    { units, tier, ttlUs, callId }: RequestedUnits,
    waitedUs: number,
  ): Promise<{ decision: Decision; request: PermitRequest }> {
    const backend = currentBackend()
    const { policySet } = backend
    // By the numbers and the time of the request: the permit lives at least this long from then on.
    const expiresMs = expiresMsOf(policySet)
    const request: PermitRequest = {
      id,
      units,
      expiresMs,
      since: this.#time.elapsedMs(),
      keys: permitKeys(policySet, keys),
      currentBackend,
      hold: canSettle(policySet) ? newHold(id, keys, tier as string | undefined, expiresMs, ttlUs) : undefined,
      callId,
    }
    const hold = request.hold ?? (callId === undefined ? undefined : { id: holdIdOf(id), durationUs: 0 })
    this.#requests++
    try {
      const { decision, decidedAtMs, first } = await backend.execute(keys, {
        kind: 'acquire',
        units,
        permit: id,
        waitedUs,
        ...(hold !== undefined && { hold }),
        callId,
      })
      // The life of a permit of the embedded share begins when the share decides, after the store has failed.
      const own = first === undefined ? request : repeatedBy(request, first)
      const granted = decidedAtMs === undefined ? own : { ...own, since: decidedAtMs }
      // The answer may come after the life of the permit, because the process or the network stood still.
      const isLost = decision.allowed && decision.source !== 'none' && isAboutToExpire(granted, this.#time.elapsedMs())
      if (!this.#isClosed && !isLost) {
        return { decision, request: granted }
      }
      if (decision.allowed) {
        void this.#giveBack(keys, request, decision)
      } else {
        void this.#leave(currentBackend, keys, id, decision.source)
      }
      if (!this.#isClosed) {
        throw new TollgateError('PERMIT_LOST', 'the permit had expired when the answer of the store came')
      }
    } catch (error) {
      if (callId === undefined && (!TollgateError.is(error) || error.charged === 'unknown')) {
        void this.#leave(currentBackend, keys, id, 'store')
      }
      throw error
    } finally {
      this.#endRequest()
    }
    throw closedError()
  }

  /** Ends a permit that nobody uses, or drops a ticket. If that fails, they expire by themselves. */
  async #leave(
    currentBackend: () => LimiterBackend,
    keys: Keys,
    id: number,
    source: Decision['source'],
  ): Promise<void> {
    this.#requests++
    try {
      const backend = currentBackend()
      const own = permitKeys(backend.policySet, keys)
      await backend.execute(own, { kind: 'release', source, permit: id })
    } catch {
    } finally {
      this.#endRequest()
    }
  }

  /**
   * Ends a permit that nobody uses, and refunds its units under the other policies. That of a call with an id is kept
   * for the call that repeats it.
   */
  async #giveBack(keys: Keys, request: PermitRequest, decision: Allowed): Promise<void> {
    const { id, hold, units, currentBackend, callId } = request
    const { source } = decision
    if (callId !== undefined) {
      return
    }
    if (hold === undefined) {
      return this.#leave(currentBackend, keys, id, source)
    }
    this.#requests++
    try {
      const backend = currentBackend()
      const { hold: own, heldUnits, expiresAtUs, charges } = reservationOf(request, hold, decision, backend.policySet)
      const actual = typeof units === 'number' ? 0 : units.map(() => 0)
      await backend.execute(keys, { kind: 'settle', hold: own, source, heldUnits, expiresAtUs, charges, actual })
    } catch {
      // The units stay charged, and the permit expires.
    } finally {
      this.#endRequest()
    }
  }

  #endRequest(): void {
    this.#requests--
    if (this.#requests === 0) {
      this.#onLastRequest?.()
    }
  }

  #hold(request: PermitRequest, decision: Allowed, name: string): HeldPermit {
    const { since, hold, currentBackend } = request
    const permit = new HeldPermit({ ...request, decision }, since, this.#time.elapsedMs)
    if (hold !== undefined) {
      const { policySet } = currentBackend()
      permit.reservation = new ReservationHandle(reservationOf(request, hold, decision, policySet), hold.durationUs, {
        call: this.#callFor(permit, hold, name),
        chargeOf: (later, units) => chargeFor(policySet, later, units),
        meters: policySet.meters,
      })
    }
    this.#add(permit)
    return permit
  }

  /** The calls on a hold. A settlement also ends the permit. */
  #callFor(permit: HeldPermit, { keys }: PermitHold, name: string): HoldCall {
    return async (operation) => {
      if (this.#isClosed) {
        throw new TollgateError('CLOSED', 'the limiter has been closed')
      }
      const backend = permit.stored.currentBackend()
      if (operation.kind === 'extend') {
        checkExtension(operation.units, backend.policySet)
      }
      // The hold of a permit that a repeated call got again may have ended before.
      const isRepeated = operation.kind === 'settle' && permit.stored.first !== undefined
      const released = isRepeated ? permit.release() : undefined
      const result = backend.execute(keys, operation)
      if (operation.kind !== 'settle') {
        return result
      }
      // Released units go to calls of this process in the same flush.
      this.#queues.get(name)?.askNow()
      const [settled, heldMs] = await Promise.all([result, released])
      this.#onSettled(permit, settled, isRepeated ? heldMs !== undefined : !isNone(settled.held ?? 0))
      return settled
    }
  }

  #onSettled(permit: HeldPermit, { decision }: OperationResult, wasHeld: boolean): void {
    permit.wasHeld ??= wasHeld && !permit.isLost
    this.#held.delete(permit)
    if (this.#held.size === 0) {
      this.#setTimer()
    }
    if (wasHeld) {
      this.#holdTimes.add(Math.max(0, decision.at - grantedAt(permit.stored)))
    }
  }

  #add(permit: HeldPermit): void {
    // A decision without a store holds nothing.
    if (permit.stored.decision.source !== 'none') {
      this.#held.add(permit)
      if (HAS_REQUEST_IO) {
        this.#setOwnTimer(permit)
      } else {
        this.#setTimer(permit.stored)
      }
    }
  }

  /** Checks a permit by a timer of the request that holds it. */
  #setOwnTimer(permit: HeldPermit): void {
    const timer = this.#time.setInterval(() => {
      if (this.#held.has(permit)) {
        this.#checkPermit(permit)
      } else {
        this.#time.clearInterval(timer)
      }
    }, permit.stored.expiresMs / CHECKS_PER_LIFE)
  }

  #setTimer(added?: StoredPermit): void {
    const checkMs = added === undefined ? Number.POSITIVE_INFINITY : added.expiresMs / CHECKS_PER_LIFE
    if (this.#held.size === 0 || checkMs < this.#checkMs) {
      this.#time.clearInterval(this.#timer)
      this.#timer = undefined
      this.#checkMs = checkMs
    }
    if (this.#held.size > 0 && this.#timer === undefined) {
      this.#timer = this.#time.setInterval(() => this.#check(), this.#checkMs)
      // Held permits do not keep the process alive; the work does.
      this.#timer.unref?.()
    }
  }

  /** All renewals of one check are sent in one flush. */
  #check(): void {
    for (const permit of this.#held) {
      this.#checkPermit(permit)
    }
    if (this.#held.size === 0) {
      this.#setTimer()
    }
  }

  #checkPermit(permit: HeldPermit): void {
    permit.check()
    if (permit.isLost) {
      this.#held.delete(permit)
      const { currentBackend, keys, id, decision, callId } = permit.stored
      // A repeated call may have moved the end of the reservation.
      if (permit.isOver && callId === undefined) {
        void this.#leave(currentBackend, keys, id, decision.source)
      }
    }
  }

  /** @param name - The queue that released units go to first. */
  #permitOf(held: HeldPermit, name: string): Permit {
    return new StorePermit(held, () => this.#release(held, name))
  }

  #refusedPermit(currentBackend: () => LimiterBackend, decision: Exclude<Decision, Allowed>): Permit {
    this.#holdTimes.estimateIn(decision, (limit) => isConcurrency(currentBackend().policySet, limit))
    return { allowed: false, decision, async [Symbol.asyncDispose]() {} }
  }

  async #release(held: HeldPermit, name: string): Promise<boolean> {
    const { stored } = held
    if (stored.decision.source === 'none') {
      return true
    }
    if (held.reservation !== undefined) {
      return this.#releaseAsEstimated(held, held.reservation)
    }
    if (this.#passesInTick >= MAX_PASSES_IN_TICK && this.#queues.has(name)) {
      await new Promise((resolve) => timers.setImmediate(resolve))
    }
    const isHeld = this.#held.delete(held) && !held.isLost
    if (this.#held.size === 0) {
      this.#setTimer()
    }
    if (this.#isClosed) {
      return false
    }
    const queue = this.#queues.get(name)
    const passOn = () => {
      const passed = held.passedOn()
      this.#countPass()
      this.#add(passed)
      return this.#permitOf(passed, name)
    }
    if (isHeld && this.#mayPass(stored) && queue?.give(stored.units, passOn)) {
      return true
    }
    const result = held.release()
    queue?.askNow()
    const heldMs = await result
    if (heldMs === undefined || !isHeld) {
      return false
    }
    this.#holdTimes.add(heldMs)
    return true
  }

  /** Ends a permit whose units stay charged as estimated. May be called again. */
  async #releaseAsEstimated(held: HeldPermit, reservation: ReservationHandle): Promise<boolean> {
    if (held.wasHeld === undefined && !this.#isClosed) {
      await reservation.settle(undefined)
    }
    return held.wasHeld ?? false
  }

  #countPass(): void {
    if (this.#passesInTick++ === 0) {
      timers.setImmediate(() => {
        this.#passesInTick = 0
      })
    }
  }

  /** Whether a permit may pass to another call without a request to the store. */
  #mayPass({ since, currentBackend }: StoredPermit): boolean {
    const { policies } = currentBackend().policySet
    return (
      this.#time.elapsedMs() - since < PASSING_MS && policies.every(({ policy }) => policy.algorithm === 'concurrency')
    )
  }
}

function closedError(): TollgateError {
  return new TollgateError('CLOSED', 'the limiter has been closed', { charged: 'unknown' })
}

/** A call for a permit, as the store is asked for it. */
type RequestedUnits = Pick<AcquireCall, 'units' | 'tier' | 'ttlUs' | 'callId'>

/** The request of a repeated call: it gets the permit and the hold of the first one. */
function repeatedBy(request: PermitRequest, first: FirstCall): PermitRequest {
  const id = first.hold as Uint8Array
  const view = new DataView(id.buffer)
  const permit = view.getUint32(HOLD_BYTES - 8) * 2 ** 32 + view.getUint32(HOLD_BYTES - 4)
  const hold = request.hold && { ...request.hold, id }
  return { ...request, id: permit, units: first.units, hold, first }
}

/** A hold of the units of a permit: as long as the permit lives, or until a reservation ends. */
function newHold(
  permit: number,
  keys: Keys,
  tier: string | undefined,
  expiresMs: number,
  ttlUs: number | undefined,
): PermitHold {
  return {
    id: holdIdOf(permit),
    durationUs: ttlUs ?? microsOf(expiresMs),
    keys,
    tier,
    lastsAsPermit: ttlUs === undefined,
  }
}

/** A new identifier of a hold. It has the id of the permit. */
function holdIdOf(permit: number): Uint8Array {
  const id = crypto.getRandomValues(new Uint8Array(HOLD_BYTES))
  const view = new DataView(id.buffer)
  view.setUint32(HOLD_BYTES - 8, Math.floor(permit / 2 ** 32))
  view.setUint32(HOLD_BYTES - 4, permit % 2 ** 32)
  return id
}

function reservationOf(
  { units, first }: PermitRequest,
  { id, keys, tier, durationUs, lastsAsPermit }: PermitHold,
  decision: Allowed,
  policySet: PolicySet,
): KnownReservation {
  // Nothing renews a permit without a store.
  const isEndless = lastsAsPermit && decision.source === 'none'
  return {
    hold: id,
    keys,
    tier,
    source: decision.source,
    heldUnits: units,
    expiresAtUs: first?.expiresAtUs ?? microsOf(decision.at) + (isEndless ? MAX_EXPIRY_US : durationUs),
    charges: [chargeFor(policySet, decision, units)],
  }
}

/** Whether the limit that a decision reports is one of units at a time. */
function isConcurrency({ limits, policies }: PolicySet, name: string): boolean {
  const limit = limits.find((limit) => limit.name === name)
  return limit !== undefined && policies[limit.policy]?.policy.algorithm === 'concurrency'
}
