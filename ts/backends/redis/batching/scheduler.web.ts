import { timers } from '../../../platform/timers.js'
import { expiryMsOf } from './deadlines.js'
import type { Scheduler } from './scheduler.js'

/**
 * For platforms where timers and connections belong to one request and end with it (Cloudflare
 * Workers). Calls that one request makes before it waits are batched together, and no call depends
 * on another request. So each tick has its own timer.
 */
export const scheduler: Scheduler = {
  hasBackpressure: false,
  runAfterTick: (run) => timers.queueMicrotask(run),
  trackDeadlines: (expire) => ({
    add(tick) {
      const timer = timers.setTimeout(() => tick.calls.forEach(expire), expiryMsOf(tick.deadline))
      tick.onSettled = () => timers.clearTimeout(timer)
    },
    idle() {},
  }),
}
