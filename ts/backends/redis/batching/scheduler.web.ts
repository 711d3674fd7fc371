import { timers } from '../../../platform/timers.js'
import type { PendingCall, TickBatch } from './deadlines.js'
import type { DeadlineTracker, Scheduler } from './scheduler.js'

/**
 * For platforms where timers and connections belong to one request and end with it (Cloudflare
 * Workers). Calls that one request makes before it waits are batched together, and no call depends
 * on another request.
 */
export const scheduler: Scheduler = {
  hasBackpressure: false,
  runAfterTick: (run) => timers.queueMicrotask(run),
  trackDeadlines: (expire) => new TickTimers(expire),
}

/**
 * The transport has the same deadline, and gives a more precise reason. Its answer therefore gets a
 * little more time.
 */
const GRACE_MS = 40

/** Sets one timer for each tick. */
class TickTimers implements DeadlineTracker {
  readonly #expire: (call: PendingCall) => void

  constructor(expire: (call: PendingCall) => void) {
    this.#expire = expire
  }

  add(tick: TickBatch): void {
    const wait = Math.max(1, tick.deadline + GRACE_MS - timers.now())
    const timer = timers.setTimeout(() => {
      for (const call of tick.calls) {
        this.#expire(call)
      }
    }, wait)
    tick.onSettled = () => timers.clearTimeout(timer)
  }

  idle(): void {}
}
