import { AsyncLocalStorage } from 'node:async_hooks'
import type * as native from '../../native.js'
import type { Decision } from '../decision.js'
import { TollgateError } from '../error.js'
import { type RedisAnswers, resultAt } from './answer.js'

/**
 * A batch of so many keys goes at once: Redis decides it in a third of a millisecond. Waiting for more
 * would gain little.
 */
const FULL = 128

/**
 * So many smaller batches are under way at most: while Redis works on two, the calls that come meanwhile
 * make a larger third.
 */
const MOST_PARTIAL = 2

/** Runs a function outside of any caller's AsyncLocalStorage context. */
const inRootContext = AsyncLocalStorage.snapshot()

interface Waiting {
  readonly resolve: (decision: Decision<'default'>) => void
  readonly reject: (error: TollgateError) => void
}

/** The calls of one limiter that wait to be sent: the native side notes the same, in the same order. */
export class Queue {
  waiting: Waiting[] = []
  /** When the first of them gives up, by `performance.now()`. */
  deadline = 0

  constructor(readonly ledger: native.RedisLedger) {}
}

/**
 * Sends the calls of all limiters on a store in batches.
 *
 * Calls made in one turn of the event loop go together, in one native call and one pipeline, and come back
 * together, in one promise.
 */
export class Batcher {
  readonly #store: native.RedisStore
  readonly #timeoutMs: number
  readonly #maxPending: number
  #queues: Queue[] = []
  #scheduled = false
  #partial = 0
  #pending = 0
  #drained: (() => void)[] = []

  constructor(store: native.RedisStore, timeoutMs: number, maxPending: number) {
    this.#store = store
    this.#timeoutMs = timeoutMs
    this.#maxPending = maxPending
  }

  /** Throws if one more call would be too many. */
  checkRoom(): void {
    if (this.#pending >= this.#maxPending) {
      throw new TollgateError('OVERLOADED', `maxPending: ${this.#maxPending} calls are waiting for the store`)
    }
  }

  /** Waits for the decision of a call that has just been noted in the queue's ledger. */
  noted(queue: Queue): Promise<Decision<'default'>> {
    return new Promise((resolve, reject) => {
      this.#pending++
      if (queue.waiting.push({ resolve, reject }) === 1) {
        queue.deadline = performance.now() + this.#timeoutMs
        this.#queues.push(queue)
      }
      if (queue.waiting.length === FULL) {
        this.#queues.splice(this.#queues.indexOf(queue), 1)
        this.#send([queue], false)
      } else if (!this.#scheduled) {
        this.#scheduled = true
        inRootContext(() => setImmediate(this.#flush))
      }
    })
  }

  /** Resolves when no call is waiting any more. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#pending === 0) {
        resolve()
      } else {
        this.#drained.push(resolve)
      }
    })
  }

  readonly #flush = (): void => {
    this.#scheduled = false
    if (this.#queues.length > 0 && this.#partial < MOST_PARTIAL) {
      const queues = this.#queues
      this.#queues = []
      this.#send(queues, true)
    }
  }

  #send(queues: readonly Queue[], partial: boolean): void {
    const earliest = Math.min(...queues.map((queue) => queue.deadline))
    const timeoutMs = Math.max(1, Math.ceil(earliest - performance.now()))
    const waiting = queues.flatMap((queue) => queue.waiting)
    for (const queue of queues) {
      queue.waiting = []
    }
    this.#partial += partial ? 1 : 0
    inRootContext(() => {
      this.#store
        .submit(
          queues.map((queue) => queue.ledger),
          timeoutMs,
        )
        .then(
          (answers) => this.#settle(waiting, answers, partial),
          (cause: unknown) => this.#fail(waiting, cause, partial),
        )
    })
  }

  #settle(waiting: readonly Waiting[], answers: RedisAnswers, partial: boolean): void {
    waiting.forEach(({ resolve, reject }, index) => {
      const result = resultAt(answers, index)
      if (result instanceof TollgateError) {
        reject(result)
      } else {
        resolve(result)
      }
    })
    this.#done(waiting.length, partial)
  }

  /** The engine itself failed: nobody is left waiting. */
  #fail(waiting: readonly Waiting[], cause: unknown, partial: boolean): void {
    for (const { reject } of waiting) {
      reject(new TollgateError('STORE_ERROR', 'the engine failed: please report this', { charged: 'unknown', cause }))
    }
    this.#done(waiting.length, partial)
  }

  #done(count: number, partial: boolean): void {
    this.#pending -= count
    this.#partial -= partial ? 1 : 0
    if (this.#pending === 0) {
      for (const resolve of this.#drained.splice(0)) {
        resolve()
      }
    }
    this.#flush()
  }
}
