import type { Decision } from '../decision.js'
import { TollgateError, type TollgateErrorCode } from '../error.js'
import type { Keys } from '../keys.js'
import type { Booking, Operation, Performed } from '../operation.js'
import { type Answers, answersOf, type Ledger } from '../store.js'
import { Turns } from '../turns.js'

/** What changes the store's own memory: nobody else can do it. */
type Change = 'reset' | 'block' | 'unblock' | 'override' | 'clearOverride'

/** What can be answered instead of the store. */
export type Answerable = Exclude<Operation, { readonly kind: Change }>

/** What answers instead of a store that fails: at once. */
export interface Fallback {
  take(key: string, cost: number): Decision
  takeBy(keys: Keys, cost: number): Decision
  takeMany(keys: readonly string[], costs: readonly number[]): Answers
  /** Those that give something back only of what this fallback took. */
  perform(keys: Keys, operation: Answerable): Performed
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
  readonly #turns = new Turns()

  /** @param fallback - Stamps decisions as the store's ledger does. */
  constructor(store: Ledger, fallback: Fallback) {
    this.origin = store.origin
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
      case 'peek':
      case 'takeUpTo':
      case 'penalize':
      case 'reserve':
        return this.#either(
          () => this.#store.perform(keys, operation),
          () => this.#fallback.perform(keys, operation),
        )
      // What somebody took is given back to them, and to nobody else.
      case 'refund':
      case 'settle':
      case 'unbook':
        return operation.source === 'store'
          ? this.#store.perform(keys, operation)
          : this.#fallback.perform(keys, operation)
      default:
        return this.#store.perform(keys, operation)
    }
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
  #either<T>(ask: () => T | Promise<T>, answer: () => T): T | Promise<T> {
    if (this.#store.isDown) {
      return this.#turns.give(answer())
    }
    const instead = (error: unknown): T => {
      checkFailure(error)
      return answer()
    }
    try {
      return Promise.resolve(ask()).then(undefined, instead)
    } catch (error) {
      return instead(error)
    }
  }
}
