import { timers } from '../../../platform/timers.js'
import { Deadlines, type PendingCall, type TickBatch } from './deadlines.js'

/** Tracks the deadlines of calls. */
export interface DeadlineTracker {
  /** Tracks the calls of a tick that has ended. Deadlines never decrease. */
  add(tick: TickBatch): void
  /** No call is pending. */
  idle(): void
}

/** Decides when calls are flushed and when they expire. */
export interface Scheduler {
  /** Whether calls may wait for flushes in flight. */
  readonly hasBackpressure: boolean
  /** Runs a function after all calls of this tick. */
  runAfterTick(run: () => void): void
  /** @param expire - Called with each call whose deadline has passed. */
  trackDeadlines(expire: (waiting: PendingCall) => void): DeadlineTracker
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
