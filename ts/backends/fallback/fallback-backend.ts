import type { Decision } from '../../api/decision.js'
import { TollgateError, type TollgateErrorCode } from '../../api/error.js'
import type { Keys } from '../../input/keys.js'
import { Turns } from '../../platform/yield-tick.js'
import { compiled } from '../compiled.js'
import type { Engine } from '../engine.js'
import { type Answers, answersOf, type Ledger } from '../limiter-backend.js'
import type { Booking, Operation, Performed } from '../operation.js'

/** What answers instead of a store that fails: at once. */
export interface Fallback {
  take(key: string, cost: number): Decision
  takeBy(keys: Keys, cost: number): Decision
  takeMany(keys: readonly string[], costs: readonly number[]): Answers
  /**
   * Operations that give something back only of what this fallback took. A change that it cannot make is told as
   * such: the decision's source is `'none'`.
   */
  perform(keys: Keys, operation: Operation): Performed
  book(keys: Keys, cost: number, maxWaitUs: number): Booking
  close(): void
}

/** The failures that are the store's: all others are the caller's, and would be so on any store. */
const FAILURES: readonly TollgateErrorCode[] = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT', 'STORE_ERROR', 'OVERLOADED']

/** Throws an error that is no failure of the store. */
function checkFailure(error: unknown): void {
  if (!(error instanceof TollgateError) || !FAILURES.includes(error.code)) {
    throw error
  }
}

/**
 * A limiter's keys on a store that may fail, and what answers then.
 *
 * While the store is known to be down the fallback is asked at once; otherwise it is asked when the store has
 * failed. Calls that fail together are answered in the order in which they were made.
 */
export class GuardedLedger implements Ledger {
  readonly isSync = false
  readonly origin: object
  readonly #store: Ledger
  readonly #fallback: Fallback
  readonly #engine: Engine
  readonly #turns = new Turns()

  /**
   * @param fallback - Stamps decisions as the store's ledger does.
   * @param engine - What knows which numbers it can count with.
   */
  constructor(store: Ledger, fallback: Fallback, engine: Engine) {
    this.origin = store.origin
    this.#engine = engine
    this.#store = store
    this.#fallback = fallback
  }

  get isDown(): boolean {
    return this.#store.isDown
  }

  // As #either does it, without its closures: it is the call that is made most.
  take(key: string, cost: number): Decision | Promise<Decision> {
    const fallback = this.#fallback
    if (this.#store.isDown) {
      return this.#turns.give(fallback.take(key, cost))
    }
    const instead = (error: unknown): Decision => {
      checkFailure(error)
      return fallback.take(key, cost)
    }
    try {
      return Promise.resolve(this.#store.take(key, cost)).then(undefined, instead)
    } catch (error) {
      return instead(error)
    }
  }

  takeBy(keys: Keys, cost: number): Decision | Promise<Decision> {
    return this.#either(
      () => this.#store.takeBy(keys, cost),
      () => this.#fallback.takeBy(keys, cost),
    )
  }

  async takeMany(keys: readonly string[], costs: readonly number[]): Promise<Answers> {
    if (this.#store.isDown) {
      return this.#turns.give(this.#fallback.takeMany(keys, costs))
    }
    // Each by itself: what the store decides of the others stands, and who asks next is not answered before these.
    const calls = keys.map(async (key, index) => this.take(key, costs[index] as number))
    return answersOf(await Promise.allSettled(calls))
  }

  perform(keys: Keys, operation: Operation): Performed | Promise<Performed> {
    switch (operation.kind) {
      // What somebody took is given back to them, and to nobody else.
      case 'refund':
      case 'settle':
      case 'unbook':
        return operation.source === 'store'
          ? this.#store.perform(keys, operation)
          : this.#fallback.perform(keys, operation)
      case 'reset':
      case 'unblock':
      case 'clearOverride':
        return this.#either(
          () => this.#store.perform(keys, operation),
          () => this.#fallback.perform(keys, operation),
          // What the store takes back of a key is not to hold again when the fallback answers the next time.
          (performed) => {
            this.#fallback.perform(keys, operation)
            return performed
          },
        )
      case 'override':
        // What is wrong with the numbers is the caller's, whoever is asked.
        for (const policy of operation.policies) {
          if (policy !== undefined) {
            compiled(this.#engine, policy, 'override: ')
          }
        }
        break
    }
    return this.#either(
      () => this.#store.perform(keys, operation),
      () => this.#fallback.perform(keys, operation),
    )
  }

  book(keys: Keys, cost: number, maxWaitUs: number): Booking | Promise<Booking> {
    return this.#either(
      () => this.#store.book(keys, cost, maxWaitUs),
      () => this.#fallback.book(keys, cost, maxWaitUs),
    )
  }

  ready(): Promise<void> {
    return this.#store.ready()
  }

  async close(): Promise<void> {
    try {
      await this.#store.close()
    } finally {
      // Only now: the calls that were under way may have failed, and been answered by it.
      this.#fallback.close()
    }
  }

  /** What the store answers; if it is down or fails, what the fallback does. */
  #either<T>(ask: () => T | Promise<T>, answer: () => T, then?: (answered: T) => T): T | Promise<T> {
    if (this.#store.isDown) {
      return this.#turns.give(answer())
    }
    const instead = (error: unknown): T => {
      checkFailure(error)
      return answer()
    }
    try {
      return Promise.resolve(ask()).then(then, instead)
    } catch (error) {
      return instead(error)
    }
  }
}
