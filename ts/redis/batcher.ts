import type * as native from '../../native.js'
import { TollgateError } from '../error.js'
import type { Keys } from '../keys.js'
import type { Asker, RedisAnswers } from './answer.js'
import { Deadlines, Turn, type Waiting } from './deadlines.js'
import { Pending } from './pending.js'
import { inRootContext } from './root-context.js'

/**
 * So many calls go at once: Redis decides them in a third of a millisecond. Waiting for more would gain
 * little.
 */
const FULL = 128

/**
 * So many smaller rounds are under way at most: while Redis works on two, the calls that come meanwhile
 * make a larger third.
 */
const MOST_PARTIAL = 2

/** A round of fewer calls is not worth its own way. */
const LEAST_HALF = 32

/** How much of an earlier peak still counts, by round. */
const FORGETTING = 0.95

/**
 * The calls that wait to be sent, of the limiters of one prefix: they share their keys, so their calls must be
 * decided in order. The native side has noted the same, in the same order.
 */
export class Queue {
  waiting: Waiting[] = []

  constructor(readonly ledger: native.RedisLedger) {}
}

/** Calls that were sent together. */
interface Round {
  readonly calls: readonly Waiting[]
  readonly isPartial: boolean
}

/**
 * Sends the calls of all limiters on a store in rounds.
 *
 * Calls made in one turn of the event loop go together, in one native call and one pipeline, and come back
 * together, in one call of {@link settle}.
 */
export class Batcher {
  readonly #store: native.RedisStore
  readonly #timeoutMs: number
  readonly #maxPending: number
  readonly #deadlines: Deadlines
  readonly #pending = new Pending()
  #closed = false
  /** The calls that are still to be sent: by prefix, and how many. */
  #queues: Queue[] = []
  #queued = 0
  /** The calls of this turn of the event loop, up to those that have been sent. */
  #turn = new Turn()
  #latestDeadline = 0
  #scheduled = false
  /**
   * By number: the rounds that are under way; the numbers that are free; how many rounds are partial. A `Map`
   * would leave its outgrown tables behind as garbage that keeps later ones alive until a full collection,
   * which took half of all time.
   */
  readonly #rounds: (Round | undefined)[] = []
  readonly #free: number[] = []
  #partial = 0
  #underWay = 0
  /**
   * Half of the calls that wait at most these days. If nothing is under way, so many go at once: then Redis
   * works on one half while this process works on the other, where one round would have them take turns.
   */
  #half = LEAST_HALF

  constructor(store: native.RedisStore, timeoutMs: number, maxPending: number) {
    this.#store = store
    this.#timeoutMs = timeoutMs
    this.#maxPending = maxPending
    this.#deadlines = new Deadlines((waiting) => this.#expire(waiting))
  }

  /** Throws if no more calls are taken, or if one more would be too many. */
  checkRoom(): void {
    if (this.#closed) {
      throw new TollgateError('CLOSED', 'the store has been closed')
    }
    if (this.#pending.count >= this.#maxPending) {
      throw new TollgateError('OVERLOADED', `maxPending: ${this.#maxPending} calls are waiting for the store`)
    }
  }

  /**
   * Waits for what becomes of a call that has just been noted in the queue's ledger.
   *
   * @param cost - The units that it is to take, if it takes some.
   */
  noted<T>(queue: Queue, asker: Asker<T>, key: string | Keys, cost: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting<T> = { resolve, reject, asker, key, cost, turn: this.#turn, isSettled: false }
      this.#add(queue, waiting as Waiting)
    })
  }

  /**
   * Sends a call that goes by itself, behind all that wait.
   *
   * @param submit - Sends it as a round of this number, or throws.
   */
  alone<T>(asker: Asker<T>, key: string | Keys, submit: (round: number, timeoutMs: number) => void): Promise<T> {
    this.checkRoom()
    if (this.#queued > 0) {
      this.#send(true)
    }
    return new Promise((resolve, reject) => {
      const waiting: Waiting<T> = { resolve, reject, asker, key, cost: 0, turn: this.#turn, isSettled: false }
      this.#wait(waiting as Waiting)
      this.#endTurn()
      const number = this.#begun({ calls: [waiting as Waiting], isPartial: false })
      try {
        submit(number, this.#timeoutMs)
      } catch (error) {
        this.#ended(number)
        this.#settle(waiting as Waiting, error)
      }
    })
  }

  /** Takes what became of a round. */
  settle(number: number, answers: RedisAnswers): void {
    const calls = this.#ended(number)
    this.#sendWaiting()
    if (answers.answers.length === 0) {
      this.#fail(calls, undefined)
    }
    for (let index = 0; index < calls.length; index++) {
      const waiting = calls[index] as Waiting
      this.#settle(waiting, waiting.asker.resultAt(answers, index, waiting))
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
    if (this.#queued === FULL) {
      this.#send(false)
    } else if (this.#underWay === 0 && this.#queued >= this.#half) {
      this.#send(true)
    } else if (!this.#scheduled) {
      this.#scheduled = true
      inRootContext(() => setImmediate(this.#flush))
    }
  }

  readonly #flush = (): void => {
    this.#scheduled = false
    this.#sendWaiting()
    this.#endTurn()
  }

  #sendWaiting(): void {
    // Without a connection nothing is gained by waiting, and each round is to fail by its own deadline.
    if (this.#queued > 0 && (this.#partial < MOST_PARTIAL || !this.#store.isUp)) {
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
    const timeoutMs = Math.max(1, Math.ceil(this.#latestDeadline - performance.now()))
    const number = this.#begun({ calls, isPartial })
    const ledgers = queues.map((queue) => queue.ledger)
    try {
      this.#store.submit(number, ledgers, timeoutMs)
    } catch (cause) {
      this.#fail(this.#ended(number), cause)
    }
  }

  #begun(round: Round): number {
    const number = this.#free.pop() ?? this.#rounds.length
    this.#rounds[number] = round
    this.#underWay++
    this.#partial += round.isPartial ? 1 : 0
    this.#half = Math.max(LEAST_HALF, this.#pending.count / 2, this.#half * FORGETTING)
    return number
  }

  #ended(number: number): readonly Waiting[] {
    const round = this.#rounds[number]
    if (round === undefined) {
      return []
    }
    this.#rounds[number] = undefined
    this.#free.push(number)
    this.#underWay--
    this.#partial -= round.isPartial ? 1 : 0
    return round.calls
  }

  #endTurn(): void {
    const turn = this.#turn
    if (!turn.isSettled) {
      this.#latestDeadline = performance.now() + this.#timeoutMs
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
