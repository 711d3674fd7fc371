import type * as native from '../../../../generated/native.js'
import { TollgateError } from '../../../api/error.js'
import type { Keys } from '../../../input/keys.js'
import { timers } from '../../../platform/timers.js'
import { YieldTicks } from '../../../platform/yield-tick.js'
import type { Units } from '../../units.js'
import type { Health } from '../health.js'
import type { PolicyRegistry } from '../policy-registry.js'
import { Backpressure } from './backpressure.js'
import { type PendingCall, TickBatch } from './deadlines.js'
import { deferred } from './deferred.js'
import { InFlightCounter } from './in-flight.js'
import { currentMadeAt } from './made-at.js'
import type { FlushResponses, ResponseDecoder } from './response-decoder.js'
import { scheduler } from './scheduler.js'

/**
 * A batch is sent as soon as it reaches this weight. Redis decides it in less than 0.5 ms, and all
 * other calls wait for that time. A larger batch would gain little.
 */
const FULL_WEIGHT = 256

/**
 * The fewest calls of a flush that is sent before the tick ends, unless calls were just answered:
 * their callers usually call again, and Redis should not wait for the last of them.
 */
const MIN_EARLY = 32

/**
 * The part of the pending calls that forms a flush: a quarter, so that neither side falls asleep (see
 * {@link RttEstimator}); of many calls half, which costs less and keeps both sides busy for long.
 */
const partOf = (pending: number) => pending / (pending < 128 ? 4 : 2)

/** The decay of an earlier peak, per flush. */
const PEAK_DECAY = 0.95

/** Sends flushes and peeks: the native store, or a transport over a user's client. */
export interface FlushTransport extends Pick<native.NativeRedisStore, 'submit' | 'peek' | 'isUp'> {
  /**
   * Whether each flush is a request of its own, such as one over HTTP. Calls are then not sent before
   * the tick ends: a request costs more than the wait for a few other calls.
   */
  readonly isRequestPerFlush?: boolean
}

/**
 * The queued calls of one prefix, whose limiters share their keys. The native call buffer has the same calls in the
 * same order.
 */
export class CallQueue {
  calls: PendingCall[] = []

  /** @param weight - The weight of each call: see `callWeightOf`. */
  constructor(
    readonly callBuffer: native.NativeRedisLimiter,
    readonly weight: number,
  ) {}
}

/** Sends the calls of all limiters on a store, those of one tick of the event loop in one flush. */
export class Batcher<
  S extends FlushTransport = FlushTransport,
  H extends Pick<Health, 'down' | 'whenKnown'> = Pick<Health, 'down' | 'whenKnown'>,
> {
  readonly #deadlines = scheduler.trackDeadlines((call) => this.#expire(call))
  readonly #pending = new InFlightCounter()
  readonly #yieldTicks = new YieldTicks()
  #closed = false
  /** The calls that are not sent yet: their queues, number and total weight. */
  #queues: CallQueue[] = []
  #queuedCount = 0
  #queuedWeight = 0
  /** The calls of this tick of the event loop, since the last flush. */
  #tick = new TickBatch()
  #latestDeadline = 0
  #scheduled = false
  readonly #backpressure = new Backpressure(() => this.#sendQueued())
  /**
   * A part of the recent peak of pending calls; a flush of this size is sent immediately, while
   * fewer than four are at the server. So Redis works on one part while this process works on another. Calls are
   * usually repeated in the flushes in which they were sent, so flushes of 60 and 4 calls would otherwise stay so.
   */
  #partOfPeak = 0
  /** The calls answered in this tick of the event loop. */
  #answeredThisTick = 0

  constructor(
    readonly native: S,
    readonly health: H,
    private readonly timeoutMs: number,
    private readonly maxPending: number,
    readonly policyRegistry?: PolicyRegistry,
  ) {}

  get pending(): number {
    return this.#pending.count
  }

  get isDown(): boolean {
    return this.health.down !== undefined
  }

  /**
   * Rejects if the store is down, or if the call has waited until its deadline for another call. Throws if the
   * store is closed, or if one more call would exceed `maxPending`.
   */
  rejection(): Promise<never> | undefined {
    if (this.#closed) {
      throw new TollgateError('CLOSED', 'the store has been closed')
    }
    const { down } = this.health
    if (down !== undefined) {
      return this.#yieldTicks.reject(new TollgateError('STORE_UNAVAILABLE', `Redis is not available: ${down}`))
    }
    const since = currentMadeAt()
    if (since !== undefined && timers.now() - since >= this.timeoutMs) {
      const reason = 'Redis did not answer another call, for which this call waited, in time'
      return this.#yieldTicks.reject(new TollgateError('STORE_UNAVAILABLE', reason))
    }
    if (this.#pending.count >= this.maxPending) {
      throw new TollgateError('OVERLOADED', `maxPending: ${this.maxPending} calls are waiting for the store`)
    }
    return undefined
  }

  /** Adds a call that is already in the call buffer. It takes `cost` units, if any. */
  enqueue<T>(queue: CallQueue, decoder: ResponseDecoder<T>, key: string | Keys, cost: Units): Promise<T> {
    const { promise, resolve, reject } = deferred<T>()
    const call: PendingCall<T> = { resolve, reject, decoder, key, cost, tick: this.#tick, isSettled: false }
    this.#track(call as PendingCall)
    if (queue.calls.push(call as PendingCall) === 1) {
      this.#queues.push(queue)
    }
    this.#queuedCount++
    this.#queuedWeight += queue.weight
    // The size from which a partial flush is sent before the tick ends.
    const partialSize = Math.max(this.#partOfPeak, this.#answeredThisTick === 0 ? MIN_EARLY : 1)
    if (this.#queuedWeight >= FULL_WEIGHT) {
      this.#send(false)
    } else if (!this.native.isRequestPerFlush && this.#queuedCount >= partialSize && this.#backpressure.mayIdle) {
      this.#send(true)
    } else {
      this.#scheduleFlush()
    }
    const since = currentMadeAt()
    if (since !== undefined) {
      this.#expireAt(call as PendingCall, since + this.timeoutMs)
    }
    return promise
  }

  /** Sends a call in its own flush, after all queued calls. `submit` sends it, or throws. */
  sendAlone<T>(
    decoder: ResponseDecoder<T>,
    key: string | Keys,
    submit: (flush: number, timeoutMs: number) => void,
  ): Promise<T> {
    const rejection = this.rejection()
    if (rejection !== undefined) {
      return rejection
    }
    if (this.#queuedCount > 0) {
      this.#send(true)
    }
    const { promise, resolve, reject } = deferred<T>()
    const call: PendingCall<T> = { resolve, reject, decoder, key, cost: 0, tick: this.#tick, isSettled: false }
    this.#track(call as PendingCall)
    this.#endTick()
    const number = this.#beginFlush([call as PendingCall], false)
    try {
      submit(number, this.timeoutMs)
    } catch (error) {
      this.#backpressure.end(number, undefined)
      this.#settleCall(call as PendingCall, error)
    }
    return promise
  }

  /** Settles the calls of a flush, or only those at `indices`. Their responses begin at the index `first`. */
  complete(number: number, responses: FlushResponses, indices: Uint32Array | undefined, first = 0): void {
    const calls = this.#backpressure.end(number, indices)
    // Queued calls are sent together with the calls that callers repeat in this tick. Sent alone
    // they would form a small flush, which would stay small.
    this.#answeredThisTick += calls.length
    this.#scheduleFlush()
    if (responses.numbers.length === 0) {
      this.#fail(calls, undefined)
    }
    let isAnswered = false
    for (let index = 0; index < calls.length; index++) {
      const call = calls[index] as PendingCall
      const result = call.decoder.decodeAt(responses, first + index, call)
      isAnswered ||= !(result instanceof TollgateError)
      this.#settleCall(call, result)
    }
    if (isAnswered) {
      this.policyRegistry?.publishDue()
    }
  }

  expire(number: number): void {
    for (const call of this.#backpressure.end(number, undefined)) {
      this.#expire(call)
    }
  }

  /** Rejects further calls, and resolves when no call is pending. */
  close(): Promise<void> {
    this.#closed = true
    return this.#pending.whenIdle()
  }

  #track(call: PendingCall): void {
    this.#pending.add()
    call.decoder.inFlight.add()
    call.tick.add(call)
  }

  #scheduleFlush(): void {
    if (!this.#scheduled) {
      this.#scheduled = true
      scheduler.runAfterTick(this.#flush)
    }
  }

  readonly #flush = (): void => {
    this.#scheduled = false
    this.#answeredThisTick = 0
    this.#sendQueued()
    this.#endTick()
  }

  #sendQueued(): void {
    // Without a connection waiting gains nothing, and each flush must fail by its own deadline.
    if (
      this.#queuedCount > 0 &&
      (!scheduler.hasBackpressure || !this.#backpressure.shouldWait() || !this.native.isUp)
    ) {
      this.#send(true)
    }
  }

  #send(isPartial: boolean): void {
    this.#endTick()
    const queues = this.#queues
    const [first] = queues
    const calls = queues.length === 1 && first ? first.calls : queues.flatMap((queue) => queue.calls)
    for (const queue of queues) {
      queue.calls = []
    }
    this.#queues = []
    this.#queuedCount = 0
    this.#queuedWeight = 0
    const timeoutMs = Math.max(1, Math.ceil(this.#latestDeadline - timers.now()))
    const number = this.#beginFlush(calls, isPartial)
    const callBuffers = queues.map((queue) => queue.callBuffer)
    try {
      this.native.submit(number, callBuffers, timeoutMs)
    } catch (cause) {
      this.#fail(this.#backpressure.end(number, undefined), cause)
    }
  }

  #beginFlush(calls: readonly PendingCall[], isPartial: boolean): number {
    this.#partOfPeak = Math.max(partOf(this.#pending.count), this.#partOfPeak * PEAK_DECAY)
    return this.#backpressure.begin(calls, isPartial)
  }

  #endTick(): void {
    const tick = this.#tick
    if (!tick.isSettled) {
      this.#latestDeadline = timers.now() + this.timeoutMs
      tick.deadline = this.#latestDeadline
      this.#deadlines.add(tick)
      this.#tick = new TickBatch()
    }
  }

  #fail(calls: readonly PendingCall[], cause: unknown): void {
    const error = new TollgateError('STORE_ERROR', 'the engine failed: please report this', {
      charged: 'unknown',
      cause,
    })
    for (const call of calls) {
      this.#settleCall(call, error)
    }
  }

  /** Its flush, sent or not, may have a later deadline. */
  #expire(call: PendingCall): void {
    this.#settleCall(call, new TollgateError('STORE_TIMEOUT', 'Redis did not answer in time', { charged: 'unknown' }))
  }

  /** Expires a call before the other calls of its tick: it has waited for another call. */
  #expireAt(call: PendingCall, deadline: number): void {
    const wait = Math.max(1, deadline - timers.now())
    const timer = timers.setTimeout(() => timers.setImmediate(() => this.#expire(call)), wait)
    call.cancelTimer = () => timers.clearTimeout(timer)
  }

  #settleCall(call: PendingCall, result: unknown): void {
    if (call.isSettled) {
      return
    }
    call.isSettled = true
    call.cancelTimer?.()
    if (result instanceof TollgateError) {
      call.reject(result)
    } else {
      call.resolve(result)
    }
    call.tick.callSettled()
    call.decoder.inFlight.remove()
    this.#pending.remove()
    if (this.#pending.count === 0) {
      this.#deadlines.idle()
    }
  }
}
