import { timers } from '../../../platform/timers.js'
import type { Turn, Waiting } from './deadlines.js'
import type { Pace, Watch } from './scheduler.js'

/**
 * For platforms where each request has timers and connections of its own, which end with it (Cloudflare's Workers): those
 * calls come together that one request makes before it waits, and no call depends on another request's.
 */
export const pace: Pace = {
  holds: false,
  soon: (run) => timers.queueMicrotask(run),
  watch: (expire) => new Timers(expire),
}

/** What sends the calls has the same deadline, and knows more about why: its answer is waited for a little longer. */
const GRACE_MS = 40

/** A timer for each turn. */
class Timers implements Watch {
  readonly #expire: (waiting: Waiting) => void

  constructor(expire: (waiting: Waiting) => void) {
    this.#expire = expire
  }

  add(turn: Turn): void {
    const wait = Math.max(1, turn.deadline + GRACE_MS - timers.now())
    const timer = timers.setTimeout(() => {
      for (const waiting of turn.calls) {
        this.#expire(waiting)
      }
    }, wait)
    turn.whenSettled = () => timers.clearTimeout(timer)
  }

  rest(): void {}
}
