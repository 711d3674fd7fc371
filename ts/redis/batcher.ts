import type * as native from '../../native.js'
import type { Decision } from '../decision.js'
import { TollgateError } from '../error.js'
import { type RedisAnswers, resultAt } from './answer.js'
import { Deadlines, type Waiting } from './deadlines.js'
import { Pending } from './pending.js'
import { inRootContext } from './root-context.js'

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

/** The calls of one limiter that wait to be sent: the native side has noted the same, in the same order. */
export class Queue {
  waiting: Waiting[] = []
  /** The limiter's calls that wait to be sent or to be answered. */
  readonly pending = new Pending()

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
  readonly #deadlines: Deadlines
  #queues: Queue[] = []
  #scheduled = false
  #partial = 0
  readonly #pending = new Pending()
  #closed = false

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

  /** Waits for the decision of a call that has just been noted in the queue's ledger. */
  noted(queue: Queue): Promise<Decision<'default'>> {
    return new Promise((resolve, reject) => {
      const waiting = {
        pending: queue.pending,
        resolve,
        reject,
        deadline: performance.now() + this.#timeoutMs,
        isSettled: false,
      }
      this.#pending.add()
      queue.pending.add()
      this.#deadlines.add(waiting)
      if (queue.waiting.push(waiting) === 1) {
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

  /** Runs a call that goes by itself, counted with the others. */
  async alone<T>(queue: Queue, run: () => T | Promise<T>): Promise<T> {
    this.checkRoom()
    this.#pending.add()
    queue.pending.add()
    try {
      return await inRootContext(run)
    } finally {
      this.#pending.remove()
      queue.pending.remove()
    }
  }

  /** Takes no more calls, and resolves when none is waiting any more. */
  close(): Promise<void> {
    this.#closed = true
    return this.#pending.idle()
  }

  readonly #flush = (): void => {
    this.#scheduled = false
    // Without a connection nothing is gained by waiting, and each batch is to fail by its own deadline.
    if (this.#queues.length > 0 && (this.#partial < MOST_PARTIAL || !this.#store.isUp)) {
      const queues = this.#queues
      this.#queues = []
      this.#send(queues, true)
    }
  }

  /** Sends all that the queues hold; nobody waits for it beyond the last call's deadline. */
  #send(queues: readonly Queue[], isPartial: boolean): void {
    const batch: Waiting[] = []
    for (const queue of queues) {
      batch.push(...queue.waiting)
      queue.waiting = []
    }
    let latest = 0
    for (const waiting of batch) {
      latest = Math.max(latest, waiting.deadline)
    }
    const timeoutMs = Math.max(1, Math.ceil(latest - performance.now()))
    const ledgers = queues.map((queue) => queue.ledger)
    this.#partial += isPartial ? 1 : 0
    inRootContext(() => {
      this.#submitted(ledgers, timeoutMs)
        .then(
          (answers) => this.#answer(batch, answers),
          (cause: unknown) => this.#fail(batch, cause),
        )
        .finally(() => {
          this.#partial -= isPartial ? 1 : 0
          this.#flush()
        })
    })
  }

  async #submitted(ledgers: readonly native.RedisLedger[], timeoutMs: number): Promise<RedisAnswers> {
    return this.#store.submit(ledgers, timeoutMs)
  }

  #answer(batch: readonly Waiting[], answers: RedisAnswers): void {
    batch.forEach((waiting, index) => {
      this.#settle(waiting, resultAt(answers, index))
    })
  }

  /** The engine itself failed: nobody is left waiting. */
  #fail(batch: readonly Waiting[], cause: unknown): void {
    const error = new TollgateError('STORE_ERROR', 'the engine failed: please report this', {
      charged: 'unknown',
      cause,
    })
    for (const waiting of batch) {
      this.#settle(waiting, error)
    }
  }

  /** The call's own deadline has passed, while its batch, which may have been sent or not, has a later one. */
  #expire(waiting: Waiting): void {
    this.#settle(waiting, new TollgateError('STORE_TIMEOUT', 'Redis did not answer in time', { charged: 'unknown' }))
  }

  #settle(waiting: Waiting, result: Decision<'default'> | TollgateError): void {
    if (waiting.isSettled) {
      return
    }
    waiting.isSettled = true
    if (result instanceof TollgateError) {
      waiting.reject(result)
    } else {
      waiting.resolve(result)
    }
    this.#pending.remove()
    waiting.pending.remove()
  }
}
