import type { Decision } from '../decision.js'
import type { TollgateError } from '../error.js'
import type { Pending } from './pending.js'
import { inRootContext } from './root-context.js'

/** A call that waits for its decision. */
export interface Waiting {
  readonly resolve: (decision: Decision<'default'>) => void
  readonly reject: (error: TollgateError) => void
  /** What it is counted in, beside the store's count. */
  readonly pending: Pending
  /** When it gives up, by `performance.now()`. */
  readonly deadline: number
  isSettled: boolean
}

/**
 * The engine has the same deadline, to the millisecond, and knows more about why: its answer is waited for a
 * little longer.
 */
const GRACE_MS = 25

/** So many settled calls may stand at the head of the list before it is cut. */
const SLACK = 1_024

/**
 * One timer for the deadlines of all calls.
 *
 * All calls have the same timeout, so they give up in the order in which they were made: the timer is set
 * for the first that waits.
 */
export class Deadlines {
  readonly #expire: (waiting: Waiting) => void
  #calls: Waiting[] = []
  #head = 0
  #timer: NodeJS.Timeout | undefined

  constructor(expire: (waiting: Waiting) => void) {
    this.#expire = expire
  }

  /** Watches a call, which is made after all the others. */
  add(waiting: Waiting): void {
    this.#calls.push(waiting)
    if (this.#timer === undefined) {
      this.#set(waiting.deadline)
    }
    this.#skipSettled()
  }

  #skipSettled(): void {
    while (this.#calls[this.#head]?.isSettled) {
      this.#head++
    }
    if (this.#head > SLACK && this.#head * 2 > this.#calls.length) {
      this.#calls = this.#calls.slice(this.#head)
      this.#head = 0
    }
  }

  #set(deadline: number): void {
    // What keeps the process alive is the work under way, not the timer.
    const wait = Math.max(1, deadline + GRACE_MS - performance.now())
    this.#timer = inRootContext(() => setTimeout(this.#ring, wait).unref())
  }

  readonly #ring = (): void => {
    const now = performance.now()
    this.#timer = undefined
    for (;;) {
      this.#skipSettled()
      const first = this.#calls[this.#head]
      if (first === undefined) {
        return
      }
      if (first.deadline + GRACE_MS > now) {
        this.#set(first.deadline)
        return
      }
      this.#expire(first)
    }
  }
}
