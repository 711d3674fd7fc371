import type { TollgateError } from '../../../api/error.js'
import { timers } from '../../../platform/timers.js'
import type { Asked, Asker } from './response-decoder.js'
import { inRootContext } from './root-context.js'

/** A call that waits for what becomes of it. */
export interface Waiting<T = unknown> extends Asked {
  readonly resolve: (result: T) => void
  readonly reject: (error: TollgateError) => void
  readonly asker: Asker<T>
  readonly turn: Turn
  isSettled: boolean
}

/** The calls that were made in one turn of the event loop. */
export class Turn {
  #calls: Waiting[] = []
  #open = 0
  /** When they give up, by `timers.now`: so long after the turn's end. */
  deadline = 0
  whenSettled: (() => void) | undefined

  get calls(): readonly Waiting[] {
    return this.#calls
  }

  /** Whether none of the calls waits. */
  get isSettled(): boolean {
    return this.#open === 0
  }

  /** One more call. */
  add(waiting: Waiting): void {
    this.#calls.push(waiting)
    this.#open++
  }

  /** One has been settled. What all have been told is not kept: it would outlive its time. */
  settled(): void {
    this.#open--
    if (this.#open === 0) {
      this.#calls = []
      this.whenSettled?.()
    }
  }
}

/**
 * The engine has the same deadline, to the millisecond, and knows more about why: its answer is waited for a
 * little longer.
 */
const GRACE_MS = 40

/** So many settled turns may stand at the head of the list before it is cut. */
const SLACK = 64

/**
 * One timer for the deadlines of all calls. It keeps the process alive while calls wait.
 *
 * All calls have the same timeout, so they give up in the order in which they were made: the timer is set
 * for the first that waits.
 */
export class Deadlines {
  readonly #expire: (waiting: Waiting) => void
  #turns: Turn[] = []
  #head = 0
  #timer: NodeJS.Timeout | undefined

  constructor(expire: (waiting: Waiting) => void) {
    this.#expire = expire
  }

  /** Watches the calls of a turn that has ended, after all the others. */
  add(turn: Turn): void {
    this.#turns.push(turn)
    if (this.#timer === undefined) {
      this.#set(turn.deadline)
    }
    this.#skipSettled()
    this.#timer?.ref()
  }

  /** Nobody waits any more. */
  rest(): void {
    this.#timer?.unref()
  }

  #skipSettled(): void {
    while (this.#turns[this.#head]?.isSettled) {
      this.#head++
    }
    if (this.#head > SLACK && this.#head * 2 > this.#turns.length) {
      this.#turns = this.#turns.slice(this.#head)
      this.#head = 0
    }
  }

  #set(deadline: number): void {
    const wait = Math.max(1, deadline + GRACE_MS - timers.now())
    this.#timer = inRootContext(() => timers.setTimeout(this.#ring, wait))
  }

  /**
   * After a turn in which the program kept the event loop from turning, timers come first: what Redis has answered
   * meanwhile is heard before anybody gives up.
   */
  readonly #ring = (): void => {
    timers.setImmediate(this.#giveUp)
  }

  readonly #giveUp = (): void => {
    const now = timers.now()
    this.#timer = undefined
    for (;;) {
      this.#skipSettled()
      const first = this.#turns[this.#head]
      if (first === undefined) {
        return
      }
      if (first.deadline + GRACE_MS > now) {
        this.#set(first.deadline)
        return
      }
      for (const waiting of first.calls) {
        this.#expire(waiting)
      }
    }
  }
}
