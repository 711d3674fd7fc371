import { timers } from '../../../platform/timers.js'
import { Deadlines, type PendingCall } from './deadlines.js'

/** Decides when calls are flushed and when they expire. */
export interface Scheduler {
  /** Whether calls may wait for flushes in flight. */
  readonly hasBackpressure: boolean
  /** Runs a function after all calls of this tick. */
  runAfterTick(run: () => void): void
  /** @param expire - Called with each call whose deadline has passed. */
  trackDeadlines(expire: (waiting: PendingCall) => void): Pick<Deadlines, 'add' | 'idle'>
}

/**
 * Schedules by the event loop: all calls of a process are batched together. Bundles for the web
 * replace this file by `scheduler.web.ts`.
 */
export const scheduler: Scheduler = {
  hasBackpressure: true,
  runAfterTick: (run) => timers.setImmediate(run),
  trackDeadlines: (expire) => new Deadlines(expire),
}
