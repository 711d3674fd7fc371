import { timers } from '../../../platform/timers.js'
import { expiryMsOf, type TickBatch } from './deadlines.js'
import type { Scheduler } from './scheduler.js'

/** A timer that is later than this belongs to a request that has ended. */
const LOST_MS = 1_000

/**
 * For platforms where timers and connections belong to one request and end with it (Cloudflare
 * Workers). Calls that one request makes before it waits are batched together, and no call depends
 * on another request. So each tick has its own timer. That of a request that has ended does not fire: then a later call
 * ends the tick, or its calls would count as pending for ever.
 */
export const scheduler: Scheduler = {
  hasBackpressure: false,
  runAfterTick: (run) => timers.queueMicrotask(run),
  trackDeadlines(expire) {
    /** By deadline. */
    const pending = new Set<TickBatch>()
    return {
      add(tick) {
        for (const earlier of pending) {
          if (earlier.deadline + LOST_MS > timers.now()) {
            break
          }
          earlier.calls.forEach(expire)
        }
        const timer = timers.setTimeout(() => tick.calls.forEach(expire), expiryMsOf(tick.deadline))
        pending.add(tick)
        tick.onSettled = () => {
          pending.delete(tick)
          timers.clearTimeout(timer)
        }
      },
      idle() {},
    }
  },
}
