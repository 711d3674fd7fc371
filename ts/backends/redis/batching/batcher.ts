import type * as native from '../../../../native.js'
import { TollgateError } from '../../../api/error.js'
import type { Keys } from '../../../input/keys.js'
import { timers } from '../../../platform/timers.js'
import { Turns } from '../../../platform/yield-tick.js'
import type { Health } from '../health.js'
import type { NotedPolicies } from '../policy-registry.js'
import { Rounds } from './backpressure.js'
import { Turn, type Waiting } from './deadlines.js'
import { deferred } from './deferred.js'
import { Pending } from './in-flight.js'
import type { Asker, RedisAnswers } from './response-decoder.js'
import { pace, type Watch } from './scheduler.js'

/**
 * Calls of so much weight go at once: Redis decides them in less than half a millisecond, and all others wait as long.
 * Waiting for more would gain little.
 */
const FULL = 256

/** A round of fewer calls is not worth its own way. */
const LEAST_HALF = 32

/**
 * Where so many were just answered and ask again, rounds of so many are: else Redis and this process would go on taking
 * turns. With 16 to 32 in flight two at a time make 1.4 to 1.5 times the calls, and each costs either side 0 to 20 % more.
 */
const LEAST_HALF_AGAIN = 8

/** How much of an earlier peak still counts, by round. */
const FORGETTING = 0.95

/** What sends rounds: the native store, or one that has a client. */
type Rounder = Pick<native.RedisStore, 'submit' | 'isUp'>

/** What is known of the store. */
type Known = Pick<Health, 'down' | 'known'>

/**
 * The calls that wait to be sent, of the limiters of one prefix: they share their keys, so their calls must be
 * decided in order. The native side has noted the same, in the same order.
 */
export class Queue {
  waiting: Waiting[] = []

  /** @param weight - Of each of its calls: see `weightOf`. */
  constructor(
    readonly ledger: native.RedisLedger,
    readonly weight: number,
  ) {}
}

/**
 * Sends the calls of all limiters on a store in rounds.
 *
 * Calls made in one turn of the event loop go together, in one native call and one pipeline, and come back
 * together, in one call of {@link settle}.
 */
export class Batcher<S extends Rounder = Rounder, H extends Known = Known> {
  readonly native: S
  readonly health: H
  readonly #timeoutMs: number
  readonly notedPolicies: NotedPolicies | undefined
  readonly #maxPending: number
  readonly #deadlines: Watch
  readonly #pending = new Pending()
  readonly #turns = new Turns()
  #closed = false
  /** The calls that are still to be sent: by prefix; and how many, and of which weight. */
  #queues: Queue[] = []
  #queued = 0
  #weight = 0
  /** The calls of this turn of the event loop, up to those that have been sent. */
  #turn = new Turn()
  #latestDeadline = 0
  #scheduled = false
  readonly #rounds = new Rounds(() => this.#sendWaiting())
  /**
   * Half of the calls that wait at most these days. So many go at once: then Redis works on one half while this
   * process works on the other, where one round would have them take turns. Calls come back, and mostly go again, in
   * the rounds in which they went: were larger ones not cut here, rounds of 60 and 4 would remain so.
   */
  #half = 0
  /** How many calls have been answered in this turn of the event loop. */
  #answered = 0

  constructor(store: S, health: H, timeoutMs: number, maxPending: number, noted?: NotedPolicies) {
    this.notedPolicies = noted
    this.native = store
    this.health = health
    this.#timeoutMs = timeoutMs
    this.#maxPending = maxPending
    this.#deadlines = pace.watch((waiting) => this.#expire(waiting))
  }

  /** How many calls wait. */
  get pending(): number {
    return this.#pending.count
  }

  /** Whether the store is known to be down: a call would fail at once. */
  get isDown(): boolean {
    return this.health.down !== undefined
  }

  /** Rejects if the store is known to be down. Throws if no more calls are taken, or if one more would be too many. */
  refusal(): Promise<never> | undefined {
    if (this.#closed) {
      throw new TollgateError('CLOSED', 'the store has been closed')
    }
    const { down } = this.health
    if (down !== undefined) {
      return this.#turns.reject(new TollgateError('STORE_UNAVAILABLE', `Redis is not available: ${down}`))
    }
    if (this.#pending.count >= this.#maxPending) {
      throw new TollgateError('OVERLOADED', `maxPending: ${this.#maxPending} calls are waiting for the store`)
    }
    return undefined
  }

  /**
   * Waits for what becomes of a call that has just been noted in the queue's ledger.
   *
   * @param cost - The units that it is to take, if it takes some.
   */
  noted<T>(queue: Queue, asker: Asker<T>, key: string | Keys, cost: number): Promise<T> {
    const { promise, resolve, reject } = deferred<T>()
    const waiting: Waiting<T> = { resolve, reject, asker, key, cost, turn: this.#turn, isSettled: false }
    this.#add(queue, waiting as Waiting)
    return promise
  }

  /**
   * Sends a call that goes by itself, behind all that wait.
   *
   * @param submit - Sends it as a round of this number, or throws.
   */
  alone<T>(asker: Asker<T>, key: string | Keys, submit: (round: number, timeoutMs: number) => void): Promise<T> {
    const refusal = this.refusal()
    if (refusal !== undefined) {
      return refusal
    }
    if (this.#queued > 0) {
      this.#send(true)
    }
    const { promise, resolve, reject } = deferred<T>()
    const waiting: Waiting<T> = { resolve, reject, asker, key, cost: 0, turn: this.#turn, isSettled: false }
    this.#wait(waiting as Waiting)
    this.#endTurn()
    const number = this.#begun([waiting as Waiting], false)
    try {
      submit(number, this.#timeoutMs)
    } catch (error) {
      this.#rounds.end(number, undefined)
      this.#settle(waiting as Waiting, error)
    }
    return promise
  }

  /** Takes what became of a round, or of those of its calls that have these numbers. */
  settle(number: number, answers: RedisAnswers, numbers: Uint32Array | undefined): void {
    const calls = this.#rounds.end(number, numbers)
    // What waits goes with those who ask again, and who come in this turn of the event loop: by themselves few would come
    // back, and go, by themselves from now on.
    this.#answered += calls.length
    this.#schedule()
    if (answers.answers.length === 0) {
      this.#fail(calls, undefined)
    }
    let isAnswered = false
    for (let index = 0; index < calls.length; index++) {
      const waiting = calls[index] as Waiting
      const result = waiting.asker.resultAt(answers, index, waiting)
      isAnswered ||= !(result instanceof TollgateError)
      this.#settle(waiting, result)
    }
    if (isAnswered) {
      this.notedPolicies?.answered()
    }
  }

  /** Takes no more calls, and resolves when none is waiting any more. */
  close(): Promise<void> {
    this.#closed = true
    return this.#pending.idle()
  }

  #wait(waiting: Waiting): void {
    this.#pending.add()
    waiting.asker.pending.add()
    waiting.turn.add(waiting)
  }

  #add(queue: Queue, waiting: Waiting): void {
    this.#wait(waiting)
    if (queue.waiting.push(waiting) === 1) {
      this.#queues.push(queue)
    }
    this.#queued++
    this.#weight += queue.weight
    if (this.#weight >= FULL) {
      this.#send(false)
    } else if (this.#queued >= this.#enough && this.#rounds.hasRoom) {
      this.#send(true)
    } else {
      this.#schedule()
    }
  }

  /** So many calls are a round, if another may go. */
  get #enough(): number {
    return Math.max(this.#half, this.#answered < LEAST_HALF_AGAIN ? LEAST_HALF : LEAST_HALF_AGAIN)
  }

  #schedule(): void {
    if (!this.#scheduled) {
      this.#scheduled = true
      pace.soon(this.#flush)
    }
  }

  readonly #flush = (): void => {
    this.#scheduled = false
    this.#answered = 0
    this.#sendWaiting()
    this.#endTurn()
  }

  #sendWaiting(): void {
    // Without a connection nothing is gained by waiting, and each round is to fail by its own deadline.
    if (this.#queued > 0 && (!pace.holds || !this.#rounds.hold() || !this.native.isUp)) {
      this.#send(true)
    }
  }

  /** Sends all that is queued; nobody waits for it beyond the last call's deadline. */
  #send(isPartial: boolean): void {
    this.#endTurn()
    const queues = this.#queues
    const [first] = queues
    const calls = queues.length === 1 && first ? first.waiting : queues.flatMap((queue) => queue.waiting)
    for (const queue of queues) {
      queue.waiting = []
    }
    this.#queues = []
    this.#queued = 0
    this.#weight = 0
    const timeoutMs = Math.max(1, Math.ceil(this.#latestDeadline - timers.now()))
    const number = this.#begun(calls, isPartial)
    const ledgers = queues.map((queue) => queue.ledger)
    try {
      this.native.submit(number, ledgers, timeoutMs)
    } catch (cause) {
      this.#fail(this.#rounds.end(number, undefined), cause)
    }
  }

  #begun(calls: readonly Waiting[], isPartial: boolean): number {
    this.#half = Math.max(this.#pending.count / 2, this.#half * FORGETTING)
    return this.#rounds.begin(calls, isPartial)
  }

  #endTurn(): void {
    const turn = this.#turn
    if (!turn.isSettled) {
      this.#latestDeadline = timers.now() + this.#timeoutMs
      turn.deadline = this.#latestDeadline
      this.#deadlines.add(turn)
      this.#turn = new Turn()
    }
  }

  /** The engine itself failed: nobody is left waiting. */
  #fail(calls: readonly Waiting[], cause: unknown): void {
    const error = new TollgateError('STORE_ERROR', 'the engine failed: please report this', {
      charged: 'unknown',
      cause,
    })
    for (const waiting of calls) {
      this.#settle(waiting, error)
    }
  }

  /** The call's own deadline has passed, while its round, which may have been sent or not, has a later one. */
  #expire(waiting: Waiting): void {
    this.#settle(waiting, new TollgateError('STORE_TIMEOUT', 'Redis did not answer in time', { charged: 'unknown' }))
  }

  #settle(waiting: Waiting, result: unknown): void {
    if (waiting.isSettled) {
      return
    }
    waiting.isSettled = true
    if (result instanceof TollgateError) {
      waiting.reject(result)
    } else {
      waiting.resolve(result)
    }
    waiting.turn.settled()
    waiting.asker.pending.remove()
    this.#pending.remove()
    if (this.#pending.count === 0) {
      this.#deadlines.rest()
    }
  }
}
